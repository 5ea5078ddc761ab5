"""GRPO and RLOO in parts, each against the real TRL on the same numbers: rewards, advantages, loss and gradient."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.runtime.rollouts.rewards import Rewards, TrainerState, group_advantages, leave_one_out_advantages

pytestmark = pytest.mark.real

GENERATIONS, LONGEST = 4, 8
QUESTIONS = ["the capital of France is", "two and two are", "the sea is", "count to three"]


def likes_t(completions: list[Any], **kwargs: Any) -> list[float]:
    return [text.count("t") / 10 for text in completions]


def short(completion_ids: list[list[int]], answer: list[str], **kwargs: Any) -> list[float | None]:
    return [None if said == "skip" else -len(ids) / 8 for ids, said in zip(completion_ids, answer, strict=True)]


async def later(prompts: list[Any], completions: list[Any], **kwargs: Any) -> list[float]:
    await asyncio.sleep(0)
    return [len(prompt) / 50 + len(text) / 100 for prompt, text in zip(prompts, completions, strict=True)]


REWARDS = [likes_t, short, later]
WEIGHTS = [1.0, 0.5, 2.0]


@pytest.fixture(scope="module")
def trainers(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A real GRPOTrainer and a real RLOOTrainer on a tiny model, by name."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    folder = tiny("qwen3")
    rows = [{"prompt": text, "answer": "skip" if n % 2 else "say"} for n, text in enumerate(QUESTIONS)]
    common: dict[str, Any] = {
        "output_dir": str(tmp_path_factory.mktemp("grpo")),
        "per_device_train_batch_size": 16,
        "num_generations": GENERATIONS,
        "max_completion_length": LONGEST,
        "reward_weights": WEIGHTS,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
        "beta": 0.1,
        "temperature": 0.8,
    }
    made = {}
    for name, kind, config in (("grpo", GRPOTrainer, GRPOConfig), ("rloo", RLOOTrainer, RLOOConfig)):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
        made[name] = kind(
            model, REWARDS, config(**common), Dataset.from_list(rows), None, AutoTokenizer.from_pretrained(folder)
        )
        made[name].current_gradient_accumulation_steps = 1
    return made


@pytest.fixture(scope="module")
def ours(tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]) -> Any:
    """The same model, prompts and settings in the runtime."""
    import jax.numpy as jnp
    from transformers import AutoTokenizer

    from porter import runtime as rt

    mesh = tiny_mesh(2, 2)
    folder = tiny("qwen3")
    model = rt.load_model(str(folder), mesh, dtype=jnp.float32)
    rows = [{"prompt": text, "answer": "skip" if n % 2 else "say"} for n, text in enumerate(QUESTIONS)]
    return rt.GRPOBatches(
        rows,
        AutoTokenizer.from_pretrained(folder),
        mesh,
        model,
        reward_funcs=REWARDS,
        reward_weights=WEIGHTS,
        loss=rt.PolicyLoss(beta=0.1),
        max_steps=1,
        batch_size=16,
        num_generations=GENERATIONS,
        max_completion_length=LONGEST,
        temperature=0.8,
        shuffle_dataset=False,
    )


def completions_of(seed: int, end: int) -> list[list[int]]:
    """A completion for each row: random tokens, most with an end token, some cut off."""
    rng = np.random.RandomState(seed)
    found = []
    for row in range(len(QUESTIONS) * GENERATIONS):
        length = rng.randint(2, LONGEST) if row % 5 else LONGEST
        ids = rng.randint(10, 400, length).tolist()
        found.append(ids if row % 5 == 0 else [*ids[:-1], end])
    return found


def scored(trainer: Any, completions: list[list[int]]) -> dict[str, Any]:
    """What TRL makes of given completions: tensors of the batch, advantages and log-probabilities."""
    inputs = [dict(trainer.train_dataset[row // GENERATIONS]) for row in range(len(completions))]
    given = (completions, None) if "rollout_func" in vars(trainer) else completions
    trainer._generate_single_turn = lambda *args, **kwargs: given
    trainer.model.train()
    return trainer._generate_and_score_completions(inputs)


def rollouts_of(batches: Any, completions: list[list[int]]) -> Any:
    """Ours of the same completions, in order: the generation batch in one part."""
    batches._sampler = lambda prompts, key: completions
    batches._dealt = lambda rollouts, number: [rollouts]
    parts, _ = batches._generate(list(range(len(QUESTIONS))), 0)
    return parts[0]


def test_a_step_goes_through_the_mesh_in_smaller_micro_batches(ours: Any) -> None:
    """The same rows, and of each the same share of the mean that the trainer takes over its micro-batches."""
    rollouts = rollouts_of(ours, completions_of(3, ours._tokenizer.eos_token_id))

    def counted() -> list[tuple[list[int], float]]:
        made = list(ours._micro(rollouts, ours._scale([rollouts])))
        assert len(made) == ours._micro_batches
        rows = [(batch, row) for batch in made for row in range(ours.batch_size) if batch["completion_mask"][row].any()]
        return [(batch["input_tokens"][row].tolist(), float(batch["scale"][row]) / len(made)) for batch, row in rows]

    whole = counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "batch_size", 4)
        patch.setattr(ours, "_micro_batches", 4)
        smaller = counted()
    assert [ids for ids, _ in smaller] == [ids for ids, _ in whole] and len(whole) == 16
    assert [share for _, share in smaller] == pytest.approx([share for _, share in whole], rel=1e-6)


@pytest.mark.parametrize(("made", "share"), [(True, 1.0), (False, 0.25)])
def test_a_step_of_fewer_micro_steps(ours: Any, monkeypatch: pytest.MonkeyPatch, made: bool, share: float) -> None:
    """Transformers before 4.53 divides a step of one micro-step by all four that it might have had."""
    from porter import runtime as rt

    monkeypatch.setattr(ours, "loss", rt.PolicyLoss("grpo", beta=0.1))
    rollouts = rollouts_of(ours, completions_of(3, ours._tokenizer.eos_token_id))
    whole = ours._scale([rollouts])
    monkeypatch.setattr(ours, "_source", (16, 4))
    monkeypatch.setattr(ours, "_divides_by_made", made)
    assert ours._scale([rollouts]) == pytest.approx(whole * share)


def test_rewards_and_advantages_are_trls(trainers: Any, ours: Any) -> None:
    trainer = trainers["grpo"]
    completions = completions_of(0, trainer._tokenizer.eos_token_id)
    theirs = scored(trainer, completions)["advantages"].numpy()
    got = np.array([rollout.advantage for rollout in rollouts_of(ours, completions)])
    assert np.abs(theirs).max() > 0.5 and np.allclose(got, theirs, rtol=0, atol=2e-6)


SCALES = [
    ("group", "sum_then_normalize"),
    ("batch", "sum_then_normalize"),
    ("none", "sum_then_normalize"),
    ("group", "normalize_then_sum"),
]


@pytest.mark.parametrize(("scale", "aggregation"), SCALES)
def test_every_way_to_scale_rewards(trainers: Any, scale: str, aggregation: str) -> None:
    trainer = trainers["grpo"]
    rng = np.random.RandomState(1)
    rewards = rng.rand(16, 3).astype(np.float32)
    rewards[rng.rand(16, 3) < 0.3] = np.nan
    rewards[5] = np.nan  # judged by none
    rewards[8:12] = 0.25  # no difference within a prompt
    theirs = with_rewards(trainer, rewards, scale_rewards=scale, multi_objective_aggregation=aggregation)
    got = group_advantages(rewards, np.array(WEIGHTS), GENERATIONS, scale=scale, aggregation=aggregation)
    assert np.allclose(got, theirs, rtol=1e-5, atol=1e-6)
    wrong = group_advantages(rewards, np.array(WEIGHTS), GENERATIONS, scale="none" if scale != "none" else "group")
    assert not np.allclose(wrong, theirs, rtol=1e-2, atol=1e-3)  # the wrong scale is seen


def with_rewards(trainer: Any, rewards: np.ndarray, **settings: Any) -> np.ndarray:
    """TRL's advantages of given rewards (rows, functions)."""
    import torch

    kept = {name: getattr(trainer, name) for name in settings}
    calculate = trainer._calculate_rewards
    for name, value in settings.items():
        setattr(trainer, name, value)
    trainer._calculate_rewards = lambda *args: torch.tensor(rewards)
    try:
        return scored(trainer, completions_of(2, trainer._tokenizer.eos_token_id))["advantages"].numpy()
    finally:
        trainer._calculate_rewards = calculate
        for name, value in kept.items():
            setattr(trainer, name, value)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("clip_range", [None, (0.2, 0.6)])
