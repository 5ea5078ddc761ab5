"""The preference losses of TRL 1.16 for `PreferenceTrainer`: DPO in all its types, ORPO, CPO with SimPO, and KTO.

Every loss is the sum over rows of TRL's loss of each times its `scale`, in float32; beside it stand the metrics that
TRL logs under the same names. `PreferenceBatches` says how rows and scales are laid out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.nn import log_sigmoid, sigmoid

from .for_metrics import for_metrics
from .token_loss import IGNORED, forward, model_inputs, next_labels, target_nll, token_nll
from .token_metrics import TokenMetrics, token_metrics

Metrics = dict[str, Array]

OLDER_NAMES = {"aot_pair": "aot_unpaired"}
CPO_TYPES = ("sigmoid", "hinge", "ipo", "simpo")
KTO_TYPES = ("kto", "apo_zero_unpaired")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Inputs:
    """A batch as the losses read it; see `PreferenceBatches`. `for_metrics`: what it has for these alone.

    That is, all (B,): `scale` and `nll_scale`, which are others in a short step of older releases and in evaluations;
    `entropy` and `answers`, what a token counts in the mean entropy and in the means of its kind of answers.
    """

    input_tokens: Array
    labels: Array
    positions: Array
    attention_mask: Array
    segment_ids: Array
    scale: Array
    nll_scale: Array
    processes: Array | None = None
    desirable: Array | None = None
    reference_logps: Array | None = None
    wraps: Array | None = None
    for_metrics: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Mapping[str, Any]) -> Inputs:
        return cls(**model_inputs(batch), for_metrics=for_metrics(batch))

    @property
    def mean_scale(self) -> Array:
        """(B,): what a row counts in the means that are logged, whatever a short step's loss counts."""
        return self.for_metrics.get("scale", self.scale)

    @property
    def mean_nll_scale(self) -> Array:
        """The same of `nll_scale`."""
        return self.for_metrics.get("nll_scale", self.nll_scale)

    @property
    def targets(self) -> Array:
        """(B, T): the token of the answer that each token predicts, -100 where there is none.

        In rows that wrap, the last token predicts the first one.
        """
        following = next_labels(self.labels)
        if self.wraps is None:
            return following
        last = jnp.arange(following.shape[1]) == self.segment_ids.sum(axis=1)[:, None] - 1
        return jnp.where(last & self.wraps[:, None], self.input_tokens[:, :1], following)

    @property
    def trained(self) -> Array:
        """(B, T) bool: where the next token is one of the answer."""
        return self.targets != IGNORED

    def nll(self, logits: Array) -> Array:
        """Negative log likelihood of the answers' tokens, (B, T) float32."""
        return target_nll(logits, self.targets)


@dataclass(frozen=True)
class PreferenceLoss(ABC):
    """What the losses share. `reference`: whether the loss needs the log-probabilities of a reference model."""

    beta: float = 0.1
    reference = True

    def __call__(self, model: nnx.Module, inputs: Inputs) -> tuple[Array, Metrics]:
        """Loss and metrics; without a reference model's log-probabilities those of the adapters' base count."""
        reference = inputs.reference_logps
        if self.reference and reference is None:
            reference = self.logps(without_adapters(model), inputs)
        return self.loss(model, inputs, None if reference is None else jax.lax.stop_gradient(reference))

    @abstractmethod
    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        """Loss and metrics, given the reference's log-probability of every row, (B,)."""

    def logps(self, model: nnx.Module, inputs: Inputs) -> Array:
        """Log-probability of each row's answer, (B,) float32."""
        return self.total(-inputs.nll(answer_logits(model, inputs)), inputs)

    def total(self, token_logps: Array, inputs: Inputs) -> Array:
        """Token log-probabilities (B, T) as one number a row."""
        return token_logps.sum(axis=1)

    @property
    def counted_rows(self) -> slice:
        """The rows of a batch whose tokens TRL's `num_tokens` counts."""
        return slice(None)

    @property
    def tells_rows(self) -> bool:
        """Whether the metrics of a micro-batch are of as many rows as it happens to have of a kind, `count/...`."""
        return False


