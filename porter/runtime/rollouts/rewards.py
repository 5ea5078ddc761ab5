"""Rewards of completions and the advantages that TRL's GRPOTrainer and RLOOTrainer make of them, in NumPy.

Reward functions are the user's own, called as TRL 1.16 calls them: keywords `prompts` and `completions` (strings, or
lists of messages where the prompts are), `completion_ids`, every other column of the dataset, `trainer_state`,
`log_extra` and `log_metric`; plain or `async`; None for a completion that a function doesn't judge.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RewardFunc = Callable[..., Any]

GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
EPSILON = 1e-4  # TRL's, beside a standard deviation (google-tunix: 1e-6)


@dataclass
class TrainerState:
    """What reward functions read of transformers' TrainerState."""

    global_step: int = 0
    max_steps: int = 0
    epoch: float = 0.0
    num_train_epochs: int = 0
    log_history: list[dict[str, float]] = field(default_factory=list)


class Rewards:
    """Reward functions and their weights. `metrics` collects what functions hand to `log_metric`, until it is taken."""

    def __init__(
        self, functions: RewardFunc | Sequence[RewardFunc], weights: Sequence[float] | None, columns: Sequence[str]
    ) -> None:
        self.functions: list[Any] = list(functions) if isinstance(functions, list | tuple) else [functions]
        if not self.functions:
            raise ValueError("reward_funcs is empty: GRPO needs at least one reward function")
        self.names = [_check(function, columns) for function in self.functions]
        self.weights = np.ones(len(self.functions), np.float32) if weights is None else np.asarray(weights, np.float32)
        if len(self.weights) != len(self.functions):
            raise ValueError(
                f"reward_weights has {len(self.weights)} weights for {len(self.functions)} reward functions"
            )
        self.metrics: dict[str, list[float]] = {}

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        columns: Mapping[str, Sequence[Any]],
        state: TrainerState,
    ) -> np.ndarray:
        """What each function says of each completion, float32 (rows, functions); NaN where it said None."""
        given = {
            **columns,
            "prompts": prompts,
            "completions": completions,
            "completion_ids": completion_ids,
            "trainer_state": state,
            "log_extra": lambda column, values: None,
            "log_metric": lambda name, value: self.metrics.setdefault(name, []).append(float(value)),
        }
        rewards = np.zeros((len(prompts), len(self.functions)), np.float32)
        waiting = {}
        for place, function in enumerate(self.functions):
            called = function(**_taken(function, given))
            if inspect.isawaitable(called):
                waiting[place] = called
            else:
                rewards[:, place] = self._values(place, called, len(prompts))
        for place, values in _finish(waiting).items():
            rewards[:, place] = self._values(place, values, len(prompts))
        return rewards

    def _values(self, place: int, values: Any, rows: int) -> np.ndarray:
        found = [np.nan if value is None else float(value) for value in values]
        if len(found) != rows:
            raise ValueError(
                f"the reward function {self.names[place]} returned {len(found)} rewards for {rows} completions"
            )
        return np.asarray(found, np.float32)

    def take_metrics(self) -> dict[str, float]:
        """The means of what was given to `log_metric` since the last call."""
        taken, self.metrics = self.metrics, {}
        return {name: sum(values) / len(values) for name, values in taken.items()}


def _check(function: Any, columns: Sequence[str]) -> str:
    """The function's name. ValueError for one that isn't called with keywords that it takes."""
    if isinstance(function, str) or not callable(function):
        raise ValueError(
            f"reward_funcs: {function!r} is no function. A reward model is a PyTorch model: score with it in a "
            "function of your own, on the CPU or behind a server"
        )
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    problem = signature_problem(inspect.signature(function), columns)
    if problem:
        raise ValueError(f"the reward function {name}{inspect.signature(function)} {problem}")
    return name


def signature_problem(signature: inspect.Signature, columns: Sequence[str]) -> str:
    """What is wrong with calling a function of this signature as TRL does; an empty string for nothing."""
    parameters = signature.parameters.values()
    given = {*GIVEN, *columns}
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return f"takes {parameter.name} by place only: rewards are called with keywords"
        required = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if required and parameter.name not in given:
            return f"needs {parameter.name!r}, which is neither a column of the dataset nor one of {', '.join(GIVEN)}"
    takes = {parameter.name for parameter in parameters}
    rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    missing = {"prompts", "completions"} - takes
    if missing and not rest:
        return f"takes no {' and no '.join(sorted(missing))}, which it is called with: add **kwargs"
    return ""


