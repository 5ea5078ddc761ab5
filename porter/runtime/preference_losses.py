"""The preference losses of TRL 1.16 for `PreferenceTrainer`: DPO in all its types, ORPO, CPO with SimPO, and KTO.

Every loss is the sum over rows of TRL's loss of each times its `scale`, in float32; beside it stand the metrics that TRL
logs under the same names. `PreferenceBatches` says how rows and scales are laid out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn import log_sigmoid, sigmoid

from .loss import IGNORED, next_labels, token_nll

Metrics = dict[str, jax.Array]
Array = jax.Array

DPO_TYPES = (
    "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
    "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm",
)  # fmt: skip
CPO_TYPES = ("sigmoid", "hinge", "ipo", "simpo")
KTO_TYPES = ("kto", "apo_zero_unpaired")
DIVERGENCES = ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence")
# Those whose f-divergence terms cancel between chosen and rejected
_DIVERGING = {"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"}
_OLDER_NAMES = {"aot_pair": "aot_unpaired"}


@dataclass(frozen=True)
class Inputs:
    """A batch as the losses read it; see `PreferenceBatches`."""

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

    @property
    def trained(self) -> Array:
        """(B, T) bool: where the next token is one of the answer."""
        return next_labels(self.labels) != IGNORED


@dataclass(frozen=True)
class PreferenceLoss:
    """What the losses share. `reference`: whether the loss needs the log-probabilities of a reference model."""

    beta: float = 0.1
    reference = True

    def __call__(self, model: nnx.Module, **batch: Array) -> tuple[Array, Metrics]:
        """Loss and metrics of a batch; a reference model's log-probabilities come with it or from the adapters' base."""
        inputs = Inputs(**batch)
        reference = inputs.reference_logps
        if self.reference and reference is None:
            reference = self.logps(without_adapters(model), inputs)
        return self.loss(model, inputs, None if reference is None else jax.lax.stop_gradient(reference))

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        """Loss and metrics, given the reference's log-probability of every row, (B,)."""
        raise NotImplementedError

    def logps(self, model: nnx.Module, inputs: Inputs) -> Array:
        """Log-probability of each row's answer, (B,) float32."""
        return self.total(-token_nll(_logits(model, inputs), inputs.labels), inputs)

    def total(self, token_logps: Array, inputs: Inputs) -> Array:
        """Token log-probabilities (B, T) as one number a row."""
        return token_logps.sum(axis=1)


@dataclass(frozen=True)
class DPOLoss(PreferenceLoss):
    """See `dpo_loss`."""

    loss_type: tuple[str, ...] = ("sigmoid",)
    loss_weights: tuple[float, ...] = (1.0,)
    label_smoothing: float = 0.0
    f_divergence_type: str = "reverse_kl"
    f_alpha_divergence_coef: float = 0.5
    ld_alpha: float | None = None
    use_weighting: bool = False
    discopop_tau: float = 0.05
    reference_free: bool = False

    @property
    def reference(self) -> bool:  # type: ignore[override]
        return not self.reference_free

    def total(self, token_logps: Array, inputs: Inputs) -> Array:
        """The sum; with `ld_alpha` the tokens beyond the length that both answers have count that much (LD-DPO)."""
        if self.ld_alpha is None:
            return token_logps.sum(axis=1)
        place = jnp.cumsum(inputs.trained, axis=1)
        lengths = inputs.trained.sum(axis=1)
        shared = jnp.repeat(jnp.minimum(lengths[0::2], lengths[1::2]), 2)[:, None]
        return (token_logps * jnp.where(place > shared, self.ld_alpha, 1.0)).sum(axis=1)

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        logits = _logits(model, inputs)
        token_logps = -token_nll(logits, inputs.labels)
        logps = self.total(token_logps, inputs)
        ratios = logps if reference is None else logps - reference
        pairs = Pairs(
            logps=_pair(logps),
            reference=_pair(logps - ratios),
            ratios=_pair(ratios),
            scores=_pair(_divergence(ratios, self.f_divergence_type, self.f_alpha_divergence_coef)),
            lengths=_pair(jnp.maximum((inputs.labels != IGNORED).sum(axis=1), 1)),
            scale=inputs.scale[0::2],
            processes=None if inputs.processes is None else inputs.processes[0::2],
        )
        weights = _wpo_weights(logits, token_logps, inputs) if self.use_weighting else 1.0
        loss: Any = 0.0
        for name, weight in zip(self.loss_type, self.loss_weights, strict=True):
            if name == "sft":
                loss += weight * jnp.sum(-token_logps.sum(axis=1)[0::2] * inputs.nll_scale[0::2])
            else:
                each = _PAIR_LOSSES[name](self, pairs)
                loss += weight * jnp.sum(each * weights * pairs.scale)
        return loss, _pair_metrics(self.beta * pairs.ratios, pairs.logps, pairs.scale)


