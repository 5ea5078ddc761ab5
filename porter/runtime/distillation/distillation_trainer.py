"""PeftTrainer for distillation: the teacher's logits in, TRL's generalised Jensen-Shannon divergence out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from tunix.sft.sharding_utils import shard_input

from ..generation.prompts import check_rows
from ..losses.token_loss import IGNORED, forward, model_inputs, next_labels
from ..models.vocabulary import check_vocabulary


class DistillationTrainer(PeftTrainer):
    """Tunix's PeftTrainer with the loss of TRL 1.16's GKDTrainer, see `divergence_loss`.

    `teacher_model` computes the logits of each batch as it is fed, (B, T, vocabulary) in the type that it gives them.
    It is never trained. `beta`: 0 is the forward KL divergence (teacher to student), 1 the reverse, between them the
    generalised Jensen-Shannon divergence.

    Tunix's own DistillationTrainer is not exact here (google-tunix 0.1.7): its strategies average over prompts and
    padding, have the forward KL divergence alone, mixed with a cross-entropy, and evaluate without the teacher; it
    hands its loss tokens and mask of a batch, without labels or what they count.

    ValueError for models of different vocabularies, and for a `beta` outside 0 to 1.
    """

    def __init__(
        self,
        model: nnx.Module,
        optimizer: optax.GradientTransformation,
        training_config: TrainingConfig,
        *,
        teacher_model: nnx.Module,
        beta: float = 0.5,
    ) -> None:
        own, teachers = check_vocabulary(model), check_vocabulary(teacher_model)
        if own != teachers:
            raise ValueError(
                f"the student has a vocabulary of {own} tokens, the teacher of {teachers}: their distributions can't "
                "be compared; choose a teacher of the same family"
            )
        self.teacher_model = teacher_model
        self.counted_rows: slice | None = None  # whose tokens are the same in each run, see recording.py
        self._teacher = nnx.jit(_logits, graph_updates=False)  # not the weights again
        super().__init__(model, optimizer, training_config)
        self.with_gen_model_input_fn(model_inputs).with_loss_fn(divergence_loss(beta))

    def train(self, train_ds: Any, *evaluation: Any, **settings: Any) -> None:
        """As PeftTrainer's. ValueError for rows that are longer than the model's context."""
        check_rows(self.model, getattr(train_ds, "longest", 0))
        self.counted_rows = None if getattr(train_ds, "samples", True) else slice(None)
        super().train(train_ds, *evaluation, **settings)

    def _prepare_inputs(self, input_data: Any) -> Any:
        batch = shard_input(input_data, self.config.data_sharding_axis)
        return {**batch, "teacher_logits": self._teacher(self.teacher_model, batch)}


def _logits(model: nnx.Module, batch: dict[str, Any]) -> Array:
    inputs = model_inputs(batch)
    return forward(model, inputs["input_tokens"], inputs["positions"], inputs["attention_mask"], inputs["segment_ids"])


def divergence_loss(beta: float) -> Callable[..., Array]:
    """The loss of a batch of `GKDBatches` and the teacher's logits of it.

    Sum over trained tokens of the divergence between the distributions of the next token, each row times its `scale`:
    a float32 scalar. As GKDTrainer's, at the models' own temperature: its `temperature` is for sampling alone.
    """
    if not 0 <= beta <= 1:
        raise ValueError(f"beta={beta}: the divergence is interpolated between 0 and 1")

    def loss(
        model: nnx.Module,
        input_tokens: Array,
        labels: Array,
        positions: Array,
        attention_mask: Array,
        scale: Array,
        segment_ids: Array,
        teacher_logits: Array,
    ) -> Array:
        logits = forward(model, input_tokens, positions, attention_mask, segment_ids)
        trained = next_labels(labels) != IGNORED
        each = jnp.where(trained, divergence(logits, teacher_logits, beta), 0.0)
        return jnp.sum(each * scale[:, None])

    return loss


def divergence(student_logits: Array, teacher_logits: Array, beta: float) -> Array:
    """`GKDTrainer.generalized_jsd_loss` of every token, (..., vocabulary) → (...), float32.

    beta × KL(teacher, mixture) + (1 - beta) × KL(student, mixture), with the mixture of `beta` of the teacher and
    1 - `beta` of the student; at the ends KL(teacher, student) for 0 and KL(student, teacher) for 1.
    """
    student = jax.nn.log_softmax(student_logits.astype(jnp.float32), axis=-1)
    teacher = jax.nn.log_softmax(teacher_logits.astype(jnp.float32), axis=-1)
    if beta == 0:
        return _kl(teacher, student)
    if beta == 1:
        return _kl(student, teacher)
    mixture = jnp.logaddexp(student + jnp.log1p(-beta), teacher + jnp.log(beta))
    return beta * _kl(teacher, mixture) + (1 - beta) * _kl(student, mixture)


def _kl(of: Array, to: Array) -> Array:
    """Kullback-Leibler divergence of log-probabilities, over the last axis."""
    return jnp.sum(jnp.exp(of) * (of - to), axis=-1)
