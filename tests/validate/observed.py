"""Scripts that run as `validate` runs them, with made-up data for what is not there."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from porter.validate.observing.settings import Settings

from . import forked

OBSERVED = """
import sys
from pathlib import Path
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.substitutes import Substitutes, patch_loaders
from porter.validate.running.script import run_script
work, side, script = sys.argv[1:]
substitutes = Substitutes(Settings.load(f"{work}/settings.json"), side, [])
patch_loaders(substitutes)
code = run_script(script, [], Path(work) / side)
print("\\n".join(substitutes.notes), file=sys.stderr)
sys.exit(code)
"""


def observed(work: Path, side: str, script: Path) -> CompletedProcess[str]:
    (work / side).mkdir()
    return forked.run(OBSERVED, work, side, script, cwd=script.parent)


def settings(work: Path, script: Path, text: str, **more: Any) -> None:
    script.write_text(text)
    Settings(work=str(work), steps=4, sources=(text,), **more).save(work / "settings.json")
