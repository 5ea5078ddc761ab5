"""Two runs that sample can't be equal token by token: the port trains on the completions that the source sampled.

The source's GRPOTrainer or RLOOTrainer samples as it likes; its completions are written down, and kept in their order.
The port's sampler is given them. All that follows is compared as it is for supervised training: rewards and advantages
by way of the loss and its gradient, the log-probabilities, the optimizer, the weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .trace import IGNORED, Row

NOTE = "the port trained on the completions that the source sampled: sampling itself was not compared"
# Advantages are about 1 and cancel in the loss, which is 0 for weights that just sampled.
LOSS_FLOOR = 1.0


def watch_source(began: Callable[[], None], sampled: Callable[..., None], trained: Callable[[Any], None]) -> None:
    """Make TRL's trainers tell what they sample, `sampled(prompts, completions)`, and the batches of their loss."""
    for kind in ("grpo", "rloo"):
        try:
            module = import_module(f"trl.trainer.{kind}_trainer")
            trainer = getattr(module, f"{kind.upper()}Trainer")
        except (ImportError, AttributeError):
            continue
        if hasattr(trainer, "_generate_single_turn") and hasattr(module, "shuffle_sequence_dict"):
            module.shuffle_sequence_dict = lambda rows: rows  # type: ignore[attr-defined]
            _watch(trainer, began, sampled, trained)


def _watch(
    trainer: Any, began: Callable[[], None], sampled: Callable[..., None], trained: Callable[[Any], None]
) -> None:
    init, generate, compute = trainer.__init__, trainer._generate_single_turn, trainer._compute_loss

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        began()
        init(self, *args, **kwargs)

    @functools.wraps(generate)
    def patched_generate(self: Any, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        result = generate(self, prompt_ids, *args, **kwargs)
        completions = result[0] if isinstance(result, tuple) else result
        if self.model.training:
            sampled([list(map(int, ids)) for ids in prompt_ids], [list(map(int, ids)) for ids in completions])
        return result

    @functools.wraps(compute)
    def patched_compute(self: Any, model: Any, inputs: Any) -> Any:
        if self.model.training:
            trained(inputs)
        return compute(self, model, inputs)

    trainer.__init__, trainer._generate_single_turn, trainer._compute_loss = (
        patched_init,
        patched_generate,
        patched_compute,
    )


def rows_of_torch(inputs: Any) -> list[Row]:
    """Prompts and trained completions of a batch of TRL's loss; the prompts aren't trained."""
    arrays = {name: value.detach().cpu().numpy() for name, value in inputs.items() if hasattr(value, "detach")}
    rows = []
    for prompt, keep, completion, mask in zip(
        arrays["prompt_ids"], arrays["prompt_mask"], arrays["completion_ids"], arrays["completion_mask"], strict=True
    ):
        rows.append(_row(prompt[keep > 0], completion[mask > 0]))
    return rows


def rows_of_jax(batch: dict[str, Any]) -> list[Row]:
    """The same of a batch of the runtime's; rows that fill it up give none."""
    length = np.asarray(batch["completion_mask"]).shape[1]
    rows = []
    for tokens, segments, mask in zip(
        batch["input_tokens"], batch["segment_ids"], batch["completion_mask"], strict=True
    ):
        prompt, completion = np.asarray(tokens[:-length]), np.asarray(tokens[-length:])
        keep = np.asarray(segments[:-length]) > 0
        if keep.any():
            rows.append(_row(prompt[keep], completion[np.asarray(mask) > 0]))
    return rows


def _row(prompt: np.ndarray, completion: np.ndarray) -> Row:
    tokens = np.concatenate([prompt, completion])
    return Row.of(tokens, np.concatenate([np.full(len(prompt), IGNORED), completion]))


def replay(runtime: str, recorded: Sequence[Any], problems: list[str]) -> None:
    """Let the runtime package `runtime` take `recorded` completions for its own, batch by batch and in their order.

    A generation batch with other prompts than the source's is a problem, and is sampled; so is what the source didn't.
    """
    module = import_module(f"{runtime}.rollouts")
    sample = module.Sampler.__call__
    waiting = list(recorded)

    @functools.wraps(sample)
    def patched(self: Any, prompts: Any, key: Any) -> Any:
        if not waiting:
            return sample(self, prompts, key)
        theirs, completions = waiting.pop(0)
        if [list(ids) for ids in prompts] != theirs:
            number = len(recorded) - len(waiting)
            problems.append(f"generation batch {number} has other prompts than the source's, or others' tokens")
            waiting.clear()
            return sample(self, prompts, key)
        return completions

    module.Sampler.__call__ = patched
    module.mixed = lambda count, seed, number: np.arange(count)  # type: ignore[attr-defined]
