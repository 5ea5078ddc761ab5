"""Two runs that sample can't be equal token by token: the port trains on the completions that the source sampled.

The source's GRPOTrainer or RLOOTrainer samples as it likes; its completions are written down, and kept in their order.
The port's sampler is given them. All that follows is compared as it is for supervised training: rewards and advantages
by way of the loss and its gradient, the log-probabilities, the optimizer, the weights.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ....runtime.facts.field_tables import version_key
from ...comparing.trace import IGNORED, Row
from . import sampling_losses

NOTE = "the port trained on the completions that the source sampled: sampling itself was not compared"
ROUNDED = (
    "rewards of a group that are all but equal were added up in float64 on the source's side, as in the port: what "
    "float32's rounding makes of them, divided by their spread, was part of its advantages"
)
# An advantage's error by the last bit of a float32, of which a loss shows one: rewards of 1 whose spread is below 0.01.
LAST_BIT, SEEN = 6e-8, 5e-6
# Advantages are about 1 and cancel in the loss, which is 0 for weights that just sampled.
LOSS_FLOOR = 1.0


# What sampling ends in, newest first: one turn's tokens (from TRL 0.29 on), scored completions (0.16), a batch (0.15).
TURN, SCORED, BATCH = "_generate_single_turn", "_generate_and_score_completions", "_prepare_inputs"
FIRST = (0, 15)
SHUFFLES = ("shuffle_sequence_dict", "shuffle_tensor_dict")


def watch_source(
    began: Callable[[], None],
    sampled: Callable[..., None],
    trained: Callable[[Any], None],
    rounded: Callable[[], None],
) -> None:
    """Make TRL's trainers tell what they sample, `sampled(prompts, completions)`, and the batches of their loss.

    `rounded` is called when advantages that were nothing but rounding have been set to 0.

    The RLOO of before TRL 0.22, which has a loop of its own, isn't watched.
    """
    for kind in ("grpo", "rloo"):
        try:
            module = import_module(f"trl.trainer.{kind}_trainer")
            trainer = getattr(module, f"{kind.upper()}Trainer")
        except (ImportError, AttributeError):
            continue
        samples = sampling_of(trainer)
        if samples is None:
            continue
        if version_key(import_module("trl").__version__) < FIRST:
            sampling_losses.watch(module, trainer, began, *_of_losses(sampled, trained, rounded))
            continue
        for name in SHUFFLES:
            if hasattr(module, name):
                setattr(module, name, lambda rows: rows)
        latest: list[Any] = [None]
        if hasattr(module, "gather"):
            module.gather = in_doubles(module.gather, latest)  # type: ignore[attr-defined]
        _watch(trainer, samples, began, sampled, trained)
        scores = SCORED if SCORED in vars(trainer) else BATCH
        setattr(trainer, scores, levelled(getattr(trainer, scores), latest, rounded))


def _of_losses(
    sampled: Callable[..., None], trained: Callable[[Any], None], rounded: Callable[[], None]
) -> tuple[Callable[[dict[str, Any]], None], Callable[[Any, int], None]]:
    def rows(found: dict[str, Any]) -> None:
        sampled(*of_scored(found))
        trained(found)

    def scored(rewards: Any, generations: int) -> None:
        if all_but_equal(rewards, generations):
            rounded()

    return rows, scored


def sampling_of(trainer: Any) -> str | None:
    """The method of a trainer's class that tells what was sampled; None of a release that has none.

    One turn tells only where it is given the prompts' tokens: before 0.29 it was given rows, and made tokens of them.
    """
    methods = vars(trainer)
    if TURN in methods and PROMPT[0] in inspect.signature(methods[TURN]).parameters:
        return TURN
    return next((name for name in (SCORED, BATCH) if name in methods), None)


def in_doubles(gather: Callable[..., Any], latest: list[Any]) -> Callable[..., Any]:
    """TRL's `gather`, which gives rewards (rows, functions) in float64; `latest` holds the last ones."""

    @functools.wraps(gather)
    def gathered(tensor: Any) -> Any:
        found = gather(tensor)
        if getattr(found, "ndim", 0) != 2 or not found.is_floating_point():
            return found
        latest[0] = found.double()
        return latest[0]

    return gathered


