"""Checkpoint folders: Orbax resumes from whatever it finds, the Trainer only when asked to."""

from __future__ import annotations

import os
import secrets
import time
import warnings

from etils import epath  # type: ignore[import-untyped]

from ..facts import sidecar
from ..hosts import processes as hosts
from .main_process import main_print

FINISHED = "commit_success.txt"
LONGEST = 300  # characters of what a file system says
SEEN_WITHIN = 10.0  # seconds in which a shared folder shows what another host wrote
_given: dict[str, int] = {}  # how many trainings of this process save in each folder or beside it


def fresh_dir(path: str | os.PathLike[str]) -> str:
    """`path` for TrainingConfig.checkpoint_root_directory: absolute, and sure to hold no checkpoints.

    A file in it notes what the checkpoints will hold, for `tpu-port export` (see sidecar.py). A further training of
    one process, whose checkpoints the Trainer puts among those of the one before, gets `path-2`, and says so.

    FileExistsError when an earlier run left some: Tunix would silently resume from them. ValueError where several JAX
    processes have different folders of this name, each on its own disk, and for a bucket that can't be written to.
    """
    folder = _absolute(path)
    _check_place(folder)
    steps = _saved_steps(folder)
    trainings = _given.get(str(folder), 0)
    if steps and not trainings:
        raise FileExistsError(
            f"{folder} holds checkpoints of an earlier run (steps {', '.join(map(str, steps))}), from which Tunix "
            "would resume; remove them, choose another folder, or write rt.resume_dir to resume"
        )
    number = _given[str(folder)] = trainings + 1 if steps else 1
    if steps:
        main_print(f"{folder} holds the checkpoints of a training before: this one's go to {folder}-{number}")
        return fresh_dir(f"{folder}-{number}")
    sidecar.checkpoints_in(folder)
    return str(folder)


def resume_dir(path: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | bool | None = True) -> str:
    """`path` for TrainingConfig.checkpoint_root_directory: absolute, with a checkpoint to resume from.

    `path` is the folder of a run, or its newest checkpoint in there. `checkpoint` is what the Trainer's
    `resume_from_checkpoint` was given: a path takes the place of `path`, and its run goes on in its own folder.
    FileNotFoundError when there is no checkpoint that Orbax wrote: a PyTorch `checkpoint-500` can't be resumed.
    """
    folder = _absolute(path if isinstance(checkpoint, bool | None) else checkpoint)
    _check_place(folder)
    if folder.name.isdigit() and _saved_steps(folder.parent):
        newest = _saved_steps(folder.parent)[-1]
        if int(folder.name) != newest:
            raise FileNotFoundError(f"Tunix resumes from the newest checkpoint, which is {folder.parent / str(newest)}")
        folder = folder.parent
        sidecar.checkpoints_in(folder)
        return str(folder)
    if not _saved_steps(folder):
        raise FileNotFoundError(
            f"{folder} holds no checkpoint of a Tunix run to resume from"
            + ("; a PyTorch checkpoint can't be resumed" if folder.name.startswith("checkpoint-") else "")
        )
    sidecar.checkpoints_in(folder)
    return str(folder)


def get_last_checkpoint(path: str | os.PathLike[str]) -> str | None:
    """The newest checkpoint that Orbax finished in `path`, or None: transformers' function of this name for Orbax.

    `rt.resume_dir` takes what it returns.
    """
    folder = _absolute(path)
    steps = _saved_steps(folder)
    if not steps and folder.is_dir() and any(child.name.startswith("checkpoint-") for child in folder.iterdir()):
        said = f"{folder} holds torch's checkpoints (checkpoint-...), which aren't resumed: training begins anew"
        warnings.warn(said, stacklevel=2)
    return str(folder / str(steps[-1])) if steps else None


def _check_place(folder: epath.Path) -> None:
    """ValueError for a place that keeps no checkpoints, before anything is trained for them.

    What may not be written to a bucket shows only when it is written. Orbax's processes write into one folder: on disks
    of their own they wait 20 minutes for each other, in vain.
    """
    bucket = "://" in os.fspath(folder)
    if hosts.count() == 1 and not bucket:
        return

    def write() -> str:
        probe = f".tpu_port_{secrets.token_hex(8)}"
        try:
            if not bucket:  # no folders there
                folder.mkdir(parents=True, exist_ok=True)
            (folder / probe).write_text("")
        except Exception as error:  # each file system has its own, and one that isn't installed ImportError
            said = " ".join(str(error).split())[:LONGEST]
            raise ValueError(f"{folder} can't be written to: {type(error).__name__}: {said}") from None
        return probe

    probe = hosts.from_first("writing to the checkpoint folder", write)
    if hosts.count() == 1:
        (folder / probe).unlink()
        return
    until = time.monotonic() + SEEN_WITHIN
    while not (seen := (folder / probe).exists()) and time.monotonic() < until:
        time.sleep(0.5)
    answers = hosts.gathered("the checkpoint folder", "seen" if seen else "")
    if hosts.is_first():
        (folder / probe).unlink()
    apart = [str(number) for number, answer in enumerate(answers) if not answer]
    if apart:
        raise ValueError(
            f"{folder} is a disk of its own on process {', '.join(apart)}: the checkpoints of several hosts need one "
            "folder that all of them see, such as gs://BUCKET/FOLDER or a mounted share"
        )


def _absolute(path: str | os.PathLike[str]) -> epath.Path:
    text = os.fspath(path)
    return epath.Path(text if "://" in text else os.path.abspath(os.path.expanduser(text)))


def _saved_steps(folder: epath.Path) -> list[int]:
    """Steps with a finished Orbax checkpoint in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    steps = [child for child in folder.iterdir() if child.name.isdigit() and child.is_dir()]
    if os.fspath(folder).startswith("gs://"):  # where Orbax can't rename a folder, a file says that it is whole
        steps = [step for step in steps if (step / FINISHED).exists()]
    return sorted(int(step.name) for step in steps)
