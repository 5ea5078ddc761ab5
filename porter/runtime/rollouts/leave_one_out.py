"""Completions sampled while training, each scored against the others of its prompt: TRL's RLOOTrainer on a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..generation.prompts import shared_settings
from ..losses.policy_loss import PolicyLoss
from .grpo_batches import GRPOBatches
from .logged import mean_kl
from .rewards import RewardFunc, leave_one_out_advantages
from .rollout import Rollout


class RLOOBatches(GRPOBatches):
    """Batches of RLOO: each completion against the others of its prompt, the divergence taken from the reward.

    `beta`, `reward_clip_range` and `normalize_advantages` are RLOOConfig's; the other arguments are `GRPOBatches`'.
    """

    KIND = "rloo"

    def __init__(
        self,
        *data: Any,
        beta: float = 0.05,
        epsilon: float = 0.2,
        epsilon_high: float | None = None,
        num_generations: int = 2,
        reward_clip_range: tuple[float, float] | None = None,
        normalize_advantages: bool = False,
        **settings: Any,
    ) -> None:
        self._clip_range, self._normalize = reward_clip_range, normalize_advantages
        loss = PolicyLoss("rloo", beta=beta, epsilon=epsilon, epsilon_high=epsilon_high)
        super().__init__(*data, loss=loss, num_generations=num_generations, **settings)

    @classmethod
    def from_args(
        cls,
        training_args: Any,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        model: nnx.Module,
        *,
        reward_funcs: RewardFunc | Sequence[RewardFunc],
        processes: int = 1,
        **own: Any,
    ) -> RLOOBatches:
        """The batches of an RLOOConfig whose values are known only when the script runs, see GRPOBatches."""
        return cls(
            dataset,
            tokenizer,
            mesh,
            model,
            reward_funcs=reward_funcs,
            beta=training_args.beta,
            epsilon=training_args.epsilon,
            epsilon_high=training_args.epsilon_high,
            reward_weights=training_args.reward_weights,
            reward_clip_range=training_args.reward_clip_range,
            normalize_advantages=training_args.normalize_advantages,
            **{**shared_settings(training_args, processes, cls.KIND), **own},
        )

    @property
    def _needs_old(self) -> bool:
        return True  # RLOO's ratio, and its penalty, are always against the policy that sampled

    def _advantages(self, rewards: np.ndarray, rollouts: Sequence[Rollout]) -> np.ndarray:
        kl = None
        if self.loss.beta:
            ratios = np.stack([rollout.old_logps - rollout.reference_logps for rollout in rollouts])  # type: ignore[operator]
            kl = np.array([ratio[: rollout.trained].sum() for ratio, rollout in zip(ratios, rollouts, strict=True)])
            self._said_by_rewards["kl"] = mean_kl(kl, rollouts, self._processes, of_all=self._kl_of_all)
        return leave_one_out_advantages(
            rewards,
            self._rewards.weights,
            self._generations,
            kl=kl,
            beta=self.loss.beta,
            clip_range=self._clip_range,
            normalize=self._normalize,
        )
