"""How many processes a GPU run had of which no launch config tells, and what the report says of that.

What the project shows of how it starts the script counts most, then the batch that a notebook's outputs show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....recipe import Severity
from ....source.launch.usual_launch import UsualLaunch, usual_launch
from ...script.training import Training
from .shown_batch import shown_batch

COUNTED = "WORLD_SIZE"  # where a script reads how many processes there are


@dataclass(frozen=True)
class UntoldLaunch:
    """`said` and `advice` tell it; the port takes as many `processes`."""

    said: str
    advice: str
    severity: Severity
    processes: int = 1


def untold_launch(porting: Training) -> UntoldLaunch:
    """What is taken where no launch config is given."""
    usual = _usual(porting)
    if usual is not None and usual.processes > 1:
        return _of_several(porting, usual)
    if (shown := shown_batch(porting)) is not None:
        severity: Severity = "info" if shown.sure else "warning"
        return UntoldLaunch(shown.said, shown.advice, severity, max(shown.processes, 1))
    if sharded := porting.known("mesh.fsdp"):
        said = f"No launch config, but fsdp={sharded!r} needs what a launcher starts: one plain process is refused. "
        said += "The port takes one, with a batch as many times smaller as the GPU run had."
        advice = "Give --launch-config FILE, or --processes N for the GPUs that it ran on."
        return UntoldLaunch(said, advice, "warning")
    advice = "Give --launch-config FILE or --processes N if it had more."
    if usual is not None:
        said = f"{usual.where} starts one process: so is the GPU run taken, which decides the effective batch."
    else:
        said = "No launch config: the GPU run is taken to be one process, which decides the effective batch."
    return UntoldLaunch(said, advice, "info")


def _of_several(porting: Training, usual: UsualLaunch) -> UntoldLaunch:
    takes = f"the port takes one, with a batch {usual.processes} times smaller"
    if COUNTED in porting.module.text:
        takes = f"the port takes one, for which what the script makes of {COUNTED} is calculated"
    said = f"No launch config, but {usual.where} starts {usual.processes} processes: {takes}."
    named = f"--launch-config {usual.file}" if usual.file else f"--processes {usual.processes}"
    return UntoldLaunch(said, f"Give {named} if the GPU run was started so, --processes 1 if not.", "warning")


def _usual(porting: Training) -> UsualLaunch | None:
    """How the file says that it is started: the same for each of its trainers."""
    if "usual launch" not in porting.answers:
        porting.answers["usual launch"] = usual_launch(Path(porting.module.path), porting.module.text)
    found: UsualLaunch | None = porting.answers["usual launch"]
    return found