def levelled(score: Callable[..., Any], latest: list[Any], rounded: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(score)
    def scored(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = score(self, *args, **kwargs)
        advantages = result.get("advantages")
        if advantages is None:
            return result
        result["advantages"] = advantages.float()
        if self.model.training:
            tied = level(result["advantages"], self.num_generations)
            if tied or all_but_equal(latest[0], self.num_generations):
                rounded()
        return result

    return scored


def all_but_equal(rewards: Any, generations: int) -> bool:
    """Whether float32's last bit shows in the advantages of `rewards`, a float64 tensor (rows, functions), or None."""
    if rewards is None or generations < 2 or len(rewards) % generations:
        return False
    groups = rewards.nansum(dim=1).view(-1, generations)
    spread = groups.std(dim=1)
    error = LAST_BIT * groups.abs().amax(dim=1) / (spread + 1e-4)
    return bool(((spread > 0) & (error > SEEN)).any())


def level(advantages: Any, generations: int) -> bool:
    """Set the groups of `advantages`, a tensor (rows,), to 0 that hold one number but 0; whether there were any.

    Advantages of a group add up to 0: all the same, they are what rounding left of a mean of equal rewards, which the
    division by their standard deviation plus 1e-4 makes large enough to train on.
    """
    if advantages is None or advantages.ndim != 1 or generations < 2 or len(advantages) % generations:
        return False
    groups = advantages.view(-1, generations)
    same = (groups == groups[:, :1]).all(dim=1) & (groups[:, 0] != 0)
    groups[same] = 0
    return bool(same.any())


def _watch(
    trainer: Any, samples: str, began: Callable[[], None], sampled: Callable[..., None], trained: Callable[[Any], None]
) -> None:
    loss = "_compute_loss" if hasattr(trainer, "_compute_loss") else "compute_loss"
    init, generate, compute = trainer.__init__, getattr(trainer, samples), getattr(trainer, loss)

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        began()
        init(self, *args, **kwargs)

    @functools.wraps(generate)
    def patched_generate(self: Any, asked: Any, *args: Any, **kwargs: Any) -> Any:
        result = generate(self, asked, *args, **kwargs)
        if self.model.training:
            sampled(*(_of_turn(asked, result) if samples == TURN else of_scored(result)))
        return result

    @functools.wraps(compute)
    def patched_compute(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self.model.training:
            trained(inputs)
        return compute(self, model, inputs, *args, **kwargs)

    trainer.__init__ = patched_init
    setattr(trainer, samples, patched_generate)
    setattr(trainer, loss, patched_compute)


def _of_turn(prompt_ids: Any, result: Any) -> tuple[list[list[int]], list[list[int]]]:
    completions = result[0] if isinstance(result, tuple) else result
    return [list(map(int, ids)) for ids in prompt_ids], [list(map(int, ids)) for ids in completions]


def of_scored(inputs: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts and completions of a batch with padding on both sides.

    A completion whose mask is empty was cut at max_completion_length (mask_truncated_completions): it is all there.
    """
    arrays = {name: inputs[name].detach().cpu().numpy() for name in (*PROMPT, *COMPLETION)}
    prompts, completions = ([arrays[name] for name in names] for names in (PROMPT, COMPLETION))
    return (
        [ids[mask > 0].tolist() for ids, mask in zip(*prompts, strict=True)],
        [(ids[mask > 0] if mask.any() else ids).tolist() for ids, mask in zip(*completions, strict=True)],
    )


PROMPT, COMPLETION = ("prompt_ids", "prompt_mask"), ("completion_ids", "completion_mask")


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
    """Let the runtime package `runtime` take `recorded` completions for its own, in their order.

    A release of TRL may sample for each micro-batch what the port samples for all of them at once, so rows are counted,
    not batches. Other prompts than the source's are a problem, and are sampled; so is what the source didn't.
    """
    module = import_module(f"{runtime}.rollouts.grpo_batches")
    sample = module.Sampler.__call__
    waiting = [row for prompts, completions in recorded for row in zip(prompts, completions, strict=True)]
    taken = 0

    @functools.wraps(sample)
    def patched(self: Any, prompts: Any, key: Any, **limits: Any) -> Any:
        nonlocal taken
        if not waiting:
            return sample(self, prompts, key, **limits)
        taken += 1
        rows = waiting[: len(prompts)]
        del waiting[: len(prompts)]
        if [list(ids) for ids in prompts][: len(rows)] != [theirs for theirs, _ in rows]:
            problems.append(f"generation batch {taken} has other prompts than the source's, or others' tokens")
            waiting.clear()
            return sample(self, prompts, key, **limits)
        rest = prompts[len(rows) :]
        return [completion for _, completion in rows] + (list(sample(self, rest, key, **limits)) if len(rest) else [])

    module.Sampler.__call__ = patched
    module.mixed = lambda count, seed, number: np.arange(count)  # type: ignore[attr-defined]