def test_rloo_advantages_are_trls(trainers: Any, normalize: bool, clip_range: Any) -> None:
    rng = np.random.RandomState(3)
    rewards = rng.rand(16, 3).astype(np.float32)
    rewards[4] = np.nan
    beta = trainers["rloo"].beta
    settings = {"normalize_advantages": normalize, "reward_clip_range": clip_range, "beta": 0.0}
    theirs = with_rewards(trainers["rloo"], rewards, **settings)
    got = leave_one_out_advantages(rewards, np.array(WEIGHTS), GENERATIONS, clip_range=clip_range, normalize=normalize)
    assert trainers["rloo"].beta == beta and np.allclose(got, theirs, rtol=1e-5, atol=1e-6)


def test_reward_functions_get_what_trl_gives_them(trainers: Any) -> None:
    seen: list[dict[str, Any]] = []

    def spy(**given: Any) -> list[float]:
        seen.append(given)
        return [0.0] * len(given["prompts"])

    trainer = trainers["grpo"]
    prompts = [[{"role": "user", "content": text}] for text in QUESTIONS[:2]]
    completions = [[{"role": "assistant", "content": "yes"}]] * 2
    inputs = [{"prompt": prompt, "answer": "a", "level": 3} for prompt in prompts]
    kept = trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes
    trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes = [spy], ["spy"], [None]
    trainer._calculate_rewards(inputs, prompts, completions, [[5], [6]])
    trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes = kept
    columns = {"answer": ["a", "a"], "level": [3, 3]}
    Rewards([spy], None, ["answer", "level"])(prompts, completions, [[5], [6]], columns, TrainerState())
    theirs, got = seen
    assert set(got) == set(theirs)
    plain = set(got) - {"trainer_state", "log_extra", "log_metric"}
    assert {name: got[name] for name in plain} == {name: theirs[name] for name in plain}
    assert got["trainer_state"].global_step == theirs["trainer_state"].global_step == 0


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
def numbers(trainers: Any, ours: Any) -> tuple[dict[str, Any], list[Any]]:
    """One batch for both sides: completions (one masked), advantages, and log-probabilities off the present ones."""
    import torch

    trainer = trainers["grpo"]
    trainer.mask_truncated_completions = ours._mask_truncated = True
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
    return inputs, rollouts


