"""The losses of GRPO and RLOO and their gradients, against the real TRL on the same numbers; mistakes are seen."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from porter.runtime.facts.releases.lines import lines_of
from porter.runtime.losses.for_metrics import but_for_metrics, for_metrics
from porter.runtime.losses.policy_loss import Shares
from porter.runtime.rollouts.logged import shares_of

from .grpo import LONGEST, completions_of, rollouts_of, scored

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("restored")]

# name -> the settings of PolicyLoss that differ from TRL's defaults
LOSSES: dict[str, dict[str, Any]] = {
    "dapo": {},
    "grpo": {"loss_type": "grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.2},
    "sapo": {"loss_type": "sapo"},
    "vespo": {"loss_type": "vespo"},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.01, "epsilon_high": 0.02},
    "delta": {"delta": 1.1, "epsilon_high": 0.28},
    "no kl": {"beta": 0.0},
    "plain kl": {"use_bias_correction_kl": False},
    "off policy": {"off_policy_mask_threshold": 0.02},
}
ARGS = ("delta", "use_bias_correction_kl", "sapo_temperature_pos", "sapo_temperature_neg")
ARGS += ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg")


@pytest.fixture(scope="module")
def numbers(trainers: Any, ours: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """One batch for both sides: completions (one masked), advantages, and log-probabilities off the present ones."""
    import torch

    trainer = trainers["grpo"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "mask_truncated_completions", True)
        patch.setattr(ours, "_mask_truncated", True)
        completions = completions_of(4, trainer._tokenizer.eos_token_id)
        inputs = scored(trainer, completions)
        rollouts = rollouts_of(ours, completions)
        torch.manual_seed(0)
        reference = inputs["ref_per_token_logps"]
        inputs["old_per_token_logps"] = reference + 0.3 * torch.randn_like(reference)
        inputs["ref_per_token_logps"] = reference + 0.3 * torch.randn_like(reference)
        for place, rollout in enumerate(rollouts):
            wide = np.zeros((2, LONGEST), np.float32)
            wide[0, : reference.shape[1]] = inputs["old_per_token_logps"][place].numpy()
            wide[1, : reference.shape[1]] = inputs["ref_per_token_logps"][place].numpy()
            rollout.old_logps, rollout.reference_logps = wide
        yield inputs, rollouts


def torch_loss(trainer: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> tuple[float, np.ndarray]:
    """TRL's loss and its gradient with respect to the (tied) embedding; what it logs lies in the trainer's metrics."""
    trainer._metrics["train"].clear()
    values = {"loss_type": "dapo", "beta": 0.1, "epsilon": 0.2, "importance_sampling_level": "token", **settings}
    trainer.loss_type, trainer.beta = values["loss_type"], values["beta"]
    trainer.epsilon_low = values["epsilon"]
    trainer.epsilon_high = values.get("epsilon_high", values["epsilon"])
    trainer.importance_sampling_level = values["importance_sampling_level"]
    trainer.off_policy_mask_threshold = values.get("off_policy_mask_threshold")
    kept = {name: getattr(trainer.args, name) for name in ARGS}
    for name in ARGS:
        setattr(trainer.args, name, values.get(name, kept[name]))
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    for name, value in kept.items():
        setattr(trainer.args, name, value)
    return float(loss), trainer.model.get_input_embeddings().weight.grad.numpy().copy()


@cache
def pulled_back(temperature: float) -> Any:
    """Log-probabilities and entropy of a batch, the gradient of the former's product with `weights`: compiled once."""
    from flax import nnx

    from porter import runtime as rt
    from porter.runtime.losses.policy_loss import logps_and_entropy

    def product(model: Any, tokens: Any, weights: Any) -> Any:
        given = {**rt.model_inputs(tokens), "length": LONGEST, "temperature": temperature}
        logps, entropy = logps_and_entropy(model, **given)
        return (logps * weights).sum(), (logps, entropy)

    return nnx.jit(nnx.value_and_grad(product, has_aux=True))


def jax_loss(batches: Any, rollouts: list[Any], loss: Any) -> tuple[float, np.ndarray, dict[str, float]]:
    """The same from the runtime: a batch as it is fed, PolicyLoss on it. And what is logged of it."""
    import jax

    batches.loss = loss
    type(batches)._needs_old, kept = property(lambda self: True), type(batches)._needs_old
    try:
        shares = shares_of([rollouts], 1, 1, of_all=True)
        (batch,) = batches._micro(rollouts, batches._scale([rollouts]), shares)
    finally:
        type(batches)._needs_old = kept
    beside, batch = for_metrics(batch), but_for_metrics(batch)
    tokens = {name: batch.pop(name) for name in ("input_tokens", "positions", "segment_ids")}
    step = pulled_back(loss.temperature)
    with batches._mesh, jax.default_matmul_precision("highest"):
        (_, (logps, entropy)), _ = step(batches._model, tokens, np.zeros((16, LONGEST), np.float32))
        value, weights = jax.jit(jax.value_and_grad(loss.of_logps))(np.asarray(logps), **batch)
        _, gradient = step(batches._model, tokens, np.asarray(weights))
        told = {}
        if beside:
            given = (np.asarray(logps), batch["completion_mask"], batch["advantages"], Shares(**beside))
            told = loss.told(*given, batch["old_logps"], batch.get("reference_logps"))
            told["entropy"] = given[-1].mean(entropy, batch["completion_mask"])
            told = {name: float(np.max(value)) for name, value in told.items()}
    return float(value), np.asarray(gradient["embedder"]["input_embedding"].get_value()), told


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_are_trls(trainers: Any, ours: Any, numbers: Any, name: str) -> None:
    from porter import runtime as rt

    inputs, rollouts = numbers
    loss = rt.PolicyLoss(**{"beta": 0.1, "temperature": 0.8, **LOSSES[name]})
    loss = replace(loss, logs=lines_of("grpo", "").clips(loss.loss_type))
    theirs, their_gradient = torch_loss(trainers["grpo"], inputs, LOSSES[name])
    value, gradient, told = jax_loss(ours, rollouts, loss)
    assert value == pytest.approx(theirs, rel=2e-5, abs=1e-7)
    assert distance(gradient, their_gradient) < 5e-5
    logged = trainers["grpo"]._metrics["train"]
    names = {name for name in logged if name in ("kl", "entropy") or "clip_ratio" in name}
    assert set(told) == names and {name: told[name] for name in names} == pytest.approx(
        {name: logged[name][-1] for name in names}, rel=1e-5, abs=1e-7
    )


