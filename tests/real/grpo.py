"""Real GRPO and RLOO trainers of TRL on a tiny model, the same in the runtime, and completions given to both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture
def restored(trainers: Any, ours: Any) -> Iterator[None]:
    """What a test sets on the shared trainers and batches doesn't stay."""
    kept = [(made, dict(vars(made)), dict(vars(made.args))) for made in trainers.values()]
    loss, masked = ours.loss, ours._mask_truncated
    yield
    for made, own, args in kept:
        vars(made).clear()
        vars(made).update(own)
        vars(made.args).update(args)
    ours.loss, ours._mask_truncated = loss, masked


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
