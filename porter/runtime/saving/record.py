"""`trainer_state.json`: what a run did, in the form in which transformers' Trainer writes it.

`log_history` has a line for every optimizer step, unrounded, as with `logging_steps=1`; evaluations and the summary of
the run stand between them as the Trainer's do. `transformers.TrainerState.load_from_json` reads the file: what it has
no field for (versions, mesh, devices, the script) stands in `stateful_callbacks["tpu_port"]`, see docs/compare.md.

The file lies in the run's output folder and, up to its step, in each checkpoint. One process writes it, whole and
moved into place; a resumed run goes on in it behind the step that it resumes from. Whatever keeps it from being read
or written is said once, and ends no training.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from etils import epath  # type: ignore[import-untyped]

NAME = "trainer_state.json"
OURS = "tpu_port"  # the key in stateful_callbacks
PATIENCE = 10.0  # seconds between two writes
SHARE = 0.01  # of the run's time that writing may take

Lines = list[dict[str, Any]]
State = Callable[[Lines], Mapping[str, Any]]
Finished = Callable[[Lines], Lines]


class Record:
    """The state file of one run in `folder`.

    Args:
        folder: the run's output folder, as `rt.fresh_dir` gives it.
        facts: what `run_facts.facts` found: plain JSON values.
    """

    def __init__(self, folder: Any, facts: Mapping[str, Any]) -> None:
        self._folder = epath.Path(folder)
        self._facts = dict(facts)
        self._lines: list[dict[str, Any]] = []
        self._earlier: list[Any] = []
        self._copied: set[int] = set()
        self._told: set[str] = set()
        self._reported = 0
        self._refused = -PATIENCE
        self._written = self._spent = 0.0
        self._began = time.monotonic()

    def begin(self, step: int) -> None:
        """Take what an earlier run left of the steps up to `step`, the one that this run resumes from."""
        self._began = time.monotonic()
        if step == 0:
            return
        reached = -1
        for path in (self._folder / NAME, self._folder / str(step) / NAME):
            with self._going_on(path, "read"):
                found = _read(path)
                lines = [] if found is None else _until(found["log_history"], step)
                last = max((line["step"] for line in lines if "loss" in line), default=0)
                if found is not None and last > reached:  # the run's own may end before its last checkpoint's
                    reached, self._lines, self._earlier = last, lines, _runs(found)

    def total(self, name: str) -> float:
        """The last value of a running total in what was taken over, 0 without."""
        values = (line.get(name) for line in reversed(self._lines))
        return float(next((value for value in values if isinstance(value, int | float)), 0))

    def add(self, line: Mapping[str, Any], *, reported: bool = True) -> None:
        """One line of the history; a line of training takes the place of an earlier one of its step.

        One that isn't `reported` yet stands in for it, should the run end here.
        """
        step = line["step"]
        if "loss" not in line:
            self._lines.append(dict(line))
            return
        at = len(self._lines)
        while at and self._lines[at - 1]["step"] >= step:
            at -= 1
        # Tunix evaluates before it reports the step; the Trainer logs it first.
        self._lines[at:] = [dict(line), *(each for each in self._lines[at:] if "loss" not in each)]
        if reported:
            self._reported = step

    def write(self, state: State, finished: Finished, *, now: bool = False) -> None:
        """Write the file when its time has come, or `now`.

        `state`: the fields of transformers' TrainerState that some lines are the history of. `finished`: the lines
        with what isn't worth working out in every step.
        """
        started = time.monotonic()
        due = started - self._written > PATIENCE and self._spent <= SHARE * (started - self._began)
        if not (due or now):
            return
        with self._going_on(self._folder / NAME, "written"):
            _put(self._folder / NAME, self._text(state, finished(self._lines)))
        self._written = time.monotonic()
        self._spent += self._written - started

    def in_checkpoints(self, state: State, finished: Finished, steps: Iterable[int], *, now: bool = False) -> None:
        """The record up to its step into each finished checkpoint that has none yet: where transformers puts it.

        One that it couldn't be written into is tried again, after a while or `now`.
        """
        if not now and time.monotonic() - self._refused < PATIENCE:
            return
        for step in steps:
            if step in self._copied or step > self._reported:
                continue
            path = self._folder / str(step) / NAME
            with self._going_on(path, "written"):
                if not path.parent.is_dir():
                    continue
                if not path.exists():
                    _put(path, self._text(state, finished(_until(self._lines, step))))
                self._copied.add(step)

    @contextmanager
    def _going_on(self, path: Any, done: str) -> Iterator[None]:
        """A full disk, a bucket without permission, a value that isn't JSON end no training: it is said once."""
        try:
            yield
        except Exception as error:
            self._refused = time.monotonic()
            if done not in self._told:
                print(f"{path} can't be {done}: {type(error).__name__}: {error}; the training goes on")
            self._told.add(done)

    def _text(self, state: State, lines: Lines) -> str:
        own = {"args": {}, "attributes": {**self._facts, "runs": [*self._earlier, self._facts.get("run", {})]}}
        whole = {**BLANK, **state(lines), "log_history": lines, "stateful_callbacks": {OURS: own}}
        return as_json(whole)