def torch_loss(trainer: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> tuple[float, np.ndarray]:
    """TRL's loss and its gradient with respect to the (tied) embedding."""
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
    """Log-probabilities of a batch, and the gradient of their product with `weights`: compiled once."""
    from flax import nnx

    from porter import runtime as rt
    from porter.runtime.losses.policy_loss import completion_logps

    def product(model: Any, tokens: Any, weights: Any) -> Any:
        logps = completion_logps(model, **rt.model_inputs(tokens), length=LONGEST, temperature=temperature)
        return (logps * weights).sum(), logps

    return nnx.jit(nnx.value_and_grad(product, has_aux=True))


def jax_loss(batches: Any, rollouts: list[Any], loss: Any) -> tuple[float, np.ndarray]:
    """The same from the runtime: a batch as it is fed, PolicyLoss on it."""
    import jax

    batches.loss = loss
    type(batches)._needs_old, kept = property(lambda self: True), type(batches)._needs_old
    try:
        (batch,) = batches._micro(rollouts, batches._scale([rollouts]))
    finally:
        type(batches)._needs_old = kept
    tokens = {name: batch.pop(name) for name in ("input_tokens", "positions", "segment_ids")}
    step = pulled_back(loss.temperature)
    with batches._mesh, jax.default_matmul_precision("highest"):
        (_, logps), _ = step(batches._model, tokens, np.zeros((16, LONGEST), np.float32))
        value, weights = jax.value_and_grad(loss.of_logps)(np.asarray(logps), **batch)
        _, gradient = step(batches._model, tokens, np.asarray(weights))
    return float(value), np.asarray(gradient["embedder"]["input_embedding"].get_value())


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_are_trls(trainers: Any, ours: Any, numbers: Any, name: str) -> None:
    from porter import runtime as rt

    inputs, rollouts = numbers
    loss = rt.PolicyLoss(**{"beta": 0.1, "temperature": 0.8, **LOSSES[name]})
    theirs, their_gradient = torch_loss(trainers["grpo"], inputs, LOSSES[name])
    value, gradient = jax_loss(ours, rollouts, loss)
    assert value == pytest.approx(theirs, rel=2e-5, abs=1e-7)
    assert distance(gradient, their_gradient) < 5e-5


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
    value, gradient = jax_loss(ours, rollouts, rt.PolicyLoss("rloo", beta=0.1, epsilon_high=0.3, temperature=0.8))
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
    value, gradient = jax_loss(ours, rollouts, rt.PolicyLoss(**settings))  # type: ignore[arg-type]
    assert abs(value - theirs) > 1e-3 * abs(theirs)
    assert distance(gradient, their_gradient) > 1e-2


def test_reference_and_old_log_probabilities_are_trls(trainers: Any, ours: Any) -> None:
    """Before a step both are those of the loaded model: TRL's of its reference."""
    trainer = trainers["grpo"]
    trainer.beta = 0.1
    completions = completions_of(5, trainer._tokenizer.eos_token_id)
    inputs = scored(trainer, completions)
    theirs = inputs["ref_per_token_logps"].numpy()
    masks = inputs["completion_mask"].numpy()
    for rollout, row, mask in zip(rollouts_of(ours, completions), theirs, masks, strict=True):
        count = int(mask.sum())
        assert np.allclose(rollout.reference_logps[:count], row[:count], rtol=0, atol=2e-5)


def test_the_reference_may_be_the_base_of_adapters(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]
) -> None:
    """As TRL before 0.27 has it, which turns the adapters off."""
    import jax
    import jax.numpy as jnp
    from flax import nnx
    from transformers import AutoTokenizer

    from porter import runtime as rt

    folder, mesh = tiny("qwen3"), tiny_mesh(2, 2)
    base = rt.load_model(str(folder), mesh, dtype=jnp.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def said(model: Any, reference: str) -> list[Any]:
        settings = {"batch_size": 16, "num_generations": GENERATIONS, "max_completion_length": LONGEST}
        rows = [{"prompt": text, "answer": "say"} for text in QUESTIONS]
        loss = rt.PolicyLoss(beta=0.1)
        made = rt.GRPOBatches(
            rows, tokenizer, mesh, model, reward_funcs=REWARDS, loss=loss, max_steps=1, reference=reference, **settings
        )
        rollouts = rollouts_of(made, completions_of(5, tokenizer.eos_token_id))
        return [rollout.reference_logps for rollout in rollouts]

    expected = said(base, "base")
    adapted = rt.apply_peft(base, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}, mesh, seed=1)
    nnx.update(adapted, jax.tree.map(lambda array: array + 0.1, nnx.state(adapted, nnx.LoRAParam)))
    for reference in ("base", "checkpoint"):  # of which the base is
        assert np.allclose(said(adapted, reference), expected, rtol=0, atol=2e-5)
    assert not np.allclose(said(adapted, "start"), expected, rtol=0, atol=1e-3)
    with pytest.raises(ValueError, match="reference='policy' is not known"):
        said(adapted, "policy")


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_the_reference_may_be_the_checkpoint(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path, kind: str
) -> None:
    """TRL's own reference is the stored model, whatever was done to the one that it is given."""
    import jax.numpy as jnp
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from porter import runtime as rt

    folder, name = tiny("qwen3"), kind.upper()
    rows = [{"prompt": text, "answer": "say"} for text in QUESTIONS]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    common: dict[str, Any] = {"num_generations": GENERATIONS, "max_completion_length": LONGEST, "beta": 0.1}
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    with torch.no_grad():
        theirs.model.norm.weight.mul_(1.5)
    usual = {"bf16": False, "use_cpu": True, "gradient_checkpointing": False, "report_to": "none"}
    args = getattr(trl, f"{name}Config")(str(tmp_path), per_device_train_batch_size=16, **common, **usual)
    trainer = getattr(trl, f"{name}Trainer")(theirs, REWARDS, args, Dataset.from_list(rows), None, tokenizer)
    assert float(trainer.ref_model.model.norm.weight.detach().abs().sum()) * 1.5 == pytest.approx(
        float(theirs.model.norm.weight.detach().abs().sum())
    )

    mesh = tiny_mesh(2, 2)
    model: Any = rt.load_model(str(folder), mesh, dtype=jnp.float32)
    loss = {"loss": rt.PolicyLoss(beta=common.pop("beta"))} if kind == "grpo" else {}

    def said(reference: str) -> list[Any]:
        made = getattr(rt, f"{name}Batches")(
            rows, tokenizer, mesh, model, reward_funcs=REWARDS, max_steps=1, batch_size=16, reference=reference,
            **common, **loss,
        )  # fmt: skip
        rollouts = rollouts_of(made, completions_of(5, tokenizer.eos_token_id))
        return [rollout.reference_logps for rollout in rollouts]

    stored = said("start")
    model.final_norm.w.set_value(model.final_norm.w.get_value() * 1.5)
    assert not np.allclose(said("start"), stored, rtol=0, atol=1e-3)
    assert np.allclose(said("checkpoint"), stored, rtol=0, atol=1e-6)


