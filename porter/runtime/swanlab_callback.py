"""SwanLab's callback for transformers' Trainer, in Tunix's training hooks.

from porter.runtime.swanlab_callback import SwanLabCallback
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .callbacks import TrainerCallback, TrainerControl, TrainerState

# What SwanLab's callback draws no curve of.
SINGLE = frozenset("train_runtime train_samples_per_second train_steps_per_second train_loss total_flos".split())


class SwanLabCallback(TrainerCallback):
    """Sends the log lines to SwanLab from the first process, by the names that SwanLab's own callback gives them.

    The run begins with the training, unless the script has begun one; `config` holds what is given here and the
    script's arguments object, without the model's own config. The arguments are those of `swanlab.init`.
    """

    def __init__(
        self,
        project: str | None = None,
        workspace: str | None = None,
        experiment_name: str | None = None,
        description: str | None = None,
        **settings: Any,
    ) -> None:
        self._settings = {
            "project": project,
            "workspace": workspace,
            "experiment_name": experiment_name,
            "description": description,
            **settings,
        }
        self._begun = False

    def update_config(self, config: Mapping[str, Any]) -> None:
        """More of the run's config."""
        _swanlab().config.update(dict(config))

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._begun or not state.is_world_process_zero:
            return
        self._begun = True
        swanlab = _swanlab()
        if not _runs(swanlab):
            settings = {**self._settings, "project": self._settings["project"] or os.getenv("SWANLAB_PROJECT")}
            swanlab.init(**{name: value for name, value in settings.items() if value is not None})
        if hasattr(args, "to_dict"):
            swanlab.config.update(args.to_dict())

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.on_train_begin(args, state, control)
        line, step = kwargs.get("logs") or {}, state.global_step
        for name in SINGLE & line.keys():
            _swanlab().log({f"single_value/{name}": line[name]}, step=step)
        curves = {_section(name): value for name, value in line.items() if name not in SINGLE}
        _swanlab().log({**curves, "train/global_step": step}, step=step)


def _swanlab() -> Any:
    import swanlab  # type: ignore[import-not-found, unused-ignore]

    return swanlab


def _runs(swanlab: Any) -> bool:
    """Whether a run has begun: without one `get_run` gives None, from SwanLab 0.7 on it raises."""
    try:
        return swanlab.get_run() is not None
    except RuntimeError:
        return False


def _section(name: str) -> str:
    for section in ("eval", "test"):
        if name.startswith(f"{section}_"):
            return f"{section}/{name[len(section) + 1 :]}"
    return f"train/{name}"
