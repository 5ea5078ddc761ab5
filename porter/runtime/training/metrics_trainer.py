"""PeftTrainer whose evaluation computes metrics of the predictions: `compute_metrics` of transformers' Trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optax
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from ..batches.evaluation_sets import EvaluationSets
from ..batches.predictions import ComputeMetrics, Gathered, Preprocess, Preprocessing
from ..facts.releases import BLIND
from ..losses.token_loss import forward


class MetricsTrainer(PeftTrainer):
    """Tunix's PeftTrainer with transformers' metrics: the evaluation that is logged has them beside its loss.

    `preprocess_logits_for_metrics(logits, labels)` gets JAX arrays (n, L, vocabulary) and (n, L) of each batch that a
    GPU process had, and runs on the device, jitted where it can be; what it returns is gathered as the Trainer gathers
    it, batches padded to one width with -100. `compute_metrics(EvalPrediction)` gets NumPy arrays. Without the first
    all logits come to the host, as on the GPUs. `include_for_metrics`: "inputs", the token ids, or nothing.
    `prediction_loss_only` leaves the metrics out.

    The evaluation batches are those of `SFTBatches.evaluation` or `TrainerBatches.evaluation`. Their rows are not
    packed. With `compute_metrics` None this is a PeftTrainer.

    Of evaluation sets by their names (`EvaluationSets`) it evaluates each, as `eval_NAME_loss`.
    """

    def __init__(
        self,
        model: nnx.Module,
        optimizer: optax.GradientTransformation,
        training_config: TrainingConfig,
        *,
        compute_metrics: ComputeMetrics | None = None,
        preprocess_logits_for_metrics: Preprocess | None = None,
        include_for_metrics: Sequence[str] = (),
        prediction_loss_only: bool = False,
    ) -> None:
        unknown = sorted(set(include_for_metrics) - {"inputs"})
        if unknown:
            raise ValueError(f"include_for_metrics: the port has 'inputs', not {unknown[0]!r}")
        self._compute_metrics = None if prediction_loss_only else compute_metrics
        self._inputs = "inputs" in include_for_metrics
        self._preprocess = Preprocessing(preprocess_logits_for_metrics)
        self._gathered: Gathered | None = None
        self.evaluated: dict[str, Any] = {}  # the metrics of the last evaluation, as the Trainer names them
        self.evaluating = "eval"  # what their names begin with
        super().__init__(model, optimizer, training_config)

    def gather(self, eval_batches: Any) -> Gathered | None:
        """What is to gather the predictions of an evaluation; None where no metric is computed.

        ValueError for batches that don't know the rows of the GPU run.
        """
        if self._compute_metrics is None:
            return None
        if not hasattr(eval_batches, "whole"):
            raise ValueError("compute_metrics needs batches of SFTBatches.evaluation or TrainerBatches.evaluation")
        return Gathered(eval_batches.whole, self._preprocess, self._compute_metrics, inputs=self._inputs)

    def _eval_step(self, model: nnx.Module, inputs: Any) -> Any:
        loss, aux = super()._eval_step(model, inputs)
        if self._compute_metrics is None:
            return loss, aux
        given = self.gen_model_input_fn(inputs)  # XLA finds that both passes are the same one
        names = ("input_tokens", "positions", "attention_mask", "segment_ids")
        seen = {name: given[name] for name in BLIND.values() if name in given}
        return loss, forward(model, *(given[name] for name in names), **seen)

    def _run_eval(self, eval_ds: Any, eval_step_fn: Callable[..., Any]) -> None:
        if isinstance(eval_ds, EvaluationSets):
            for name, batches in eval_ds.items():
                self.evaluating, self.metrics_prefix = f"eval_{name}", name
                self._run_eval(batches, eval_step_fn)
            self.evaluating, self.metrics_prefix = "eval", self.config.metrics_prefix
            return
        self._gathered = self.gather(eval_ds)
        super()._run_eval(eval_ds if self._gathered is None else self._gathered.batches, eval_step_fn)
        self._gathered = None

    def _post_process_eval_step(self, aux: Any) -> None:
        if self._gathered is not None:
            self._gathered.add(aux)
        else:
            super()._post_process_eval_step(aux)

    def _write_metrics(self, metrics_buffer: Any) -> None:
        if self._gathered is not None:
            self.evaluated = self._gathered.metrics(self.evaluating)
            for name, value in self.evaluated.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    metrics_buffer.additional_metrics[name.removeprefix(f"{self.evaluating}_")] = ([value], np.mean)
        super()._write_metrics(metrics_buffer)
