"""A real SFTTrainer on a tiny model, what it feeds that model, and the same from SFTBatches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ["the", "capital", "of", "France", "is", "Paris", "answer", "question", "sea", "deep", "ships", "good", "night"]


def words(rng: np.random.RandomState, low: int, high: int) -> str:
    return " ".join(rng.choice(WORDS, rng.randint(low, high)))


def rows(kind: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of random words in one of the dataset formats."""
    rng = np.random.RandomState(seed)
    made: list[dict[str, Any]] = []
    for i in range(n):
        if kind == "text":
            made.append({"text": words(rng, 1, 30), "id": i})
        elif kind == "prompt_completion":
            made.append({"prompt": words(rng, 1, 15) + " " * (i % 2), "completion": words(rng, 1, 15)})
        elif kind == "conversations":
            made.append({"conversations": [{"from": m["role"], "value": m["content"]} for m in chat(rng, i)]})
        elif kind == "chat_prompt":
            turns = chat(rng, i)
            made.append({"prompt": turns[:-1], "completion": turns[-1:]})
        elif kind == "messages":
            made.append({"messages": chat(rng, i)})
        elif kind == "question":
            made.append({"question": words(rng, 1, 10), "answer": words(rng, 1, 10)})
    return made


def chat(rng: np.random.RandomState, i: int) -> list[dict[str, str]]:
    turns = []
    for _ in range(1 + i % 3):
        turns.append({"role": "user", "content": words(rng, 1, 8)})
        turns.append({"role": "assistant", "content": "  " * (i % 2) + words(rng, 1, 8)})
    return turns


def as_text(row: dict[str, Any]) -> str:
    return f"### {row['question']}\n{row['answer']}"


def sft(
    tiny: Callable[..., Path],
    tmp_path: Path,
    data: list[dict[str, Any]],
    *,
    model: str = "qwen3",
    layers: int = 1,
    **settings: Any,
) -> Any:
    """A TRL trainer on a tiny model of one layer, unless a test asks what several compute, on the CPU."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    folder = tiny(model, num_hidden_layers=layers)
    trainer_settings = {
        k: settings.pop(k) for k in ("formatting_func", "eval_dataset", "data_collator") if k in settings
    }
    defaults = {
        "output_dir": str(tmp_path / "out"),
        "num_train_epochs": 2,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 3,
        "learning_rate": 0.0,
        "max_length": 48,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "seed": 7,
    }
    args = SFTConfig(**{**defaults, **settings})
    torch_model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return SFTTrainer(
        torch_model, args, train_dataset=Dataset.from_list(data), processing_class=tokenizer, **trainer_settings
    )


def recorded(trainer: Any) -> list[tuple[dict[str, np.ndarray], int]]:
    """Every micro-batch that the trainer feeds its model, with the tokens that its loss is divided by."""
    import torch

    seen = []

    def compute_loss(model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        arrays = {name: value.numpy() for name, value in inputs.items() if hasattr(value, "numpy")}
        seen.append((arrays, int(num_items_in_batch)))
        return next(p for p in model.parameters() if p.requires_grad).sum() * torch.tensor(0.0)

    trainer.compute_loss = compute_loss
    trainer.train()
    return seen


def trained_rows(batches: list[dict[str, np.ndarray]]) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of every row that isn't filled up, in order."""
    found = []
    for batch in batches:
        for place, segments in enumerate(batch["segment_ids"]):
            real = segments > 0
            if real.any():
                found.append((batch["input_tokens"][place, real].tolist(), batch["labels"][place, real].tolist()))
    return found


def from_args(trainer: Any, data: Any, mesh: Any, **settings: Any) -> Any:
    from datasets import Dataset
    from transformers import AutoTokenizer

    from porter.runtime.batches.sft_batches import SFTBatches

    tokenizer = AutoTokenizer.from_pretrained(trainer.model.name_or_path)
    dataset = Dataset.from_list(data) if isinstance(data, list) else data
    return SFTBatches.from_args(trainer.args, dataset, tokenizer, mesh, **settings)


def collated(inputs: dict[str, np.ndarray]) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of the rows of a batch as TRL collated it, without the padding."""
    if "position_ids" in inputs:  # run together into one row
        return [(inputs["input_ids"][0].tolist(), inputs["labels"][0].tolist())]
    return [
        (ids[mask > 0].tolist(), labels[mask > 0].tolist())
        for ids, labels, mask in zip(inputs["input_ids"], inputs["labels"], inputs["attention_mask"], strict=True)
    ]


def assert_same(
    batches: list[dict[str, np.ndarray]], theirs: list[tuple[dict[str, np.ndarray], int]], groups: int
) -> None:
    """Every micro-batch has TRL's tokens, labels, positions and divisor, in TRL's order."""
    assert len(batches) == len(theirs) > 0
    for batch, (inputs, tokens) in zip(batches, theirs, strict=True):
        got = trained_rows([batch])
        if "position_ids" in inputs:
            got = [tuple([token for row in part for token in row] for part in zip(*got, strict=True))]  # type: ignore
            real = batch["segment_ids"] > 0
            assert batch["positions"][real].tolist() == inputs["position_ids"][0].tolist()
        assert got == collated(inputs)
        scale = batch["scale"][(batch["segment_ids"] > 0).any(axis=1)]
        assert np.allclose(scale, groups / tokens, rtol=1e-6, atol=0)
