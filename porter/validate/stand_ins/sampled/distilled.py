"""GKDTrainer samples some of what it trains on: the port trains on the completions that the source sampled.

As in `rollouts`: who samples in which micro-step, and what, is written down with the source and given to the port.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def watch(trainer: Any, sampled: Callable[[Any], None]) -> None:
    """Make the class GKDTrainer tell what each micro-step samples: `sampled([prompts, completions])`, or None for
    nothing. Other trainers stay as they are."""
    if not hasattr(trainer, "generate_on_policy_outputs") or hasattr(trainer, "_porter_watched"):
        return
    step, generate = trainer.training_step, trainer.generate_on_policy_outputs
    made: list[Any] = []

    @functools.wraps(generate)
    def patched_generate(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        found = generate(model, inputs, *args, **kwargs)
        kept = inputs["prompt_attention_mask"].bool()
        prompts = [ids[keep].tolist() for ids, keep in zip(inputs["prompts"], kept, strict=True)]
        made.append([prompts, [labels[labels != -100].tolist() for labels in found[2]]])
        return found

    @functools.wraps(step)
    def patched_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        made.clear()
        result = step(self, *args, **kwargs)
        sampled(made[0] if made else None)
        return result

    trainer.generate_on_policy_outputs, trainer.training_step = staticmethod(patched_generate), patched_step
    trainer._porter_watched = True


def replay(runtime: str, recorded: Sequence[Any], problems: list[str]) -> None:
    """Let the runtime package `runtime` take `recorded` micro-steps for its own draws and completions."""
    batches = import_module(f"{runtime}.distillation.distillation_batches").GKDBatches
    drawn, waiting = batches._drawn, list(recorded)

    def theirs(place: int, found: Any, prompts: Any, key: Any) -> Any:
        expected, completions = found
        if [list(ids) for ids in prompts[: len(expected)]] != expected:
            problems.append(f"micro-step {place + 1} samples after other prompts than the source's, or others' tokens")
        return list(itertools.islice(itertools.cycle(completions), len(prompts)))

    @functools.wraps(drawn)
    def patched(self: Any, chances: Any) -> Any:
        if not waiting:
            return drawn(self, chances)
        place, found = len(recorded) - len(waiting), waiting.pop(0)
        return None if found is None else functools.partial(theirs, place, found)

    batches._drawn = patched
