"""compute_metrics: what MetricsTrainer gathers and reports, beside the real Trainer and SFTTrainer on one model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from tunix.sft.peft_trainer import TrainingConfig

from porter.runtime.batches.predictions import EvalPrediction
from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.batches.trainer_batches import TrainerBatches
from porter.runtime.losses.token_loss import model_inputs, token_loss
from porter.runtime.models.load_model import load_model
from porter.runtime.training.hooks import log_every
from porter.runtime.training.metrics_trainer import MetricsTrainer
from porter.runtime.training.training_settings import evaluate

from . import sft

pytestmark = pytest.mark.real

PREDICTIONS = 1e-4  # largest difference of float32 logits between torch and XLA, as in tests/real/test_models.py


class Seen:
    """A compute_metrics that keeps what it is called with."""

    def __init__(self) -> None:
        self.predictions: Any = None
        self.labels: Any = None
        self.inputs: Any = None

    def __call__(self, prediction: Any) -> dict[str, Any]:
        self.predictions, self.labels, self.inputs = prediction.predictions, prediction.label_ids, prediction.inputs
        best = self.predictions if self.predictions.ndim == 2 else self.predictions.argmax(-1)
        return {"accuracy": np.float32((best[:, :-1] == self.labels[:, 1:]).mean()), "eval_rows": len(self.labels)}


def rows(count: int) -> list[dict[str, Any]]:
    dice = np.random.default_rng(3)
    made = []
    for length in dice.integers(3, 12, count):
        ids = dice.integers(8, 400, length).tolist()
        made.append({"input_ids": ids, "labels": [-100, *ids[1:]]})
    return made


def padded(features: list[dict[str, Any]]) -> dict[str, Any]:
    """A collator that pads on the left where the first row is of odd length, else on the right."""
    width = max(len(row["input_ids"]) for row in features)
    left = len(features[0]["input_ids"]) % 2

    def fill(values: list[int], value: int) -> list[int]:
        missing = [value] * (width - len(values))
        return missing + list(values) if left else list(values) + missing

    batch = {
        "input_ids": [fill(row["input_ids"], 0) for row in features],
        "labels": [fill(row["labels"], -100) for row in features],
        "attention_mask": [fill([1] * len(row["input_ids"]), 0) for row in features],
    }
    return {name: np.array(value) for name, value in batch.items()}


def tunix(model: Path, mesh: Any, batches: Any, seen: Any, preprocess: Any, **settings: Any) -> MetricsTrainer:
    config = TrainingConfig(max_steps=batches.steps, eval_every_n_steps=1, gradient_accumulation_steps=None)
    trainer = MetricsTrainer(
        load_model(model, mesh), optax.sgd(0.0), config,
        compute_metrics=seen, preprocess_logits_for_metrics=preprocess, **settings,
    ).with_gen_model_input_fn(model_inputs).with_loss_fn(token_loss)  # fmt: skip
    trainer.with_training_hooks(log_every(None, metric_for_best_model="accuracy"))
    return trainer


@pytest.mark.parametrize("preprocessed", [True, False])
def test_trainers_predictions(
    preprocessed: bool, tiny: Callable[..., Path], tiny_mesh: Callable[..., Any], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    folder = tiny("qwen3")
    theirs, ours = Seen(), Seen()
    args = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=3, use_cpu=True, report_to="none", disable_tqdm=True,
        include_for_metrics=["inputs"],
    )  # fmt: skip
    # Padding on the left sees nothing: SDPA gives it no value, as Tunix here; torch's eager attention a mean of all.
    torch_model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="sdpa")
    trainer = Trainer(
        torch_model, args, eval_dataset=rows(7), compute_metrics=theirs,
        data_collator=lambda features: {name: torch.tensor(value) for name, value in padded(features).items()},
        preprocess_logits_for_metrics=(lambda logits, labels: logits.argmax(dim=-1)) if preprocessed else None,
    )  # fmt: skip
    expected = trainer.evaluate(metric_key_prefix="test")

    mesh = tiny_mesh(4, 2)
    batches = TrainerBatches(rows(7), padded, mesh, max_steps=1, batch_size=3)
    preprocess = (lambda logits, labels: logits.argmax(axis=-1)) if preprocessed else None
    own = tunix(folder, mesh, batches, ours, preprocess, include_for_metrics=["inputs"])
    found = evaluate(own, batches.evaluation(rows(7), batch_size=3), metric_key_prefix="test")

    assert found["test_loss"] == pytest.approx(expected["test_loss"], rel=2e-6)
    assert set(found) == set(expected) - {"test_model_preparation_time"}
    both = [each["test_samples_per_second"] / each["test_steps_per_second"] for each in (found, expected)]
    assert both == [pytest.approx(7 / 3, rel=0.02)] * 2
    assert (found["test_accuracy"], found["test_eval_rows"]) == (expected["test_accuracy"], expected["test_eval_rows"])
    same(ours, theirs)
    np.testing.assert_array_equal(ours.inputs, theirs.inputs)


def test_sft_trainers_predictions_while_it_trains(
    tiny: Callable[..., Path], tiny_mesh: Callable[..., Any], tmp_path: Path
) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer

    data, held_out = sft.rows("prompt_completion", 6), sft.rows("prompt_completion", 5, seed=1)
    theirs, ours = Seen(), Seen()
    trainer = sft.sft(tiny, tmp_path, data, eval_dataset=Dataset.from_list(held_out), per_device_eval_batch_size=2)
    trainer.compute_metrics = theirs
    trainer.preprocess_logits_for_metrics = lambda logits, labels: logits.argmax(dim=-1)
    expected = trainer.evaluate()

    mesh = tiny_mesh(1, 1)
    folder = trainer.model.name_or_path
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batches = SFTBatches(data, tokenizer, mesh, max_steps=1, batch_size=2, max_length=48)

    def with_values(logits: Any, labels: Any) -> Any:
        assert float(logits[0, 0, 0]) < 1e9, "a traced array has no value"
        return np.asarray(logits).argmax(-1)

    own = tunix(folder, mesh, batches, ours, with_values)
    with mesh:
        own.train(batches, batches.evaluation(held_out, batch_size=2))

    line = own.training_hooks.history[-2]
    assert own.training_hooks.state.best_metric == line["eval_accuracy"] == expected["eval_accuracy"]
    assert line["eval_loss"] == pytest.approx(expected["eval_loss"], rel=2e-6)
    assert own.metrics_logger.get_metric_history("", "accuracy", "eval")[-1] == pytest.approx(line["eval_accuracy"])
    same(ours, theirs)

    packed = SFTBatches(data, tokenizer, mesh, max_steps=1, batch_size=2, max_length=48, packing=True)
    for packing in (True, False):  # of the evaluation, which the same collator runs together
        with pytest.raises(ValueError, match=r"packing or padding-free.*Set packing=False"):
            evaluate(own, packed.evaluation(held_out, batch_size=2, packing=packing))


def same(ours: Seen, theirs: Seen) -> None:
    """The same rows in the same places, padding included."""
    assert (ours.predictions.shape, ours.predictions.dtype) == (theirs.predictions.shape, theirs.predictions.dtype)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    if ours.predictions.ndim == 2:
        np.testing.assert_array_equal(ours.predictions, theirs.predictions)
    else:
        np.testing.assert_allclose(ours.predictions, theirs.predictions, atol=PREDICTIONS)


def test_a_prediction_unpacks() -> None:
    labels, predictions = np.zeros((2, 3)), np.ones((2, 3))
    prediction = EvalPrediction(predictions, labels)
    first, second = prediction
    assert first is predictions and second is labels and prediction[1] is labels
    assert len(list(EvalPrediction(predictions, labels, inputs=labels))) == 3
    with pytest.raises(IndexError):
        prediction[2]
