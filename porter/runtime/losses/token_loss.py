"""TRL's training loss for Tunix's PeftTrainer, and the model inputs it needs.

`trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from ..facts.releases import BLIND
from ..models import patches
from ..models.head import hidden_states
from .blind_padding import seeing
from .for_metrics import but_for_metrics
from .neftune import noisy_embeddings
from .token_metrics import TokenMetrics, token_metrics

IGNORED = -100  # the label of a token that isn't trained, torch's ignore_index
METRICS = {"accuracy": "mean_token_accuracy", "entropy": "entropy", "attended_entropy": "entropy"}  # as TRL logs them


def model_inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `token_loss` from a batch of `SFTBatches` or `TrainerBatches`; runs inside the jitted step.

    Adds `attention_mask`, (B, T, T) bool: causal, within one document. Padding is a document of its own, so
    that no query is left without a key (its softmax would be NaN). `attended` (B, T), where a batch has it, takes keys
    away; a query that has none left gets nothing from its attention, as in torch. Where `sees_row` or `averages_row`
    (B, T) say so, it has all keys of the row instead, see `blind_padding`; where `averages_past` does, all but those
    that are both taken away and ahead, and it becomes `averages_row`; where `sees_nothing` does, it has none.
    What a batch has for metrics alone is left out, see `for_metrics`.
    """
    batch = but_for_metrics(batch)
    segments = batch["segment_ids"]
    length = segments.shape[-1]
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    same = segments[:, :, None] == segments[:, None, :]
    inputs = {**batch, "attention_mask": causal & same}
    in_sight = same
    if "attended" in inputs:
        patches.see_nothing()
        attended = inputs.pop("attended")[:, None, :]
        inputs["attention_mask"] &= attended
        if (of_past := inputs.pop(BLIND["past"], None)) is not None:
            inputs[BLIND["mean"]], in_sight = of_past, same & (causal | attended)
        if (unseeing := inputs.pop(BLIND["unpadded"], None)) is not None:
            inputs["attention_mask"] &= ~unseeing[:, :, None]
    for name in BLIND.values():
        if name in inputs:
            inputs["attention_mask"] |= inputs[name][:, :, None] & in_sight
    return inputs


@dataclass(frozen=True, eq=False)  # JAX takes equal functions for one, whose shares are not
class TokenLoss:
    """Sum over tokens of the negative log likelihood, each row times its `scale`: a float32 scalar.

    With `SFTBatches`' scale (micro-batches over trained tokens of the whole accumulated group), the mean that
    optax.MultiSteps takes over the micro-batches is TRL's loss: the mean over all tokens of the group
    (`num_items_in_batch` of transformers' Trainer), and not a mean of means.

    `chunks`: in how many parts of T logits are made, one at a time; None: of all at once. `shares`: see `with_metrics`.
    """

    chunks: int | None = None
    shares: Mapping[str, jax.Array] | None = field(default=None, repr=False)

    def with_metrics(self, shares: Mapping[str, jax.Array]) -> TokenLoss:
        """One that gives the loss and, by name, what TRL logs of a batch's tokens, whose `shares` say what each counts.

        They are shaped as `scale`: `accuracy` and `entropy` of trained tokens, `attended_entropy` of a row's.
        """
        return replace(self, shares=shares)

    def __call__(
        self,
        model: nnx.Module,
        input_tokens: jax.Array,
        labels: jax.Array,
        positions: jax.Array,
        attention_mask: jax.Array,
        scale: jax.Array,
        segment_ids: jax.Array | None = None,
        documents: jax.Array | None = None,
        smoothing: jax.Array | None = None,
        noise: jax.Array | None = None,
        noise_seeds: jax.Array | None = None,
        sees_row: jax.Array | None = None,
        averages_row: jax.Array | None = None,
    ) -> Any:
        """The loss of a batch; nnx.grad takes what it holds by position, so that it is all named here.

        `input_tokens`, `labels`, `positions`, `segment_ids`: (B, T) int32; label -100 is not trained, and the token at
        t predicts the label at t + 1. `attention_mask`: (B, T, T) bool. `scale`: (B,) float32, or (B, T) where the
        documents of packed rows differ. `documents`: (B,) int32, there in packed batches only. `smoothing`: (B,)
        float32, where batches have a `label_smoothing`: the share of the loss that is the mean over the vocabulary, as
        in transformers' LabelSmoother. `noise` (B,) float32, `noise_seeds` (B,) uint32: where batches have a
        `neftune_noise_alpha`, see `noisy_embeddings`. `sees_row`, `averages_row` (B, T) bool: padding that has no token
        to see, see `blind_padding`.
        """
        call = call_of(model, input_tokens, positions, attention_mask, segment_ids, documents)
        targets, each = next_labels(labels), _Each(smoothing, bool(self.shares))
        with noisy_embeddings(model, noise, noise_seeds), seeing(model, sees_row, averages_row, attention_mask):
            if self.chunks is None:
                logits, _ = model(*call.arguments, **call.named)
                nll, told = each(logits, targets)
            else:
                hidden, head = hidden_states(model, *call.arguments, **call.named)
                nll, told = _in_chunks(hidden, head, targets, each, self.chunks)
        loss = jnp.sum(nll * _each_token(scale))
        return loss if self.shares is None else (loss, self._measured(told, targets, segment_ids, self.shares))

    def _measured(
        self, told: Any, targets: jax.Array, segment_ids: Any, shares: Mapping[str, jax.Array]
    ) -> dict[str, jax.Array]:
        found = {}
        for name, share in shares.items():
            values = told.likeliest if name == "accuracy" else told.entropy
            counted = segment_ids > 0 if name == "attended_entropy" else targets != IGNORED
            found[METRICS[name]] = jnp.sum(jnp.where(counted, values, 0) * _each_token(share))
        return found


