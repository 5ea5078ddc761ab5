"""The chat templates of stand-ins, whose words scripts mask by, and tokens that these name by number."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import pytest

from porter.validate.stand_ins.models.stand_in import chat_template, make_stand_in
from porter.validate.stand_ins.models.stand_in_tokenizer import write_tokenizer
from porter.validate.stand_ins.models.stand_in_tokens import tokens_of
from porter.validate.stand_ins.models.token_numbers import NOTE, take_numbers

TURNS = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]


def rendered(model_id: str, family: str, turns: list[dict[str, str]], *, prompt: bool = False) -> str:
    end = tokens_of(family, model_id).end
    template = jinja2.Environment().from_string(chat_template(family, model_id))
    return template.render(messages=turns, add_generation_prompt=prompt, eos_token=end, bos_token="<s>")


@pytest.mark.parametrize(
    ("model_id", "family", "turn"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "llama3", "<|im_start|>assistant\nSo.<|im_end|>\n"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama3", "<|assistant|>\nSo.</s>\n"),
        ("HuggingFaceH4/zephyr-7b-beta", "mistral", "<|assistant|>\nSo.</s>\n"),
        ("meta-llama/Llama-3.2-1B-Instruct", "llama3", "assistant<|end_header_id|>\n\nSo.<|eot_id|>"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral", "[/INST]So.</s>"),
    ],
)
def test_an_answer_stands_in_the_models_own_words(model_id: str, family: str, turn: str) -> None:
    text = rendered(model_id, family, TURNS)

    assert turn in text
    if "Mistral" not in model_id:
        asked = rendered(model_id, family, TURNS[:1], prompt=True)
        assert text.startswith(asked), "what is masked as the prompt is how the whole begins"


def test_a_model_of_an_unknown_folder_pads_with_a_token_where_the_script_sets_none(tmp_path: Path) -> None:
    folder = make_stand_in(tmp_path / "bare", "HuggingFaceTB/SmolLM2-135M", "llama3")
    assert json.loads((folder / "tokenizer_config.json").read_text()).get("pad_token") is None
    folder = make_stand_in(tmp_path / "pads", "HuggingFaceTB/SmolLM2-135M", "llama3", pads=True)
    assert json.loads((folder / "tokenizer_config.json").read_text())["pad_token"] == "<|endoftext|>"


def test_gemma_3_generates_behind_its_window_as_its_own_files_say(tmp_path: Path) -> None:
    folder = make_stand_in(tmp_path, "google/gemma-3-1b-it", "gemma3")
    held = json.loads((folder / "generation_config.json").read_text())
    assert held["cache_implementation"] == "hybrid" and held["transformers_version"] >= "4.50"


def test_a_token_by_its_number_in_a_larger_vocabulary(tmp_path: Path) -> None:
    """One of the stand-in's own, the same on both sides; another tokenizer is what it is."""
    from transformers import PreTrainedTokenizerFast

    class Tiny(PreTrainedTokenizerFast): ...

    notes: list[str] = []
    take_numbers(Tiny, tmp_path, notes.append)
    outside = tmp_path.parent / f"{tmp_path.name}-own"
    for folder in (tmp_path / "codellama", outside):
        folder.mkdir()
        write_tokenizer(folder, tokens_of("llama3", "codellama/CodeLlama-7b-Instruct-hf"), None)
    tokenizer = Tiny.from_pretrained(tmp_path / "codellama")
    tokenizer.pad_token_id = 18610
    assert tokenizer.pad_token_id == 18610 % len(tokenizer) and tokenizer.pad_token == "<0xAF>"
    tokenizer.pad_token_id = 2
    assert tokenizer.pad_token == "</s>"
    assert notes == [NOTE.format(asked=18610, name="pad_token", token="<0xAF>")]
    tokenizer.pad_token_id = tokenizer.eos_token_id + 9 * len(tokenizer)
    assert tokenizer.pad_token_id > tokenizer.eos_token_id and tokenizer.pad_token != tokenizer.unk_token
    own = Tiny.from_pretrained(outside)
    own.pad_token_id = 18610
    assert own.pad_token is None and len(notes) == 2
