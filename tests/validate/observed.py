"""A script with made-up data in place of what it reads: `python -m tests.validate.observed WORK SIDE SCRIPT`."""

from __future__ import annotations

import sys
from pathlib import Path

from porter.validate.observing.settings import Settings
from porter.validate.running.script import run_script
from porter.validate.stand_ins.substitutes import Substitutes, patch_loaders

if __name__ == "__main__":
    work, side, script = sys.argv[1:]
    substitutes = Substitutes(Settings.load(f"{work}/settings.json"), side, [])
    patch_loaders(substitutes)
    code = run_script(script, [], Path(work) / side)
    print("\n".join(substitutes.notes), file=sys.stderr)
    sys.exit(code)
