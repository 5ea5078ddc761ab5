"""The policy losses of TRL's GRPOTrainer and RLOOTrainer for Tunix's PeftTrainer.

    batches = rt.GRPOBatches(..., loss=rt.PolicyLoss("dapo", beta=0.04))
    PeftTrainer(...).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(batches.loss)

The formulas are those of TRL 1.16 (`GRPOTrainer._compute_loss`, `RLOOTrainer._compute_loss`). What a loss is divided by
(a row's tokens, all tokens of the generation batch, a constant) is in the batches' `scale`, so that the split of a step
into micro-batches changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from ..models.head import hidden_states
from .token_loss import call_of, chosen_logits
from .token_metrics import token_metrics

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo", "rloo")
LEVELS = ("token", "sequence")
ROUNDING = 16  # units in the last place of a float32
CHUNK = 64  # tokens of each row that have logits at one time


class Shares(NamedTuple):
    """What a batch has for metrics: what a token and a row count in their means, and whose micro-step of the GPU run
    the row is, (B,)."""

    token: jax.Array
    row: jax.Array
    micro_step: jax.Array

    def mean(self, values: jax.Array, mask: jax.Array) -> jax.Array:
        """Of values of tokens, (B, C), or of whole rows, (B, 1)."""
        if values.shape[1] == 1:
            return jnp.sum(values[:, 0] * self.row)
        return jnp.sum(jnp.sum(values * mask, axis=-1) * self.token)

    def highest(self, values: jax.Array, micro_steps: int) -> jax.Array:
        """The highest value (B,) of each micro-step's rows, (micro_steps,); NaN doesn't count."""
        own = (self.micro_step == jnp.arange(micro_steps)[:, None]) & (self.row > 0) & ~jnp.isnan(values)
        return jnp.max(jnp.where(own, values, -jnp.inf), axis=1)


def _of_rows(values: jax.Array, mask: jax.Array) -> jax.Array:
    """The means of rows, (B,), of values of tokens or of rows; NaN of a row without tokens."""
    if values.shape[1] == 1:
        return values[:, 0].astype(jnp.float32)
    tokens = mask.sum(axis=-1)
    return jnp.sum(values * mask, axis=-1) / jnp.where(tokens > 0, tokens, jnp.nan)


@dataclass(frozen=True, eq=False)  # JAX takes equal functions for one, whose shares are not
class PolicyLoss:
    """The loss of given completions; GRPOConfig's names, and its defaults in TRL 1.16.

    `temperature` divides the logits, as it did when the completions were sampled: `GRPOBatches` sets it, and `logs`,
    what is logged of the loss beside the divergence, of as many as `micro_steps` of the GPU run in a step
    (`extremes_of_rows`: the lowest and highest of its rows, not of its processes, of which there is one).
    `shares`: see `with_metrics`.
    ValueError for a loss type, a level or a bound that TRL doesn't know.
    """

    loss_type: str = "dapo"
    beta: float = 0.0
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None
    importance_sampling_level: str = "token"
    use_bias_correction_kl: bool = True
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    off_policy_mask_threshold: float | None = None
    temperature: float = 1.0
    logs: tuple[str, ...] = ()
    micro_steps: int = 1
    extremes_of_rows: bool = True
    shares: Mapping[str, jax.Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, known in (("loss_type", LOSS_TYPES), ("importance_sampling_level", LEVELS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is not known; choose one of {', '.join(known)}")
        if self.temperature <= 0:
            raise ValueError(f"temperature={self.temperature}: sampling needs a temperature above 0")

    def __call__(
        self,
        model: nnx.Module,
        input_tokens: jax.Array,
        positions: jax.Array,
        attention_mask: jax.Array,
        segment_ids: jax.Array,
        completion_mask: jax.Array,
        advantages: jax.Array,
        scale: jax.Array,
        old_logps: jax.Array | None = None,
        reference_logps: jax.Array | None = None,
    ) -> Any:
        """The loss of a micro-batch, a float32 scalar: the sum over tokens, each row times its `scale`.

        `input_tokens`, `positions`, `segment_ids`: (B, P + C) int32, prompts padded on the left, completions on the
        right. `completion_mask`: (B, C). `advantages`, `scale`: (B,) float32. `old_logps`: (B, C) of the policy that
        sampled, None where that is the present one; `reference_logps`: (B, C), with `beta`. nnx.grad takes what a
        batch holds by position, so that it is all named here.
        """
        length = completion_mask.shape[1]
        logps, entropy = logps_and_entropy(
            model, input_tokens, positions, attention_mask, segment_ids, length, temperature=self.temperature
        )
        loss = self.of_logps(logps, completion_mask, advantages, scale, old_logps, reference_logps)
        if self.shares is None:
            return loss
        if not self.shares:
            return loss, {}
        shares = Shares(**self.shares)
        found = self.told(logps, completion_mask, advantages, shares, old_logps, reference_logps)
        if "entropy" in self.logs:
            found["entropy"] = shares.mean(entropy, completion_mask.astype(jnp.float32))
        return loss, found

    def with_metrics(self, shares: Mapping[str, jax.Array]) -> PolicyLoss:
        """One that gives the loss and, by name, what TRL logs of it, of a batch that has these `Shares`."""
        return replace(self, shares=shares)

    @property
    def tells(self) -> bool:
        """Whether TRL logs anything of it."""
        return bool(self.logs) or self._tells_kl

    @property
    def _tells_kl(self) -> bool:
        return self.beta != 0 and self.loss_type != "rloo"

    def told(
        self,
        logps: jax.Array,
        completion_mask: jax.Array,
        advantages: jax.Array,
        shares: Shares,
        old_logps: jax.Array | None,
        reference_logps: jax.Array | None,
    ) -> dict[str, jax.Array]:
        """The divergence and the clipped ratios that TRL logs, float32 without gradient.

        Scalars, but for the lowest and the highest of a micro-step's rows, (`micro_steps`,): infinite of one that has
        no row here.
        """
        mask = completion_mask.astype(jnp.float32)
        logps = jax.lax.stop_gradient(jnp.where(mask > 0, logps, 0.0))
        old = logps if old_logps is None else jnp.where(mask > 0, old_logps, 0.0)
        found = {}
        if self._tells_kl:
            assert reference_logps is not None, "beta needs the reference's log-probabilities"
            weight, _ = self._weight(logps, old, mask)
            found["kl"] = shares.mean(self._kl(logps, reference_logps, weight), mask)
        clips = [name for name in self.logs if name != "entropy"]
        if old_logps is None:  # the ratios are all 1
            return found | {name: jnp.zeros(()) for name in clips}
        if self.loss_type == "rloo":
            weight = jnp.exp(jnp.sum((logps - old) * mask, axis=-1, keepdims=True))
        else:
            weight, _ = self._weight(logps, old, mask)
        return found | self._clipped(weight, advantages[:, None], mask, shares, clips)

    def _clipped(
        self, weight: jax.Array, advantages: jax.Array, mask: jax.Array, shares: Shares, names: list[str]
    ) -> dict[str, jax.Array]:
        high = self.epsilon if self.epsilon_high is None else self.epsilon_high
        if self.delta is not None:
            weight = jnp.minimum(weight, self.delta)
        below = (weight < 1 - self.epsilon) & (advantages < 0)
        above = (weight > 1 + high) & (advantages > 0)
        bounded = jnp.clip(weight, 1 - self.epsilon, 1 + high)
        of_tokens = {
            "clip_ratio": weight * advantages < bounded * advantages,
            "clip_ratio/low_mean": below,
            "clip_ratio/high_mean": above,
            "clip_ratio/region_mean": below | above,
            "cispo_clip_ratio": (weight > high) & (advantages > 0),
        }
        found = {name: shares.mean(of_tokens[name], mask) for name in names if name in of_tokens}
        if "clip_ratio/low_min" in names and not self.extremes_of_rows:
            found["clip_ratio/low_min"] = found["clip_ratio/low_mean"]
            found["clip_ratio/high_max"] = found["clip_ratio/high_mean"]
        elif "clip_ratio/low_min" in names:
            found["clip_ratio/low_min"] = -shares.highest(-_of_rows(below, mask), self.micro_steps)
            found["clip_ratio/high_max"] = shares.highest(_of_rows(above, mask), self.micro_steps)
        return found

    def of_logps(
        self,
        logps: jax.Array,
        completion_mask: jax.Array,
        advantages: jax.Array,
        scale: jax.Array,
        old_logps: jax.Array | None = None,
        reference_logps: jax.Array | None = None,
    ) -> jax.Array:
        """The same from the completions' log-probabilities, (B, C)."""
        mask = completion_mask.astype(jnp.float32)
        logps = jnp.where(mask > 0, logps, 0.0)
        old = jax.lax.stop_gradient(logps) if old_logps is None else old_logps
        losses = self.per_token(logps, old, reference_logps, advantages, mask)
        return jnp.sum(losses.sum(axis=-1) * scale)

    def per_token(
        self,
        logps: jax.Array,
        old_logps: jax.Array,
        reference_logps: jax.Array | None,
        advantages: jax.Array,
        mask: jax.Array,
    ) -> jax.Array:
        """Losses of the tokens, 0 where `mask` is: (B, C), for "rloo" (B, 1). All arguments (B, C), advantages (B,)."""
        advantages = advantages[:, None]
        if self.loss_type == "rloo":
            return self._rloo(jnp.sum((logps - old_logps) * mask, axis=-1, keepdims=True), advantages)
        weight, ratios = self._weight(logps, old_logps, mask)
        losses = self._surrogate(weight, logps, ratios, advantages, mask)
        if self.off_policy_mask_threshold is not None:
            losses = losses * self._on_policy(logps, old_logps, advantages, mask)
        if self.beta:
            assert reference_logps is not None, "beta needs the reference's log-probabilities"
            losses = losses + self.beta * self._kl(logps, reference_logps, weight)
        return losses * mask

    def _weight(self, logps: jax.Array, old_logps: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Importance of each token, (B, C), or of each sequence, (B, 1); and the log ratios."""
        ratios = logps - old_logps
        if self.importance_sampling_level == "token":
            return jnp.exp(ratios), ratios
        tokens = jnp.maximum(mask.sum(axis=-1, keepdims=True), 1.0)
        return jnp.exp(jnp.sum(ratios * mask, axis=-1, keepdims=True) / tokens), ratios

    def _kl(self, logps: jax.Array, reference_logps: jax.Array, weight: jax.Array) -> jax.Array:
        kl = k3(logps, reference_logps)
        return kl * weight if self.use_bias_correction_kl else kl

    def _surrogate(
        self, weight: jax.Array, logps: jax.Array, ratios: jax.Array, advantages: jax.Array, mask: jax.Array
    ) -> jax.Array:
        high = self.epsilon if self.epsilon_high is None else self.epsilon_high
        if self.loss_type == "cispo":
            return -jax.lax.stop_gradient(jnp.minimum(weight, high)) * advantages * logps
        if self.loss_type == "sapo":
            warmth = jnp.where(advantages > 0, self.sapo_temperature_pos, self.sapo_temperature_neg)
            return -jax.nn.sigmoid(warmth * (weight - 1)) * 4 / warmth * advantages
        if self.loss_type == "vespo":
            return -jax.lax.stop_gradient(self._gamma(ratios, advantages, mask)) * advantages * logps
        clipped = jnp.clip(weight, 1 - self.epsilon, 1 + high)
        if self.delta is not None:
            weight = jnp.minimum(weight, self.delta)
        return -jnp.minimum(weight * advantages, clipped * advantages)

    def _rloo(self, log_ratio: jax.Array, advantages: jax.Array) -> jax.Array:
        weight = jnp.exp(log_ratio)
        high = self.epsilon if self.epsilon_high is None else self.epsilon_high
        clipped = jnp.clip(weight, 1 - self.epsilon, 1 + high)
        return -jnp.minimum(weight * advantages, clipped * advantages)

    def _gamma(self, ratios: jax.Array, advantages: jax.Array, mask: jax.Array) -> jax.Array:
        """VESPO's weight of a sequence, (B, 1)."""
        log_weight = jnp.sum(jnp.clip(ratios, -20.0, 20.0) * mask, axis=-1, keepdims=True)
        log_weight = jnp.clip(log_weight, math.log(1e-8), 20.0)
        good = advantages >= 0
        power = jnp.where(good, self.vespo_k_pos, self.vespo_k_neg)
        decay = jnp.maximum(jnp.where(good, self.vespo_lambda_pos, self.vespo_lambda_neg), 1e-4)
        weight = jnp.exp(decay + power * log_weight - decay * jnp.exp(log_weight))
        return jnp.where(jnp.isfinite(weight), weight, 0.0)

    def _on_policy(self, logps: jax.Array, old_logps: jax.Array, advantages: jax.Array, mask: jax.Array) -> jax.Array:
        """1 for sequences that count, (B, 1): good ones, and bad ones that the policy has not moved away from."""
        tokens = jnp.maximum(mask.sum(axis=-1, keepdims=True), 1.0)
        moved = jnp.sum((old_logps - jax.lax.stop_gradient(logps)) * mask, axis=-1, keepdims=True) / tokens
        return ((advantages >= 0) | (moved <= self.off_policy_mask_threshold)).astype(mask.dtype)

    @property
    def divides_by(self) -> str:
        """What `scale` has to divide a token's loss by: "row", "micro", "batch", "length" or "rows"."""
        kinds = {"bnpo": "micro", "dr_grpo": "length", "grpo": "row", "sapo": "row", "luspo": "rows", "rloo": "rows"}
        return kinds.get(self.loss_type, "batch")

    @classmethod
    def from_args(cls, args: Any) -> PolicyLoss:
        """The loss that a GRPOConfig asks for."""
        return cls(
            loss_type=args.loss_type,
            beta=args.beta,
            epsilon=args.epsilon,
            epsilon_high=args.epsilon_high,
            delta=args.delta,
            importance_sampling_level=args.importance_sampling_level,
            use_bias_correction_kl=args.use_bias_correction_kl,
            sapo_temperature_pos=args.sapo_temperature_pos,
            sapo_temperature_neg=args.sapo_temperature_neg,
            vespo_k_pos=args.vespo_k_pos,
            vespo_lambda_pos=args.vespo_lambda_pos,
            vespo_k_neg=args.vespo_k_neg,
            vespo_lambda_neg=args.vespo_lambda_neg,
            off_policy_mask_threshold=args.off_policy_mask_threshold,
        )


def k3(logps: jax.Array, reference_logps: jax.Array) -> jax.Array:
    """Schulman's estimate of the divergence from the reference, of each token: never negative, TRL's.

    google-tunix 0.1.7 takes the plain log ratio (k1) unless it is asked for `low_var_kl`.

    Two programs round the same log-probability differently. What is within that is no divergence, as it is none on the
    GPU: Adam would make whole steps of it where rewards give nothing.
    """
    ratio = reference_logps - logps
    rounding = ROUNDING * jnp.finfo(jnp.float32).eps * jnp.maximum(jnp.abs(reference_logps), 1.0)
    ratio = jnp.where(jnp.abs(ratio) <= rounding, 0.0, ratio)
    return jnp.exp(ratio) - ratio - 1


def logps_and_entropy(
    model: nnx.Module,
    input_tokens: jax.Array,
    positions: jax.Array,
    attention_mask: jax.Array,
    segment_ids: jax.Array,
    length: int,
    *,
    temperature: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities of the last `length` tokens of each row at a temperature, and the entropy of what each was
    drawn from, without a gradient: (B, length) float32 both. What isn't asked for XLA doesn't compute.

    The head is applied to these tokens only, `CHUNK` at a time, and again in the backward pass: logits of a whole batch
    would take more memory than the model.
    """
    call = call_of(model, input_tokens, positions, attention_mask, segment_ids, None)
    hidden, head = hidden_states(model, *call.arguments, **call.named)
    hidden, targets = hidden[:, -length - 1 : -1], input_tokens[:, -length:]

    @jax.checkpoint
    def part(states: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = head(states) / temperature
        logps = chosen_logits(logits, wanted) - jax.nn.logsumexp(logits, axis=-1)
        return logps, token_metrics(logits, wanted).entropy

    parts = [part(hidden[:, at : at + CHUNK], targets[:, at : at + CHUNK]) for at in range(0, length, CHUNK)]
    logps, entropy = (jnp.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return logps, entropy
