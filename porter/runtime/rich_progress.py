"""TRL's RichProgressCallback for ported scripts: a bar of the training's steps, and its last log line."""

from __future__ import annotations

from typing import Any

from .callbacks import TrainerCallback


class RichProgressCallback(TrainerCallback):
    """Draws with rich, which has to be installed. Evaluations have no bar: Tunix doesn't tell of their batches."""

    def __init__(self) -> None:
        self._live: Any = None
        self._bar: Any = None
        self._line: Any = None
        self._task: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        from rich.console import Console, Group
        from rich.live import Live
        from rich.panel import Panel
        from rich.progress import Progress

        self._bar, self._line = Progress(), Console().status("Nothing to log yet ...")
        self._live = Live(Panel(Group(self._bar, self._line)))
        self._live.start()
        self._task = self._bar.add_task("[blue]Training the model", total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._live is not None:
            self._bar.update(self._task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self._live is not None:
            self._line.update(f"[bold green]Status = {logs}")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._live is not None:
            self._live.stop()
            self.__init__()  # type: ignore[misc]