def test_prompts_and_order_are_trls(trainers: Any, ours: Any) -> None:
    """RepeatSampler's prompts, over two epochs, and the tokens that `generate` is given."""
    trainer = trainers["grpo"]
    for row, question in enumerate(QUESTIONS):
        assert trainer._tokenize_prompts([question])[0][0] == ours._prompts[row]
    loader, epochs = trainer.get_train_dataloader(), trainer.args.num_train_epochs
    samples = []
    for steps in (-1, 1):
        args = copy(trainer.args)
        args.max_steps = steps
        samples.append(trainer.set_initial_training_values(args, loader)[3])
    assert samples == [len(ours._rows) * epochs, ours.rows * ours.steps / ours.steps_per_epoch]  # ours: of one step
    from trl.trainer.utils import RepeatSampler

    from porter.runtime.batches.order import randperms

    sampler = RepeatSampler(list(range(13)), mini_repeat_count=2, batch_size=3, repeat_count=2, seed=7)
    for epoch in zip(range(2), randperms(13, 7), strict=False):
        theirs = list(sampler)
        order = epoch[1].tolist()
        chunks = [order[start : start + 3] for start in range(0, 12, 3)]
        assert theirs == [row for chunk in chunks for _ in range(2) for row in chunk for _ in range(2)]


@pytest.fixture(autouse=True)
def restored(trainers: Any, ours: Any) -> Iterator[None]:
    """What a test sets on the shared trainer and batches doesn't stay."""
    kept = {name: getattr(trainers["grpo"], name) for name in ("beta", "loss_type", "mask_truncated_completions")}
    loss, masked = ours.loss, ours._mask_truncated
    yield
    for name, value in kept.items():
        setattr(trainers["grpo"], name, value)
    ours.loss, ours._mask_truncated = loss, masked
