"""The loss, its gradient and the evaluation loss of the port against those of TRL, on the same weights and rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.real.sft import from_args, rows, sft

pytestmark = pytest.mark.real

# Measured: losses within 2.3e-7 of TRL's and gradient norms within 6.7e-7; a mean of micro-batch means is off by 1e-2.
LOSS, NORM = 1e-6, 3e-6


def logged(trainer: Any, key: str) -> list[float]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("mesh", [(1, 1), (4, 2)])
def test_loss_and_gradient_are_trl_s(
    tiny: Any, tiny_mesh: Any, tmp_path: Path, packing: bool, mesh: tuple[int, int]
) -> None:
    import jax
    from flax import nnx

    from porter.runtime.losses.for_metrics import for_metrics
    from porter.runtime.losses.token_loss import model_inputs, token_loss
    from porter.runtime.models.load_model import load_model

    data = rows("messages", 11)
    settings = {"assistant_only_loss": True, "packing": packing, "logging_strategy": "steps", "max_length": 64}
    trainer = sft(tiny, tmp_path, data, num_train_epochs=1, max_grad_norm=1e9, **settings)
    trainer.train()

    jax_mesh = tiny_mesh(*mesh)
    batches = from_args(trainer, data, jax_mesh)
    model = load_model(trainer.model.name_or_path, jax_mesh, dtype=jax.numpy.float32)

    def told(model: Any, batch: Any) -> Any:
        return token_loss.with_metrics(for_metrics(batch))(model, **model_inputs(batch))

    step = nnx.jit(nnx.value_and_grad(told, has_aux=True))
    losses, norms, means_of_means, beside = [], [], [], []
    made = list(batches)
    groups = batches.accumulation or 1
    with jax_mesh:
        for start in range(0, len(made), groups):
            # To the host: sums over sharded gradients, one by one, would be a queue of collectives.
            results = [jax.device_get(step(model, batch)) for batch in made[start : start + groups]]
            results = [(loss, gradient, aux) for (loss, aux), gradient in results]
            losses.append(float(np.mean([loss for loss, *_ in results])))
            beside.append({name: float(np.mean([aux[name] for *_, aux in results])) for name in results[0][-1]})
            group = [batch for batch in made[start : start + groups] if batch["scale"].any()]
            means = [
                loss / batch["scale"].max() / (batch["labels"][:, 1:] != -100).sum()
                for batch, (loss, *_) in zip(group, results, strict=False)
            ]
            means_of_means.append(float(np.mean(means)))
            mean = jax.tree.map(lambda *gradients: sum(gradients) / groups, *(gradient for _, gradient, _ in results))
            norms.append(float(np.sqrt(sum(np.square(leaf, dtype=np.float64).sum() for leaf in jax.tree.leaves(mean)))))

    assert len(losses) == trainer.state.max_steps
    assert np.allclose(losses, logged(trainer, "loss"), rtol=LOSS, atol=0)
    assert packing or not np.allclose(means_of_means, logged(trainer, "loss"), rtol=1e-3, atol=0)
    assert np.allclose(norms, logged(trainer, "grad_norm"), rtol=NORM, atol=0)
    counted = [batches.counts(0, step)["num_tokens"] for step in range(1, len(losses) + 1)]
    assert counted == logged(trainer, "num_tokens")
    for name in ("entropy", "mean_token_accuracy"):
        assert [line[name] for line in beside] == pytest.approx(logged(trainer, name), rel=1e-4), name


@pytest.mark.parametrize(
    ("packing", "of_evaluation", "family", "sampling"),
    [
        *(
            (packing, None, family, "random") for packing in (False, True) for family in ("mistral", "gemma3")
        ),  # two windows
        (False, None, "mistral", "group_by_length"),
        *((packing, not packing, "mistral", "random") for packing in (False, True)),
    ],
)
def test_mean_of_evaluation_losses_is_eval_loss(
    tiny: Any, tiny_mesh: Any, tmp_path: Path, packing: bool, of_evaluation: bool | None, family: str, sampling: str
) -> None:
    """One collator serves both sets: documents of a packed evaluation see each other where training isn't packed."""
    from datasets import Dataset
    from flax import nnx

    from porter.runtime.losses.token_loss import model_inputs, token_loss
    from porter.runtime.models.load_model import load_model

    data, held_out = rows("prompt_completion", 4), rows("prompt_completion", 11, seed=1)
    trainer = sft(
        tiny,
        tmp_path,
        data,
        model=family,
        layers=6 if family == "gemma3" else 1,  # the sixth is global
        eval_dataset=Dataset.from_list(held_out),
        per_device_eval_batch_size=4,
        packing=packing,
        eval_packing=of_evaluation,
        max_length=64,
        train_sampling_strategy=sampling,
    )
    next(iter(trainer.get_train_dataloader()))  # draws the first epoch's order, as training does before it evaluates
    theirs = trainer.evaluate()["eval_loss"]

    mesh = tiny_mesh(4, 1)
    batches = from_args(trainer, data, mesh).evaluation(Dataset.from_list(held_out), batch_size=4)
    model = load_model(trainer.model.name_or_path, mesh, dtype="float32")
    loss = nnx.jit(lambda model, batch: token_loss(model, **model_inputs(batch)))
    with mesh:
        losses = [float(loss(model, batch)) for batch in batches]

    assert len(losses) == len(batches) > 0
    assert np.mean(losses) == pytest.approx(theirs, rel=LOSS)
