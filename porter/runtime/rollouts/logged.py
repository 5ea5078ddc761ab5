"""What TRL logs of completions that are sampled while training: by optimizer step, under a release's names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..facts.releases import Release
from .rewards import Rewards
from .rollout import Rollout, said_of

TOKENS = "num_tokens"  # all that were fed so far: the last of a line's steps, not their mean


class Logged:
    """The metrics of a run's generation batches; `reward_std` is of a whole one where `whole_spread`, see `said_of`."""

    def __init__(self, source: Release, rewards: Rewards, generations: int, *, whole_spread: bool) -> None:
        self._source, self._rewards = source, rewards
        self._settings: dict[str, Any] = {
            "generations": generations,
            "whole_spread": source.logs_whole_spread or whole_spread,
        }
        self.begin()

    def begin(self) -> None:
        """A training begins, or goes on."""
        self._steps: list[list[dict[str, float]]] = []
        self._fed, self._resumed = 0, False

    @property
    def times_steps(self) -> bool:
        """Whether `step_time` was logged: from 0.26 on."""
        return self._source.since(0, 26)

    def of_batch(self, rewards: np.ndarray, rollouts: Sequence[Rollout], cut: Sequence[bool]) -> dict[str, float]:
        """What is said of a generation batch. Before 0.24 completions that are masked for being cut fed no tokens."""
        since = self._source.since
        completions = [rollout.completion for rollout in rollouts]
        whole = since(0, 24)
        self._fed += sum(
            len(rollout.prompt) + (len(rollout.completion) if whole else rollout.trained) for rollout in rollouts
        )
        names, weights = self._rewards.names, self._rewards.weights
        said = said_of(rewards, completions, cut, names=names, weights=weights, since=since, **self._settings)
        return said | ({TOKENS: float(self._fed)} if since(0, 16) else {})

    def add(self, step: int, said: Mapping[str, float]) -> None:
        """Keep what is said of a batch that was sampled for the step behind `step`; of a run that goes on from another
        nobody knows the tokens before."""
        self._resumed |= step > 0 and not self._steps
        self._steps += [[] for _ in range(step + 1 - len(self._steps))]
        self._steps[step].append({name: value for name, value in said.items() if name != TOKENS or not self._resumed})

    def between(self, after: int, until: int) -> dict[str, float]:
        """The means over the optimizer steps `after` + 1 to `until`."""
        said = list(itertools.chain(*self._steps[after:until]))
        names = dict.fromkeys(name for metrics in said for name in metrics)
        values = {name: [m[name] for m in said if not math.isnan(m.get(name, math.nan))] for name in names}
        means = {name: sum(found) / len(found) for name, found in values.items() if found}
        return means | ({TOKENS: values[TOKENS][-1]} if TOKENS in means else {})


def kl_shares(parts: Sequence[Sequence[Rollout]], processes: int, *, of_all: bool) -> np.ndarray:
    """What a token of each row counts in the step's logged divergence, (rows,).

    That is the mean over its micro-steps: of the means over each process's tokens, or `of_all` the tokens of a
    micro-step (TRL from 1.9 on).
    """
    found = []
    for part in parts:
        trained = np.array([rollout.trained for rollout in part], np.float32)
        tokens = trained.reshape(1 if of_all else processes, -1).sum(axis=1)
        divisor = np.maximum(tokens, 1) * len(tokens) * len(parts)
        found.append(np.repeat(1 / divisor, len(part) // len(tokens)))
    return np.concatenate(found).astype(np.float32)


def shares_of(
    parts: Sequence[Sequence[Rollout]], processes: int, micro_batches: int, *, of_all: bool
) -> dict[str, np.ndarray]:
    """The loss's `Shares`, (rows,) each; a token's see `kl_shares`.

    `micro_batches`: how many the port's step has, of which it takes the mean.
    """
    rows = sum(map(len, parts))
    return {
        "token": micro_batches * kl_shares(parts, processes, of_all=of_all),
        "row": np.full(rows, micro_batches / rows, np.float32),
        "micro_step": np.repeat(np.arange(len(parts), dtype=np.float32), [len(part) for part in parts]),
    }


def mean_kl(kl: np.ndarray, rollouts: Sequence[Rollout], processes: int, *, of_all: bool) -> float:
    """The same of a generation batch, of each completion's sum of a divergence."""
    return float(kl @ kl_shares([rollouts], processes, of_all=of_all))