@dataclass(frozen=True)
class ORPOLoss(PreferenceLoss):
    """See `orpo_loss`."""

    reference = False

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        logits = answer_logits(model, inputs)
        chosen, rejected = in_pairs(_averages(-inputs.nll(logits), inputs)).T
        every_token = jnp.where(inputs.segment_ids > 0, inputs.input_tokens, IGNORED)
        each = token_nll(logits, every_token).sum(axis=1)[0::2]
        nll = jnp.sum(each * inputs.nll_scale[0::2])
        log_odds = (chosen - rejected) - (_log1mexp(chosen) - _log1mexp(rejected))
        scale, mean_scale = inputs.scale[0::2], inputs.mean_scale[0::2]
        ratio = log_sigmoid(log_odds)
        logps = jnp.stack([chosen, rejected], axis=1)
        metrics = pair_metrics(self.beta * logps, logps, mean_scale) | {
            "nll_loss": jnp.sum(each * inputs.mean_nll_scale[0::2]),
            "log_odds_ratio": jnp.sum(ratio * mean_scale),
            "log_odds_chosen": jnp.sum(log_odds * mean_scale),
        }
        return nll - self.beta * jnp.sum(ratio * scale), metrics


@dataclass(frozen=True)
class CPOLoss(PreferenceLoss):
    """See `cpo_loss`."""

    loss_type: str = "sigmoid"
    label_smoothing: float = 0.0
    cpo_alpha: float = 1.0
    simpo_gamma: float = 0.5
    alpha: float = 0.0
    reference = False

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        token_logps = -inputs.nll(answer_logits(model, inputs))
        averaged = self.loss_type in ("ipo", "simpo")
        logps = in_pairs(_averages(token_logps, inputs) if averaged else token_logps.sum(axis=1))
        scale = inputs.scale[0::2]
        rewards = logps
        if self.alpha != 0.0:
            rewards = (1 - jnp.exp(logps) ** -self.alpha) / self.alpha
            rewards = jnp.where(scale[:, None] > 0, rewards, 0.0)
        delta = rewards[:, 0] - rewards[:, 1]
        if self.loss_type == "simpo":
            delta -= self.simpo_gamma / self.beta
        if self.loss_type == "hinge":
            each = jax.nn.relu(1 - self.beta * delta)
        elif self.loss_type == "ipo":
            each = (delta - 1 / (2 * self.beta)) ** 2
        else:
            each = smoothed(self.beta * delta, self.label_smoothing)
        totals = -token_logps.sum(axis=1)[0::2]
        nll = jnp.sum(totals * inputs.nll_scale[0::2])
        mean = jnp.sum(totals * inputs.mean_nll_scale[0::2])
        metrics = pair_metrics(self.beta * rewards, logps, inputs.mean_scale[0::2]) | {
            "nll_loss": mean if self.cpo_alpha else mean * 0
        }
        return jnp.sum(each * scale) + self.cpo_alpha * nll, metrics


