"""PeftTrainer for preference losses: the reference model's log-probabilities in, TRL's metrics out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from tunix.sft import utils
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from tunix.sft.sharding_utils import shard_input

from ..batches.config_arguments import told
from ..generation.prompts import check_rows
from ..losses.dpo_losses import dpo_loss
from ..losses.preference_losses import Inputs, PreferenceLoss, cpo_loss, kto_loss, orpo_loss


class PreferenceTrainer(PeftTrainer):
    """Tunix's PeftTrainer with one of the preference losses (`rt.dpo_loss(...)`, `rt.orpo_loss(...)`, ...).

    The reference is `ref_model`; without one the base under the adapters, in the same weights; without adapters a copy
    of the model as it is now, as TRL made itself one (later releases load theirs: `rt.load_reference(model, mesh)`).
    Its log-probabilities are computed from each batch as it is fed. The metrics of the loss are logged beside it under
    TRL's names.

    Tunix's own DPOTrainer is not exact here: it takes the mean of every micro-batch, whatever fills it; it pads
    prompts on the left, which Gemma 2's window and TRL's positions don't allow for; without a ref_model it leaves the
    reference out; and it has the sigmoid loss alone.
    """

    def __init__(
        self,
        model: nnx.Module,
        optimizer: optax.GradientTransformation,
        training_config: TrainingConfig,
        *,
        loss: PreferenceLoss,
        ref_model: nnx.Module | None = None,
    ) -> None:
        if ref_model is model:
            raise ValueError("model and ref_model are one object: leave ref_model out, and the trainer keeps a copy")
        if ref_model is None and loss.reference and not utils.is_lora_enabled(model):
            ref_model = nnx.clone(model)  # before a checkpoint is read into the model
        self.ref_model = ref_model if loss.reference else None
        # Without graph updates: the reference's weights are not given back, as copies, with each batch.
        self._reference = nnx.jit(lambda ref, batch: loss.logps(ref, Inputs.of(batch)), graph_updates=False)
        self.metric_names: tuple[str, ...] = ()
        # By mode and name what the micro-batches of each step have told, where a line isn't the mean of its steps.
        told: dict[str, dict[str, list[np.ndarray]]] = {"train": {}, "eval": {}}
        self.told = told if loss.tells_rows else None
        self.counted_rows = loss.counted_rows
        super().__init__(model, optimizer, training_config)
        self.with_gen_model_input_fn(lambda batch: {"inputs": Inputs.of(batch)}).with_loss_fn(loss, has_aux=True)

    def train(self, train_ds: Any, *evaluation: Any, **settings: Any) -> None:
        """As PeftTrainer's. ValueError for rows that are longer than the model's context."""
        check_rows(self.model, getattr(train_ds, "longest", 0))
        super().train(train_ds, *evaluation, **settings)

    def _prepare_inputs(self, input_data: Any) -> Any:
        if self.ref_model is None:
            return input_data
        batch = shard_input(input_data, self.config.data_sharding_axis)
        return {**batch, "reference_logps": self._reference(self.ref_model, batch)}

    def _post_process_train_step(self, aux: Any) -> None:
        self._buffer(self._buffered_train_metrics, aux, "train")
        super()._post_process_train_step(aux)

    def _post_process_eval_step(self, aux: Any) -> None:
        self._buffer(self._buffered_eval_metrics, aux, "eval")
        super()._post_process_eval_step(aux)

    def _buffer(self, buffer: Any, metrics: dict[str, jax.Array], mode: str) -> None:
        """Keep a micro-batch's metrics; a step's are their mean, without those that it has none of."""
        self.metric_names = tuple(metrics)
        for name, value in metrics.items():
            op = _mean if self.told is None else partial(_kept_mean, self.told[mode].setdefault(name, []))
            buffer.additional_metrics.setdefault(name, ([], op))[0].append(value)


def _kept_mean(steps: list[np.ndarray], values: Any) -> np.ndarray:
    steps.append(np.asarray(values, np.float32))
    return _mean(values)


def _mean(values: Any) -> np.ndarray:
    found = np.asarray(values, np.float32)
    return np.asarray(np.nanmean(found) if np.any(np.isfinite(found)) else np.nan)


def preference_loss(training_args: Any, **own: Any) -> PreferenceLoss:
    """The loss of a DPOConfig, ORPOConfig, CPOConfig or KTOConfig whose values are known only when the script runs.

    `own`: what the script gives its trainer instead, `beta=`.
    """
    name = type(training_args).__name__
    makers: Mapping[str, Callable[..., PreferenceLoss]] = {
        "DPOConfig": dpo_loss, "ORPOConfig": orpo_loss, "CPOConfig": cpo_loss, "KTOConfig": kto_loss,
    }  # fmt: skip
    if name not in makers:
        raise ValueError(f"{name} has no settings of a preference loss; expected one of {', '.join(makers)}")
    names = [name for name in inspect.signature(makers[name]).parameters if hasattr(training_args, name)]
    settings = {name: getattr(training_args, name) for name in names} | told(**own)
    return makers[type(training_args).__name__](**settings)