def _taken(function: RewardFunc, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a function without **kwargs takes of it: older releases of TRL gave less."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(given)
    return {parameter.name: given[parameter.name] for parameter in parameters if parameter.name in given}


def _finish(waiting: Mapping[int, Any]) -> dict[int, Any]:
    """The results of coroutines, run side by side."""
    if not waiting:
        return {}

    async def gather() -> list[Any]:
        return await asyncio.gather(*waiting.values())

    return dict(zip(waiting, asyncio.run(gather()), strict=True))


def group_advantages(
    rewards: np.ndarray,
    weights: np.ndarray,
    generations: int,
    *,
    scale: str | bool = "group",
    aggregation: str = "sum_then_normalize",
) -> np.ndarray:
    """GRPO's advantages, float32 (rows,), of rewards (rows, functions); `generations` rows in a row share a prompt.

    `scale`: "group" divides by the standard deviation (n - 1) in the group, "batch" by that of all rows, "none" by
    nothing. `aggregation` "normalize_then_sum" scales each function's rewards in the group first. Rows that no function
    judged get 0. ValueError for another scale or aggregation.
    """
    if isinstance(scale, bool):  # as TRL took it before 0.22
        scale = "group" if scale else "none"
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale_rewards={scale!r} is not known; choose one of group, batch, none")
    if aggregation == "normalize_then_sum":
        apart = rewards.reshape(-1, generations, rewards.shape[-1]).astype(np.float64)
        scaled = (apart - _mean(apart, axis=1)) / (_std(apart, axis=1) + EPSILON)
        total = weighted(scaled.reshape(rewards.shape), weights)
        advantages = (total - _mean(total)) / (_std(total) + EPSILON)
    elif aggregation == "sum_then_normalize":
        total = weighted(rewards, weights)
        grouped = total.reshape(-1, generations)
        advantages = grouped - _mean(grouped, axis=1)
        if scale != "none":
            advantages = advantages / (_std(grouped, axis=1 if scale == "group" else None) + EPSILON)
    else:
        known = "sum_then_normalize, normalize_then_sum"
        raise ValueError(f"multi_objective_aggregation={aggregation!r} is not known; choose one of {known}")
    return np.nan_to_num(advantages.reshape(-1), nan=0.0).astype(np.float32)


def leave_one_out_advantages(
    rewards: np.ndarray,
    weights: np.ndarray,
    generations: int,
    *,
    kl: np.ndarray | None = None,
    beta: float = 0.0,
    clip_range: tuple[float, float] | None = None,
    normalize: bool = False,
) -> np.ndarray:
    """RLOO's advantages, float32 (rows,): the reward less the mean of the prompt's other completions.

    `kl`: (rows,), the log ratio of policy and reference summed over a completion's tokens, taken from the reward
    `beta` times, after clipping. `normalize`: by mean and standard deviation of all rows.
    """
    total = weighted(rewards, weights)
    if clip_range is not None:
        total = np.clip(total, *clip_range)
    if kl is not None:
        total = total - beta * kl
    grouped = total.reshape(-1, generations)
    counts = np.sum(~np.isnan(grouped), axis=1, keepdims=True)
    above = grouped - np.fmin.reduce(grouped, axis=1, keepdims=True)  # equal rewards have no advantage at all
    with np.errstate(invalid="ignore", divide="ignore"):
        advantages = above - (np.nansum(above, axis=1, keepdims=True) - above) / (counts - 1)
    if normalize:
        advantages = (advantages - _mean(advantages)) / (_std(advantages) + EPSILON)
    return np.nan_to_num(advantages.reshape(-1), nan=0.0).astype(np.float32)


def weighted(rewards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted sum over functions, (rows,), float64; NaN for rows that none of them judged.

    The last bit of a float32, divided by `EPSILON`, is an advantage that Adam makes a whole step of.
    """
    total = np.nansum(rewards.astype(np.float64) * weights, axis=1)
    return np.where(np.isnan(rewards).all(axis=1), np.nan, total)


def _mean(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The mean without NaN; of values that are all alike that very value, as in a GPU's sum by halves."""
    low = np.fmin.reduce(values, axis=axis, keepdims=True)
    counts = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(low + np.nansum(values - low, axis=axis, keepdims=True) / counts)


def _std(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The standard deviation with n - 1, without NaN; NaN of a single value."""
    counts = np.sum(~np.isnan(values), axis=axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.nansum((values - _mean(values, axis)) ** 2, axis=axis, keepdims=True)
        return np.asarray(np.sqrt(np.where(counts > 1, squares / (counts - 1), np.nan)))
