"""`trainer_state.json`: what a run did, in the form in which transformers' Trainer writes it.

`log_history` has a line for every optimizer step, unrounded, as with `logging_steps=1`; evaluations and the summary of
the run stand between them as the Trainer's do. `transformers.TrainerState.load_from_json` reads the file: what it has
no field for (versions, mesh, devices, the script) stands in `stateful_callbacks["tpu_port"]`, see docs/compare.md.

The file lies in the run's output folder and, up to its step, in each checkpoint. One process writes it, whole and
moved into place; a resumed run goes on in it behind the step that it resumes from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
from etils import epath  # type: ignore[import-untyped]

NAME = "trainer_state.json"
OURS = "tpu_port"  # the key in stateful_callbacks
PATIENCE = 10.0  # seconds between two writes
SHARE = 0.01  # of the run's time that writing may take

Lines = list[dict[str, Any]]
State = Callable[[Lines], Mapping[str, Any]]
Finished = Callable[[Lines], Lines]


class Record:
    """The state file of one run in `folder`, None for a run without one.

    Args:
        folder: the run's output folder, as `rt.fresh_dir` gives it.
        facts: what `run_facts.facts` found: plain JSON values.
    """

    def __init__(self, folder: Any, facts: Mapping[str, Any]) -> None:
        self._folder = epath.Path(folder) if folder is not None and jax.process_index() == 0 else None
        self._facts = dict(facts)
        self._lines: list[dict[str, Any]] = []
        self._earlier: list[Any] = []
        self._copied: set[int] = set()
        self._told = False
        self._reported = 0
        self._written = self._spent = 0.0
        self._began = time.monotonic()

    def begin(self, step: int) -> None:
        """Take what an earlier run left of the steps up to `step`, the one that this run resumes from."""
        self._began = time.monotonic()
        if self._folder is None or step == 0:
            return
        for place in (self._folder, self._folder / str(step)):
            found = _read(place / NAME)
            if found is not None:
                history = found["log_history"]
                self._lines = [line for line in history if line["step"] <= step and "train_runtime" not in line]
                ours = found.get("stateful_callbacks", {}).get(OURS, {})
                self._earlier = list(ours.get("attributes", {}).get("runs", []))
                return

    def total(self, name: str) -> float:
        """The last value of a running total in what was taken over, 0 without."""
        return float(next((line[name] for line in reversed(self._lines) if name in line), 0))

    def add(self, line: Mapping[str, Any], *, reported: bool = True) -> None:
        """One line of the history; a line of training takes the place of an earlier one of its step.

        One that isn't `reported` yet stands in for it, should the run end here.
        """
        if self._folder is None:
            return
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
        if self._folder is None:
            return
        started = time.monotonic()
        due = started - self._written > PATIENCE and self._spent <= SHARE * (started - self._began)
        if not (due or now):
            return
        self._put(self._folder / NAME, self._text(state, finished(self._lines)))
        self._written = time.monotonic()
        self._spent += self._written - started

    def in_checkpoints(self, state: State, finished: Finished, steps: Iterable[int]) -> None:
        """The record up to its step into each finished checkpoint that has none yet: where transformers puts it."""
        for step in steps if self._folder is not None else ():
            folder = self._folder / str(step)  # type: ignore[operator]
            if step in self._copied or step > self._reported or not folder.is_dir():
                continue
            self._copied.add(step)
            if not (folder / NAME).exists():
                lines = [line for line in self._lines if line["step"] <= step and "train_runtime" not in line]
                self._put(folder / NAME, self._text(state, finished(lines)))

    def _put(self, path: Any, text: str) -> None:
        """A full disk or a bucket without permission ends no training: it is said once, and tried again."""
        try:
            _put(path, text)
        except OSError as error:
            if not self._told:
                print(f"{path} can't be written: {error}")
            self._told = True

    def _text(self, state: State, lines: Lines) -> str:
        own = {"args": {}, "attributes": {**self._facts, "runs": [*self._earlier, self._facts.get("run", {})]}}
        whole = {**BLANK, **state(lines), "log_history": lines, "stateful_callbacks": {OURS: own}}
        return json.dumps(whole, indent=2, sort_keys=True, default=_plain) + "\n"


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


def _read(path: Any) -> dict[str, Any] | None:
    """A state file that an earlier run left; None where there is none that can be read."""
    try:
        found = json.loads(path.read_text())
        usable = all(isinstance(line["step"], int) for line in found["log_history"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if usable else None


def _put(path: Any, text: str) -> None:
    """The text under its name at once: a reader, or a run that is ended here, finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "://" in str(path):
        path.write_text(text)  # an object store has a new object when it is whole
        return
    partial = path.parent / f".{NAME}.partial"
    partial.write_text(text)
    partial.replace(path)


def _plain(value: Any) -> Any:
    """NumPy's and JAX's scalars as Python's."""
    return value.item() if hasattr(value, "item") else str(value)
