"""Scripts that run as `validate` runs them, with made-up data for what is not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from porter.validate.observing.settings import Settings

from . import forked

OBSERVED = """
import sys
from pathlib import Path
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.loading import patch_loaders
from porter.validate.stand_ins.substitutes import Substitutes
from porter.validate.running.script import run_script
work, side, script = sys.argv[1:]
substitutes = Substitutes(Settings.load(f"{work}/settings.json"), side, [])
patch_loaders(substitutes)
code = run_script(script, [], Path(work) / side)
print("\\n".join(substitutes.notes), file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Project:
    """A project's script, and the folder of the runs that start it."""

    work: Path
    script: Path

    @property
    def folder(self) -> Path:
        return self.script.parent

    def run(self, text: str, side: str = "source", **settings: Any) -> CompletedProcess[str]:
        """What the script of this text does on a side, which runs once."""
        self.script.write_text(text)
        Settings(work=str(self.work), steps=4, sources=(text,), **settings).save(self.work / "settings.json")
        return self.again(side)

    def again(self, side: str) -> CompletedProcess[str]:
        """What it does on another side, with the settings of before."""
        (self.work / side).mkdir()
        return forked.run(OBSERVED, self.work, side, self.script, cwd=self.folder)
