"""The padding token that Unsloth gives a tokenizer, in the port and on the GPU's side of a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter import runtime as rt
from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.models.load_model import ModelInfo
from porter.validate.stand_ins.models.stand_in_tokenizer import write_tokenizer
from porter.validate.stand_ins.models.stand_in_tokens import tokens_of
from porter.validate.torch_side.gpu_libraries.unsloth_parts.padding import set_padding
from tests.runtime.byte_tokens import byte_tokenizer, trained_text

MESH: Any = SimpleNamespace(shape={"fsdp": 1, "tp": 1})
MANY = [f"<|reserved_special_token_{number}|>" for number in range(3)]


def model(rows: int = 512, **config: Any) -> Any:
    held = json.dumps({"model_type": "llama", "vocab_size": rows, **config})
    return SimpleNamespace(porter=ModelInfo("a/b", "", SimpleNamespace(), held))  # type: ignore[arg-type]


def padded(added: list[str], release: str, rows: int = 512, config: dict[str, Any] | None = None, **own: Any) -> str:
    """What the port's tokenizer pads with, checked against what is written apart from it."""
    made, other = (byte_tokenizer(**{"pad_token": None, **own}) for _ in range(2))
    for tokenizer in (made, other):
        tokenizer.add_tokens([each for each in added if each not in tokenizer.get_vocab()], special_tokens=True)
    declared = {"eos_token_id": None, "pad_token_id": None, **(config or {})}
    set_padding(other, SimpleNamespace(config=SimpleNamespace(vocab_size=rows, **declared)), release)
    assert rt.pad_as_unsloth(made, model(rows, **declared), release) is made
    assert made.pad_token == other.pad_token
    return str(made.pad_token)


@pytest.mark.parametrize(
    ("added", "release", "own", "pads"),
    [
        ([], "2025.3.19", {"pad_token": "<pad>"}, "<pad>"),
        ([*MANY, "<|finetune_right_pad_id|>"], "2025.3.19", {}, "<|finetune_right_pad_id|>"),
        ([*MANY], "2025.3.19", {"pad_token": "</s>"}, "<pad>"),
        (["<|vision_pad|>"], "2026.8.19", {"pad_token": "<|vision_pad|>"}, "<|vision_pad|>"),
        (["<|vision_pad|>"], "2026.5.1", {"pad_token": "<|vision_pad|>"}, "<pad>"),
        (["[control_1]", "[control_2]"], "2026.8.19", {"eos_token": "<pad>"}, "[control_2]"),
    ],
)
def test_which_token(added: list[str], release: str, own: dict[str, Any], pads: str) -> None:
    assert padded(added, release, **own) == pads


@pytest.mark.parametrize(
    "release", ["2024.8", "2024.9", "2024.12.12", "2025.3.19", "2026.4.1", "2026.7.1", "2026.8.19"]
)
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama3", "meta-llama/Meta-Llama-3-8B"),
        ("llama3", "meta-llama/Llama-3.2-1B-Instruct"),
        ("llama3", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
        ("llama3", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
        ("mistral", "mistralai/Mistral-7B-v0.3"),
        ("mistral", "mistralai/Mistral-7B-v0.1"),
        ("qwen2", "Qwen/Qwen2.5-0.5B"),
        ("qwen3", "unsloth/Qwen3-4B"),
        ("gemma3", "google/gemma-3-1b-it"),
    ],
)
def test_of_published_tokenizers_no_end_pads(family: str, name: str, release: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path, tokens_of(family, name), None)
    made, other = (AutoTokenizer.from_pretrained(tmp_path) for _ in range(2))
    empty = {"eos_token_id": None, "pad_token_id": None}
    rt.pad_as_unsloth(made, model(**empty), release)
    set_padding(other, SimpleNamespace(config=SimpleNamespace(vocab_size=512, **empty)), release)
    assert made.pad_token == other.pad_token and made.pad_token_id < 512
    assert made.pad_token not in (None, made.eos_token)


def test_without_a_row_for_a_new_token_it_ends() -> None:
    made = byte_tokenizer(pad_token=None, eos_token="<pad>")
    rows = len(made)
    with pytest.raises(ValueError, match="no row for a new one"):
        rt.pad_as_unsloth(made, model(rows), "2026.8.19")
    assert rt.pad_as_unsloth(made, model(rows + 1), "2026.8.19").pad_token == "<｜PAD▁TOKEN｜>"  # seen on a GPU


@pytest.mark.parametrize(("release", "trained"), [("2025.3.19", "one</s>"), (None, "one·")])
def test_ends_are_trained(release: str | None, trained: str) -> None:
    """With the end token as padding TRL before 0.16.1 trains none, as it does without Unsloth."""
    tokenizer = byte_tokenizer(pad_token="</s>")
    if release is not None:
        rt.pad_as_unsloth(tokenizer, model(), release)
    batches = SFTBatches(
        [{"text": "one</s>"}],
        tokenizer,
        MESH,
        epochs=1,
        batch_size=1,
        sampling="sequential",
        trl="0.15.2",
        unsloth="2025.3.19",
    )
    (batch,) = batches
    assert trained_text(tokenizer, batch["labels"][0][:4]) == trained


@pytest.mark.parametrize("release", ["2024.8", "2024.9", "2025.3.19", "2026.8.19"])
@pytest.mark.parametrize(
    ("own", "declared", "told"),
    [("</s>", None, True), (None, 7, True), ("<pad>", None, True), ("<pad>", 7, False)],
)
def test_the_models_settings_are_told(own: str | None, declared: int | None, told: bool, release: str) -> None:
    """They are saved with the model, and scripts ask whether both are one."""
    made, other = byte_tokenizer(pad_token=own), byte_tokenizer(pad_token=own)
    trained = model(pad_token_id=declared, eos_token_id=None)
    settings = SimpleNamespace(vocab_size=512, pad_token_id=declared, eos_token_id=None)
    apart = SimpleNamespace(config=settings, generation_config=SimpleNamespace(pad_token_id=None))
    rt.pad_as_unsloth(made, trained, release)
    set_padding(other, apart, release)
    assert rt.model_config(trained).pad_token_id == settings.pad_token_id == (made.pad_token_id if told else declared)
    given = json.loads(trained.porter.generation_json)
    assert given.get("pad_token_id") == apart.generation_config.pad_token_id
    assert (given == {}) is (not told or release == "2024.8")