@pytest.mark.parametrize(("kind", "parts"), [("bnpo", -1), ("bnpo", 3), ("dapo", -1), ("grpo", -1)])
def test_loss_in_parts_is_unsloths(
    trainers: Any, ours: Any, numbers: Any, monkeypatch: pytest.MonkeyPatch, kind: str, parts: int
) -> None:
    """Of each row, or of four parts, the next number that divides 16; undivided by accumulation before 2025.10.12."""
    from porter import runtime as rt
    from porter.validate.torch_side.gpu_libraries.unsloth_parts.grpo import with_own_loss

    trainer, (inputs, rollouts) = copy(trainers["grpo"]), numbers
    trainer._compute_loss = with_own_loss(type(trainer), "2025.8.6", print)._compute_loss.__get__(trainer)
    monkeypatch.setattr(trainer.args, "unsloth_num_chunks", parts, raising=False)
    monkeypatch.setattr(trainer.args, "gradient_accumulation_steps", 2)
    theirs, their_gradient = torch_loss(trainer, inputs, {"loss_type": kind})
    loss = rt.PolicyLoss(kind, beta=0.1, temperature=0.8)
    whole, *_ = jax_loss(ours, rollouts, loss)
    monkeypatch.setattr(ours, "_loss_parts", parts)
    value, gradient, _ = jax_loss(ours, rollouts, loss)
    assert value == pytest.approx(theirs, rel=2e-5, abs=1e-7) and distance(gradient * 2, their_gradient) < 5e-5
    assert (abs(whole - value) > 1e-3) is (kind != "grpo")


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def test_rloo_loss_and_gradient_are_trls(trainers: Any, ours: Any, numbers: Any) -> None:
    from porter import runtime as rt

    trainer, (inputs, rollouts) = trainers["rloo"], numbers
    trainer.epsilon_low, trainer.epsilon_high = 0.2, 0.3
    old = (inputs["old_per_token_logps"] * inputs["completion_mask"]).sum(1)
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, {**inputs, "old_logps": old})
    loss.backward()
    theirs = trainer.model.get_input_embeddings().weight.grad.numpy()
    value, gradient, _ = jax_loss(ours, rollouts, rt.PolicyLoss("rloo", beta=0.1, epsilon_high=0.3, temperature=0.8))
    assert value == pytest.approx(float(loss), rel=2e-5)
    assert distance(gradient, theirs) < 5e-5


@pytest.fixture
def k1(monkeypatch: pytest.MonkeyPatch) -> None:
    import porter.runtime.losses.policy_loss as module

    monkeypatch.setattr(module, "k3", lambda logps, reference: logps - reference)


def _prompts_too(rollouts: list[Any]) -> list[Any]:
    """Rows whose prompt ends in the completion: its last tokens are trained as well."""
    moved = []
    for rollout in rollouts:
        whole = [*rollout.prompt[-2:], *rollout.completion][:LONGEST]
        moved.append(replace(rollout, prompt=rollout.prompt[:-2], completion=whole, trained=len(whole)))
    return moved


MISTAKES = ("k1 for k3", "reference dropped", "beta doubled", "prompt tokens in the loss", "temperature left out")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_seeded_mistake_is_seen(
    trainers: Any, ours: Any, numbers: Any, mistake: str, request: pytest.FixtureRequest
) -> None:
    from porter import runtime as rt

    inputs, rollouts = numbers
    theirs, their_gradient = torch_loss(trainers["grpo"], inputs, {})
    settings = {"beta": 0.1, "temperature": 0.8}
    if mistake == "k1 for k3":
        request.getfixturevalue("k1")
    elif mistake == "reference dropped":
        settings["beta"] = 0.0
    elif mistake == "beta doubled":
        settings["beta"] = 0.2
    elif mistake == "temperature left out":
        settings["temperature"] = 1.0
    else:
        rollouts = _prompts_too(rollouts)
    value, gradient, _ = jax_loss(ours, rollouts, rt.PolicyLoss(**settings))  # type: ignore[arg-type]
    assert abs(value - theirs) > 1e-3 * abs(theirs)
    assert distance(gradient, their_gradient) > 1e-2
