"""GRPOTrainer of TRL 0.14, whose loss samples: what it samples, and its rewards in float64, as of later releases."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


def watch(
    module: ModuleType,
    trainer: Any,
    began: Callable[[], None],
    sampled: Callable[[dict[str, Any]], None],
    scored: Callable[[Any, int], None],
) -> None:
    """Make the `trainer` of TRL's `module` tell the rows of each loss, `sampled(rows)`, prompts repeated and the
    completions' masks ending at the first end token, and its rewards (rows, functions), `scored(rewards, generations)`.
    """
    unwrap, init, compute = module.unwrap_model_for_generation, trainer.__init__, trainer.compute_loss
    running: list[Any] = []

    @contextlib.contextmanager
    def watched(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with unwrap(*args, **kwargs) as model:
            if not running:
                yield model
                return
            generate = model.generate

            @functools.wraps(generate)
            def generated(*given: Any, **asked: Any) -> Any:
                whole = generate(*given, **asked)
                sampled(rows_of(asked["input_ids"], asked["attention_mask"], whole, running[-1]))
                return whole

            model.generate = generated
            try:
                yield model
            finally:
                del model.generate

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        began()
        init(self, *args, **kwargs)

    @functools.wraps(compute)
    def patched_compute(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.model.training:
            return compute(self, model, *args, **kwargs)
        running.append(self.processing_class.eos_token_id)
        module.torch = counting = InDoubles(module.torch)  # type: ignore[attr-defined]
        try:
            return compute(self, model, *args, **kwargs).float()
        finally:
            running.pop()
            module.torch = counting.torch  # type: ignore[attr-defined]
            scored(counting.latest, self.num_generations)

    module.unwrap_model_for_generation = watched  # type: ignore[attr-defined]
    trainer.__init__, trainer.compute_loss = patched_init, patched_compute


class InDoubles:
    """torch, whose `zeros` of rewards, the only ones of that loss, are of float64; `latest` holds them."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.latest = torch, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def zeros(self, *size: Any, **kwargs: Any) -> Any:
        self.latest = self.torch.zeros(*size, **{**kwargs, "dtype": self.torch.float64})
        return self.latest


def rows_of(prompts: Any, mask: Any, whole: Any, end: int | None) -> dict[str, Any]:
    """The batch that a later release would make of `prompts`, a tensor (prompts, tokens) with its `mask`, and of what
    was generated for them, a tensor (prompts × generations, tokens)."""
    generations = len(whole) // len(prompts)
    completions = whole[:, prompts.shape[1] :]
    ends = (completions == end).int() if end is not None else completions.new_zeros(completions.shape)
    return {
        "prompt_ids": prompts.repeat_interleave(generations, dim=0),
        "prompt_mask": mask.repeat_interleave(generations, dim=0),
        "completion_ids": completions,
        "completion_mask": (ends.cumsum(dim=1) - ends == 0).int(),
    }
