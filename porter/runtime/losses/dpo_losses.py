"""The loss of TRL 1.16's DPOTrainer in all its types, for `PreferenceTrainer`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.nn import log_sigmoid, sigmoid

from .preference_losses import (
    BETA_0,
    Inputs,
    Metrics,
    PreferenceLoss,
    answer_logits,
    answer_metrics,
    in_pairs,
    known_type,
    pair_metrics,
    smoothed,
)
from .token_loss import IGNORED

DPO_TYPES = (
    "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired",
    "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm",
)  # fmt: skip
DIVERGENCES = ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence")
# Those whose f-divergence terms cancel between chosen and rejected
_DIVERGING = {"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"}


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
        logits = answer_logits(model, inputs)
        token_logps = -inputs.nll(logits)
        logps = self.total(token_logps, inputs)
        ratios = logps if reference is None else logps - reference
        pairs = Pairs(
            logps=in_pairs(logps),
            reference=in_pairs(logps - ratios),
            ratios=in_pairs(ratios),
            scores=in_pairs(_divergence(ratios, self.f_divergence_type, self.f_alpha_divergence_coef)),
            lengths=in_pairs(jnp.maximum((inputs.labels != IGNORED).sum(axis=1), 1)),
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
        metrics = pair_metrics(self.beta * pairs.ratios, pairs.logps, inputs.mean_scale[0::2])
        return loss, metrics | answer_metrics(logits, inputs)


@dataclass(frozen=True)
class Pairs:
    """Chosen and rejected of each pair, (P, 2): log-probabilities, those of the reference, their ratios and scores.

    `scores` are the ratios under the f-divergence, `lengths` the tokens of the answers. `scale`: (P,). `processes`:
    (P,) where the loss compares pairs.
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
    return _unsorted(smoothed(loss.beta * (model - reference), loss.label_smoothing), pairs)


def _aot_unpaired(loss: DPOLoss, pairs: Pairs) -> Array:
    delta = _sorted(pairs.ratios[:, 0], pairs) - _sorted(pairs.ratios[:, 1], pairs)
    return _unsorted(smoothed(loss.beta * delta, loss.label_smoothing), pairs)


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


def _sorted(values: Array, pairs: Pairs) -> Array:
    """`values` (P,), ascending within each process of the GPU run; `whole_micro_batches` keeps these together."""
    if pairs.processes is None:
        raise ValueError("aot compares the pairs of a micro-batch: PreferenceBatches needs whole_micro_batches=True")
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
    weights = in_pairs(jnp.exp(aligned / jnp.maximum(inputs.trained.sum(axis=1), 1)))
    return jax.lax.stop_gradient(weights[:, 0] * weights[:, 1])


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
    rpo_alpha: float | None = None,
) -> DPOLoss:
    """The loss of TRL 1.16's DPOTrainer; the arguments are DPOConfig's, with its names, defaults and meaning.

    `loss_type`: one of `DPO_TYPES`, or several with their `loss_weights` (1 each by default). `reference_free` is older
    TRL's: a reference that gives every answer the same probability. `rpo_alpha` is older TRL's, too: what the chosen
    answer's likelihood counts beside the loss, a loss type `sft` of its own; None leaves it out. ValueError where TRL
    refuses too.
    """
    if rpo_alpha is not None:
        loss_type = [*([loss_type] if isinstance(loss_type, str) else loss_type), "sft"]
        loss_weights = [*(loss_weights or [1.0] * (len(loss_type) - 1)), rpo_alpha]
    names = tuple(known_type(name, DPO_TYPES) for name in ([loss_type] if isinstance(loss_type, str) else loss_type))
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
        raise ValueError(BETA_0)
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