token_loss = TokenLoss()


def _each_token(scale: jax.Array) -> jax.Array:
    return scale if scale.ndim == 2 else scale[:, None]


def forward(
    model: nnx.Module,
    input_tokens: jax.Array,
    positions: jax.Array,
    attention_mask: jax.Array,
    segment_ids: jax.Array,
    sees_row: jax.Array | None = None,
    averages_row: jax.Array | None = None,
) -> jax.Array:
    """Logits (B, T, vocabulary) of rows that hold one document each; see `token_loss` for the arguments."""
    call = call_of(model, input_tokens, positions, attention_mask, segment_ids, None)
    with seeing(model, sees_row, averages_row, attention_mask):
        logits, _ = model(*call.arguments, **call.named)
    return logits


def chunked_token_loss(chunks: int) -> TokenLoss:
    """`token_loss` that makes logits of a part of T at a time: `.with_loss_fn(rt.chunked_token_loss(8))`.

    The head is applied to `chunks` parts one after the other, and again in the backward pass. The sum is the same.
    """
    if chunks < 1:
        raise ValueError(f"chunked_token_loss({chunks}): a row has at least one part")
    return TokenLoss(chunks)


class Call(NamedTuple):
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def call_of(
    model: Any, input_tokens: Any, positions: Any, attention_mask: Any, segment_ids: Any, documents: Any
) -> Call:
    """What a Tunix model is called with."""
    if documents is not None:
        check_packing(model, input_tokens.shape[1])
    flash = getattr(getattr(model, "config", None), "use_flash_attention", False)
    extra = {"segment_ids": segment_ids} if flash and segment_ids is not None else {}  # flash attention reads no mask
    return Call((input_tokens, positions, None, attention_mask), extra)


def token_nll(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Negative log likelihood of the next token, float32 (B, T): 0 where the next label is -100, and at the end.

    The labels are moved instead of the logits cut, which keeps T what the hardware likes.
    """
    return target_nll(logits, next_labels(labels))


def next_labels(labels: jax.Array) -> jax.Array:
    """(B, T): the label that each token predicts, -100 at the end."""
    return jnp.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=IGNORED)


def target_nll(logits: jax.Array, targets: jax.Array, smoothing: jax.Array | None = None) -> jax.Array:
    """Negative log likelihood of `targets` (B, T) where they stand, float32: 0 where one is -100."""
    logits = logits.astype(jnp.float32)
    wanted = chosen_logits(logits, targets)
    if smoothing is not None:
        wanted = (1 - smoothing[:, None]) * wanted + smoothing[:, None] * jnp.mean(logits, axis=-1)
    return jnp.where(targets != IGNORED, jax.nn.logsumexp(logits, axis=-1) - wanted, 0.0)


def chosen_logits(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    """The logit of each token, (B, T, vocabulary) and (B, T) → (B, T); 0 for a token outside the vocabulary.

    Exactly a gather's values. But the gradient of a gather is scattered into another (B, T, vocabulary), 1.5 GiB a chip
    for 6144 tokens of Gemma 4 31B on tp=4; this comparison XLA fuses into the passes over the logits that the
    logsumexp makes anyway, on each chip for its share of the vocabulary.
    """
    places = jax.lax.broadcasted_iota(tokens.dtype, logits.shape, logits.ndim - 1)
    return jnp.sum(jnp.where(places == tokens[..., None], logits, 0), axis=-1)


class _Each(NamedTuple):
    """The negative log likelihood of each token, and what is logged of it, where something is."""

    smoothing: jax.Array | None
    tells: bool

    def __call__(self, logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, TokenMetrics | None]:
        nll = target_nll(logits, targets, self.smoothing)
        return nll, token_metrics(logits, targets) if self.tells else None


def _in_chunks(hidden: jax.Array, head: Any, targets: jax.Array, each: _Each, chunks: int) -> Any:
    """`each` of head(hidden), (B, T), of which a part of T has logits at a time; the last may be shorter."""
    length = hidden.shape[1]
    size = -(-length // min(chunks, length))
    part = jax.checkpoint(lambda states, wanted: each(head(states), wanted))
    found: list[Any] = []
    for start in range(0, length, size):
        if found:
            # Otherwise XLA may compute the parts side by side, which is what is to be avoided.
            hidden, found[-1] = jax.lax.optimization_barrier((hidden, found[-1]))
        found.append(part(hidden[:, start : start + size], targets[:, start : start + size]))
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *found)


def check_packing(model: nnx.Module, length: int) -> None:
    """ValueError when this model can't be trained on packed rows of `length` tokens.

    google-tunix 0.1.7 builds Gemma 2's sliding window from positions on one side and key indices on the other
    (tunix/models/gemma/model.py), which disagree once positions start over within a row.
    """
    window = getattr(getattr(model, "config", None), "sliding_window_size", None)
    family = getattr(getattr(getattr(model, "porter", None), "family", None), "name", None)
    if family == "gemma2" and window is not None and length > window:
        raise ValueError(
            f"packed rows of {length} tokens are longer than Gemma 2's sliding window of {window}, which google-tunix "
            f"applies wrongly to packed rows: set packing=False, or max_length={window} or less"
        )
