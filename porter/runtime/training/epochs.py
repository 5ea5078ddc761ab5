"""A training loop that keeps its epochs: what it does between two of them stays its own.

val_loader = rt.EvaluationLosses(trainer, batches.evaluation(val_dataset, batch_size=8))
for epoch in range(3):
    with mesh:
        losses = rt.train_epoch(trainer, batches)
    for loss in val_loader:
        ...
trainer.close()
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tunix.sft.peft_trainer import PeftTrainer
from tunix.sft.sharding_utils import shard_input

from ..batches.trainer_batches import TrainerBatches
from ..batches.trainer_evaluation import TrainerEvaluation
from ..hosts.global_arrays import placed
from .training_settings import mesh_of


def train_epoch(trainer: PeftTrainer, batches: TrainerBatches) -> np.ndarray:
    """Train the steps of the next epoch; the loss of each, (steps,) float64.

    A step's loss is the mean of those of the GPU run's micro-batches. The trainer stays open, and `max_steps` is what
    its progress bar shows: how many epochs there are is the loop's to say, and `trainer.close()` stands behind it.
    """
    trainer.is_managed_externally = True
    before = trainer.train_steps
    trainer.train(batches.epoch(before // batches.steps_per_epoch))
    trainer._write_train_metrics()  # Tunix reports a step when the next one is made
    made = trainer.train_steps - before
    history = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, "loss", "train")
    return np.asarray(history[len(history) - made :], np.float64)


class EvaluationLosses:
    """The loss of every batch of an evaluation set, computed as it is asked for: with each pass, and by the weights of
    that moment. `len()` counts the batches of the GPU run.

    A loss is the mean over the batch's trained tokens, as `model(**batch).loss` is without dropout.
    """

    def __init__(self, trainer: PeftTrainer, batches: TrainerEvaluation) -> None:
        self._trainer, self._batches = trainer, batches

    def __len__(self) -> int:
        return self._batches.gpu_batches

    def __iter__(self) -> Iterator[float]:
        trainer, mesh = self._trainer, mesh_of(self._trainer.model)
        for batch in placed(self._batches.singly(), mesh):
            with mesh:
                _, step = trainer.jit_train_and_eval_step(cache_nnx_graph=True)  # what training and Tunix evaluate by
                inputs = shard_input(trainer._prepare_inputs(batch), trainer.config.data_sharding_axis)
                loss, _ = step(inputs)
            yield float(loss)