# transformers 5.12's TrainerState as it is made.
BLANK: dict[str, Any] = {
    "best_global_step": None,
    "best_metric": None,
    "best_model_checkpoint": None,
    "epoch": 0,
    "eval_steps": 500,
    "global_step": 0,
    "is_hyper_param_search": False,
    "is_local_process_zero": True,
    "is_world_process_zero": True,
    "logging_steps": 1,
    "max_steps": 0,
    "num_input_tokens_seen": 0,
    "num_train_epochs": 0,
    "save_steps": 500,
    "total_flos": 0,
    "train_batch_size": None,
    "trial_name": None,
    "trial_params": None,
}


def best_until(folder: Any, step: int) -> dict[str, Any]:
    """`best_metric`, `best_global_step` and `best_model_checkpoint` as an earlier run left them at `step`; or nothing.

    The checkpoint's own record has them as of its step; the run's may have gone on behind it.
    """
    for path in (epath.Path(folder) / str(step) / NAME, epath.Path(folder) / NAME):
        found = _read(path) or {}
        at = found.get("best_global_step")
        if isinstance(at, int) and at <= step and isinstance(found.get("best_metric"), int | float):
            return {name: found.get(name) for name in ("best_metric", "best_global_step", "best_model_checkpoint")}
    return {}


def _read(path: Any) -> dict[str, Any] | None:
    """A state file that an earlier run left; None where there is none that can be read."""
    try:
        found = json.loads(path.read_text())
        usable = all(isinstance(line["step"], int) for line in found["log_history"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if usable else None


def _until(lines: Lines, step: int) -> Lines:
    return [line for line in lines if line["step"] <= step and "train_runtime" not in line]


def _runs(found: Mapping[str, Any]) -> list[Any]:
    """What a state file says of the runs that wrote it; nothing for one that another program wrote."""
    try:
        return list(found["stateful_callbacks"][OURS]["attributes"]["runs"])
    except (KeyError, TypeError):
        return []


def _put(path: Any, text: str) -> None:
    """The text under its name at once: a reader, or a run that is ended here, finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "://" in str(path):
        path.write_text(text)  # an object store has a new object when it is whole
        return
    partial = path.parent / f".{NAME}.partial"
    partial.write_text(text)
    partial.replace(path)


def as_json(state: Mapping[str, Any]) -> str:
    """A state as transformers writes it."""
    return json.dumps(_plain(state), indent=2, sort_keys=True) + "\n"


def _plain(value: Any) -> Any:
    """A value as JSON has it: NumPy's and JAX's scalars and arrays as numbers and lists, keys and the rest as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    found = value.tolist() if hasattr(value, "tolist") else value
    return _plain(found) if isinstance(found, list | int | float | str) else str(found)