@dataclass(frozen=True)
class KTOLoss(PreferenceLoss):
    """See `kto_loss`."""

    loss_type: str = "kto"
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    tells_rows = True

    @property
    def counted_rows(self) -> slice:
        """Those with a completion of their own, not those of the KL term."""
        return slice(None, None, 2 if self.loss_type == "kto" else 1)

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        assert reference is not None and inputs.desirable is not None
        logits = answer_logits(model, inputs)
        logps = self.total(-inputs.nll(logits), inputs)
        kl: Any = jnp.zeros(())
        scale, desirable, ratios = inputs.scale, inputs.desirable, logps - reference
        if self.loss_type == "kto":  # every second row has the completion of another
            there = scale[0::2] > 0
            kl = jnp.sum(jnp.where(there, ratios[1::2], 0.0)) / jnp.maximum(there.sum(), 1)
            kl = jax.lax.stop_gradient(jnp.maximum(kl, 0.0))
            scale, desirable, ratios, logps = scale[0::2], desirable[0::2], ratios[0::2], logps[0::2]
        kept = 1 - sigmoid(self.beta * (ratios - kl))
        left = 1 - sigmoid(self.beta * (kl - ratios))
        each = jnp.where(desirable, self.desirable_weight * kept, self.undesirable_weight * left)
        metrics = {"kl": jnp.where(jnp.any(scale > 0), kl, jnp.nan)}  # a micro-batch that only fills the step has none
        for name, rows in (("chosen", desirable), ("rejected", ~desirable)):
            rows &= scale > 0
            count = jnp.where(rows.sum() > 0, rows.sum(), jnp.nan)  # not logged where there is none
            metrics[f"count/{name}"] = count
            metrics[f"rewards/{name}"] = jnp.sum(jnp.where(rows, self.beta * ratios, 0.0)) / count
            metrics[f"logps/{name}"] = jnp.sum(jnp.where(rows, logps, 0.0)) / count
        metrics["rewards/margins"] = metrics["rewards/chosen"] - metrics["rewards/rejected"]
        metrics |= self._of_answers(logits, inputs)
        return jnp.sum(each * scale), jax.lax.stop_gradient(metrics)

    def _of_answers(self, logits: Array, inputs: Inputs) -> Metrics:
        """The batch is one micro-batch of the GPU run; of a kind of completions that it hasn't nothing is logged."""
        if "answers" not in inputs.for_metrics:
            return {}
        assert inputs.desirable is not None
        told = token_metrics(logits, inputs.targets)
        found = entropy_metrics(told, inputs)
        own = inputs.trained & (inputs.for_metrics["answers"] > 0)[:, None]
        for name, rows in (("chosen", inputs.desirable), ("rejected", ~inputs.desirable)):
            tokens = own & rows[:, None]
            count = jnp.where(tokens.sum() > 0, tokens.sum(), jnp.nan)
            found[f"logits/{name}"] = jnp.sum(jnp.where(tokens, told.mean_logit, 0.0)) / count
        return found


BETA_0 = "beta=0 takes the preferences out of the loss, and the reference model with them: give a beta above 0"


def orpo_loss(beta: float = 0.1) -> ORPOLoss:
    """The loss of TRL 1.16's ORPOTrainer: the chosen text's mean negative log-likelihood, and `beta` × odds ratio.

    The odds are those of the *averaged* log-probabilities, as in TRL; Tunix's own `orpo` takes their sum, and a mean
    over sequences for the likelihood.
    """
    return ORPOLoss(beta=beta)


def cpo_loss(
    beta: float = 0.1,
    *,
    loss_type: str = "sigmoid",
    label_smoothing: float = 0.0,
    cpo_alpha: float = 1.0,
    simpo_gamma: float = 0.5,
    alpha: float = 0.0,
) -> CPOLoss:
    """The loss of TRL 1.16's CPOTrainer, which is SimPO with loss_type="simpo" and cpo_alpha=0; its names and
    defaults."""
    if loss_type == "alphapo":  # as CPOConfig takes it
        loss_type, cpo_alpha = "simpo", 0.0
    if beta == 0:
        raise ValueError("beta=0 takes the preferences out of the loss: give a beta above 0")
    return CPOLoss(
        beta=beta,
        loss_type=known_type(loss_type, CPO_TYPES),
        label_smoothing=label_smoothing,
        cpo_alpha=cpo_alpha,
        simpo_gamma=simpo_gamma,
        alpha=alpha,
    )


def kto_loss(
    beta: float = 0.1, *, loss_type: str = "kto", desirable_weight: float = 1.0, undesirable_weight: float = 1.0
) -> KTOLoss:
    """The loss of TRL 1.16's KTOTrainer; the arguments are KTOConfig's, with its names and defaults."""
    if beta == 0:
        raise ValueError(BETA_0)
    return KTOLoss(
        beta=beta,
        loss_type=known_type(loss_type, KTO_TYPES),
        desirable_weight=desirable_weight,
        undesirable_weight=undesirable_weight,
    )