@dataclass(frozen=True)
class ORPOLoss(PreferenceLoss):
    """See `orpo_loss`."""

    reference = False

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        logits = _logits(model, inputs)
        chosen, rejected = _pair(_averages(-token_nll(logits, inputs.labels), inputs)).T
        every_token = jnp.where(inputs.segment_ids > 0, inputs.input_tokens, IGNORED)
        nll = jnp.sum(token_nll(logits, every_token).sum(axis=1)[0::2] * inputs.nll_scale[0::2])
        log_odds = (chosen - rejected) - (_log1mexp(chosen) - _log1mexp(rejected))
        scale = inputs.scale[0::2]
        ratio = log_sigmoid(log_odds)
        logps = jnp.stack([chosen, rejected], axis=1)
        metrics = _pair_metrics(self.beta * logps, logps, scale) | {
            "nll_loss": nll,
            "log_odds_ratio": jnp.sum(ratio * scale),
            "log_odds_chosen": jnp.sum(log_odds * scale),
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
        token_logps = -token_nll(_logits(model, inputs), inputs.labels)
        averaged = self.loss_type in ("ipo", "simpo")
        logps = _pair(_averages(token_logps, inputs) if averaged else token_logps.sum(axis=1))
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
            each = _smoothed(self.beta * delta, self.label_smoothing)
        nll = jnp.sum(-token_logps.sum(axis=1)[0::2] * inputs.nll_scale[0::2])
        metrics = _pair_metrics(self.beta * rewards, logps, scale) | {"nll_loss": nll if self.cpo_alpha else nll * 0}
        return jnp.sum(each * scale) + self.cpo_alpha * nll, metrics


@dataclass(frozen=True)
class KTOLoss(PreferenceLoss):
    """See `kto_loss`."""

    loss_type: str = "kto"
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    def loss(self, model: nnx.Module, inputs: Inputs, reference: Array | None) -> tuple[Array, Metrics]:
        assert reference is not None and inputs.desirable is not None
        logps = self.logps(model, inputs)
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
        metrics = {"kl": kl}
        for name, rows in (("chosen", desirable), ("rejected", ~desirable)):
            rows &= scale > 0
            count = jnp.where(rows.sum() > 0, rows.sum(), jnp.nan)  # not logged where there is none
            metrics[f"rewards/{name}"] = jnp.sum(jnp.where(rows, self.beta * ratios, 0.0)) / count
            metrics[f"logps/{name}"] = jnp.sum(jnp.where(rows, logps, 0.0)) / count
        metrics["rewards/margins"] = metrics["rewards/chosen"] - metrics["rewards/rejected"]
        return jnp.sum(each * scale), jax.lax.stop_gradient(metrics)


def dpo_loss(
    beta: float = 0.1,
    *,
    loss_type: str | Sequence[str] = "sigmoid",
    loss_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    f_divergence_type: str = "reverse_kl",
    f_alpha_divergence_coef: float = 0.5,
    ld_alpha: float | None = None,
    use_weighting: bool = False,
    discopop_tau: float = 0.05,
    reference_free: bool = False,
) -> DPOLoss:
    """The loss of TRL 1.16's DPOTrainer; the arguments are DPOConfig's, with its names, defaults and meaning.

    `loss_type`: one of `DPO_TYPES`, or several with their `loss_weights` (1 each by default). `reference_free` is older
    TRL's: a reference that gives every answer the same probability. ValueError where TRL refuses too.
    """
    names = tuple(_known(name, DPO_TYPES) for name in ([loss_type] if isinstance(loss_type, str) else loss_type))
    weights = tuple(float(weight) for weight in loss_weights or [1.0] * len(names))
    if len(weights) != len(names):
        raise ValueError(f"{len(weights)} loss_weights for {len(names)} loss types: one for each is needed")
    if f_divergence_type not in DIVERGENCES:
        raise ValueError(
            f"f_divergence_type={f_divergence_type!r}: expected one of {', '.join(map(repr, DIVERGENCES))}"
        )
    if f_divergence_type != "reverse_kl" and not set(names) <= _DIVERGING:
        raise ValueError(f"f_divergence_type={f_divergence_type!r} goes with {', '.join(sorted(_DIVERGING))} alone")
    if use_weighting and {"aot", "aot_unpaired"} & set(names):
        raise ValueError("use_weighting: aot sorts the answers, which leaves no pair to weigh")
    if use_weighting and "sft" in names:
        raise ValueError("use_weighting: the loss type 'sft' is one number for a micro-batch, with no pair to weigh")
    if "exo_pair" in names and label_smoothing == 0.0:
        raise ValueError("loss_type 'exo_pair' needs label_smoothing above 0; its paper takes 1e-3")
    if "robust" in names and label_smoothing == 0.5:
        raise ValueError("loss_type 'robust' divides by 1 - 2 * label_smoothing: 0.5 is impossible")
    if beta == 0 and set(names) != {"sft"}:
        raise ValueError(_BETA_0)
    return DPOLoss(
        beta=beta,
        loss_type=names,
        loss_weights=weights,
        label_smoothing=label_smoothing,
        f_divergence_type=f_divergence_type,
        f_alpha_divergence_coef=f_alpha_divergence_coef,
        ld_alpha=ld_alpha,
        use_weighting=use_weighting,
        discopop_tau=discopop_tau,
        reference_free=reference_free,
    )


_BETA_0 = "beta=0 takes the preferences out of the loss, and the reference model with them: give a beta above 0"


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
    """The loss of TRL 1.16's CPOTrainer, which is SimPO with loss_type="simpo" and cpo_alpha=0; its names and defaults."""
    if loss_type == "alphapo":  # as CPOConfig takes it
        loss_type, cpo_alpha = "simpo", 0.0
    if beta == 0:
        raise ValueError("beta=0 takes the preferences out of the loss: give a beta above 0")
    return CPOLoss(
        beta=beta,
        loss_type=_known(loss_type, CPO_TYPES),
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
        raise ValueError(_BETA_0)
    return KTOLoss(
        beta=beta,
        loss_type=_known(loss_type, KTO_TYPES),
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


@dataclass(frozen=True)
class Pairs:
    """Chosen and rejected of each pair, (P, 2): log-probabilities, those of the reference, their ratios and scores.

    `scores` are the ratios under the f-divergence, `lengths` the tokens of the answers. `scale`: (P,). `processes`: (P,)
    where the loss compares pairs.
    """

    logps: Array
    reference: Array
    ratios: Array
    scores: Array
    lengths: Array
    scale: Array
    processes: Array | None = None

    @property
    def delta(self) -> Array:
        return self.scores[:, 0] - self.scores[:, 1]


def _hinge(loss: DPOLoss, pairs: Pairs) -> Array:
    return jax.nn.relu(1 - loss.beta * pairs.delta)


def _ipo(loss: DPOLoss, pairs: Pairs) -> Array:
    scores = pairs.scores / pairs.lengths
    return (scores[:, 0] - scores[:, 1] - 1 / (2 * loss.beta)) ** 2


def _exo_pair(loss: DPOLoss, pairs: Pairs) -> Array:
    logits, epsilon = loss.beta * pairs.delta, loss.label_smoothing
    chosen = sigmoid(logits) * (log_sigmoid(logits) - math.log1p(-epsilon))
    return chosen + sigmoid(-logits) * (log_sigmoid(-logits) - math.log(epsilon))


def _nca_pair(loss: DPOLoss, pairs: Pairs) -> Array:
    chosen, rejected = loss.beta * pairs.ratios.T
    return -log_sigmoid(chosen) - 0.5 * log_sigmoid(-chosen) - 0.5 * log_sigmoid(-rejected)


def _robust(loss: DPOLoss, pairs: Pairs) -> Array:
    logits, flipped = loss.beta * pairs.delta, loss.label_smoothing
    return (-(1 - flipped) * log_sigmoid(logits) + flipped * log_sigmoid(-logits)) / (1 - 2 * flipped)


def _bco_pair(loss: DPOLoss, pairs: Pairs) -> Array:
    chosen, rejected = loss.beta * pairs.ratios.T
    return -log_sigmoid(chosen) - log_sigmoid(-rejected)


def _sppo_hard(loss: DPOLoss, pairs: Pairs) -> Array:
    return (pairs.ratios[:, 0] - 0.5 / loss.beta) ** 2 + (pairs.ratios[:, 1] + 0.5 / loss.beta) ** 2


def _aot(loss: DPOLoss, pairs: Pairs) -> Array:
    model = _sorted(pairs.logps[:, 0] - pairs.logps[:, 1], pairs)
    reference = _sorted(pairs.reference[:, 0] - pairs.reference[:, 1], pairs)
    return _unsorted(_smoothed(loss.beta * (model - reference), loss.label_smoothing), pairs)


def _aot_unpaired(loss: DPOLoss, pairs: Pairs) -> Array:
    delta = _sorted(pairs.ratios[:, 0], pairs) - _sorted(pairs.ratios[:, 1], pairs)
    return _unsorted(_smoothed(loss.beta * delta, loss.label_smoothing), pairs)


def _apo_zero(loss: DPOLoss, pairs: Pairs) -> Array:
    chosen, rejected = loss.beta * pairs.ratios.T
    return 1 - sigmoid(chosen) + sigmoid(rejected)


def _apo_down(loss: DPOLoss, pairs: Pairs) -> Array:
    chosen, rejected = loss.beta * pairs.ratios.T
    return sigmoid(chosen) + 1 - sigmoid(chosen - rejected)


def _discopop(loss: DPOLoss, pairs: Pairs) -> Array:
    logits = loss.beta * pairs.delta
    share = sigmoid(logits / loss.discopop_tau)
    return -log_sigmoid(logits) * (1 - share) + jnp.exp(-logits) * share


def _sigmoid_norm(loss: DPOLoss, pairs: Pairs) -> Array:
    scores = pairs.scores / pairs.lengths
    return -log_sigmoid(loss.beta * (scores[:, 0] - scores[:, 1]))


_PAIR_LOSSES: Mapping[str, Callable[[DPOLoss, Pairs], Array]] = {
    "sigmoid": lambda loss, pairs: -log_sigmoid(loss.beta * pairs.delta),
    "hinge": _hinge,
    "ipo": _ipo,
    "exo_pair": _exo_pair,
    "nca_pair": _nca_pair,
    "robust": _robust,
    "bco_pair": _bco_pair,
    "sppo_hard": _sppo_hard,
    "aot": _aot,
    "aot_unpaired": _aot_unpaired,
    "apo_zero": _apo_zero,
    "apo_down": _apo_down,
    "discopop": _discopop,
    "sigmoid_norm": _sigmoid_norm,
}


def _divergence(ratios: Array, name: str, alpha: float) -> Array:
    """The derivative f'(t) of the divergence at t = exp(ratios), up to a constant that cancels in a pair."""
    if name == "forward_kl":
        return 1 - jnp.exp(-ratios)
    if name == "js_divergence":
        return math.log(2) + log_sigmoid(ratios)
    if name == "alpha_divergence" and abs(alpha - 1.0) >= 1e-6:
        return (jnp.exp(jnp.minimum((alpha - 1.0) * ratios, 80.0)) - 1.0) / (alpha - 1.0)
    return ratios


def _smoothed(logits: Array, label_smoothing: float) -> Array:
    return -log_sigmoid(logits) * (1 - label_smoothing) - log_sigmoid(-logits) * label_smoothing


def _sorted(values: Array, pairs: Pairs) -> Array:
    """`values` (P,), ascending within each process of the GPU run; `whole_micro_batches` keeps these together."""
    assert pairs.processes is not None, (
        "aot compares the pairs of a micro-batch: PreferenceBatches(whole_micro_batches=True)"
    )
    return values[jnp.lexsort((values, pairs.processes))]


def _unsorted(losses: Array, pairs: Pairs) -> Array:
    """Losses in sorted order at the places of their processes: within one, all pairs have the same scale."""
    assert pairs.processes is not None
    return jnp.zeros_like(losses).at[jnp.argsort(pairs.processes, stable=True)].set(losses)


def _wpo_weights(logits: Array, token_logps: Array, inputs: Inputs) -> Array:
    """What a pair counts by how likely the policy is to write it, (P,) (WPO, eq. 2)."""
    logits = logits.astype(jnp.float32)
    sum_of_squares = jax.nn.logsumexp(2 * logits, axis=-1) - 2 * jax.nn.logsumexp(logits, axis=-1)
    aligned = jnp.where(inputs.trained, token_logps - sum_of_squares, 0.0).sum(axis=1)
    weights = _pair(jnp.exp(aligned / jnp.maximum(inputs.trained.sum(axis=1), 1)))
    return jax.lax.stop_gradient(weights[:, 0] * weights[:, 1])


def _averages(token_logps: Array, inputs: Inputs) -> Array:
    """Mean log-probability of each row's tokens, (B,); -1 for rows that only fill the batch, where log(1 - e^x) is."""
    means = token_logps.sum(axis=1) / jnp.maximum(inputs.trained.sum(axis=1), 1)
    return jnp.where(inputs.scale > 0, means, -1.0)


def _log1mexp(x: Array) -> Array:
    """log(1 - e^x) for x < 0, by the form that loses fewer digits."""
    small = x < -math.log(2)
    far, near = jnp.where(small, x, -1.0), jnp.where(small, -1.0, x)
    return jnp.where(small, jnp.log1p(-jnp.exp(far)), jnp.log(-jnp.expm1(near)))


def _pair(rows: Array) -> Array:
    """(B,) in the batch's order as (P, 2): chosen, rejected."""
    return rows.reshape(-1, 2)


def _pair_metrics(rewards: Array, logps: Array, scale: Array) -> Metrics:
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


def _logits(model: Any, inputs: Inputs) -> Array:
    flash = getattr(getattr(model, "config", None), "use_flash_attention", False)
    extra = {"segment_ids": inputs.segment_ids} if flash else {}  # flash attention reads no mask
    logits, _ = model(inputs.input_tokens, inputs.positions, None, inputs.attention_mask, **extra)
    return logits


def _known(name: str, names: Sequence[str]) -> str:
    name = _OLDER_NAMES.get(name, name)
    if name not in names:
        raise ValueError(f"loss_type={name!r} does not exist; choose one of {', '.join(map(repr, names))}")
    return name