def without_adapters(model: nnx.Module) -> nnx.Module:
    """`model` with adapters that do nothing: the base that they were put on, in the same weights.

    What PEFT's `disable_adapter` gives. ValueError for a model without LoRA, which would be its own reference.
    """
    graph, adapters, rest = nnx.split(model, nnx.LoRAParam, ...)
    if not jax.tree.leaves(adapters):
        raise ValueError("a model without LoRA needs a reference model: give PreferenceTrainer a ref_model")
    return nnx.merge(graph, jax.tree.map(jnp.zeros_like, adapters), rest)


def smoothed(logits: Array, label_smoothing: float) -> Array:
    return -log_sigmoid(logits) * (1 - label_smoothing) - log_sigmoid(-logits) * label_smoothing


def _averages(token_logps: Array, inputs: Inputs) -> Array:
    """Mean log-probability of each row's tokens, (B,); -1 for rows that only fill the batch, where log(1 - e^x) is."""
    means = token_logps.sum(axis=1) / jnp.maximum(inputs.trained.sum(axis=1), 1)
    return jnp.where(inputs.scale > 0, means, -1.0)


def _log1mexp(x: Array) -> Array:
    """log(1 - e^x) for x < 0, by the form that loses fewer digits."""
    small = x < -math.log(2)
    far, near = jnp.where(small, x, -1.0), jnp.where(small, -1.0, x)
    return jnp.where(small, jnp.log1p(-jnp.exp(far)), jnp.log(-jnp.expm1(near)))


def in_pairs(rows: Array) -> Array:
    """(B,) in the batch's order as (P, 2): chosen, rejected."""
    return rows.reshape(-1, 2)


def pair_metrics(rewards: Array, logps: Array, scale: Array) -> Metrics:
    """TRL's metrics of pairs, means over the step; `rewards` and `logps`: (P, 2)."""
    means = {
        "rewards/chosen": rewards[:, 0],
        "rewards/rejected": rewards[:, 1],
        "rewards/accuracies": (rewards[:, 0] > rewards[:, 1]).astype(jnp.float32),
        "rewards/margins": rewards[:, 0] - rewards[:, 1],
        "logps/chosen": logps[:, 0],
        "logps/rejected": logps[:, 1],
    }
    return {name: jax.lax.stop_gradient(jnp.sum(value * scale)) for name, value in means.items()}


def entropy_metrics(told: TokenMetrics, inputs: Inputs) -> Metrics:
    if "entropy" not in inputs.for_metrics:
        return {}
    share = inputs.for_metrics["entropy"][:, None]
    return {"entropy": jnp.sum(jnp.where(inputs.trained, told.entropy, 0.0) * share)}


def answer_metrics(logits: Array, inputs: Inputs) -> Metrics:
    """TRL's `logits/...`, `entropy` and `mean_token_accuracy` of pairs, where batches say what a token counts."""
    if "answers" not in inputs.for_metrics:
        return {}
    told = token_metrics(logits, inputs.targets)
    found = entropy_metrics(told, inputs)
    share = inputs.for_metrics["answers"][:, None]
    if found:
        found["mean_token_accuracy"] = jnp.sum((told.likeliest * share)[0::2])
    means = in_pairs(jnp.sum(jnp.where(inputs.trained, told.mean_logit, 0.0) * share, axis=1)).sum(axis=0)
    return found | {"logits/chosen": means[0], "logits/rejected": means[1]}


def answer_logits(model: Any, inputs: Inputs) -> Array:
    return forward(model, inputs.input_tokens, inputs.positions, inputs.attention_mask, inputs.segment_ids)


def known_type(name: str, names: Sequence[str]) -> str:
    name = OLDER_NAMES.get(name, name)
    if name not in names:
        raise ValueError(f"loss_type={name!r} does not exist; choose one of {', '.join(map(repr, names))}")
    return name
