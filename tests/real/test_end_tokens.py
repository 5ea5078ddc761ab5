"""Start and end tokens beside what transformers 4.46 and 4.57 gave for the same tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from porter import runtime as rt

pytestmark = pytest.mark.real

# [], add_eos_token, add_bos_token=False, both: start and end around a text, of transformers 4.46.3 and 4.57.6 alike.
AS_GIVEN = {
    ("llama3", "mistralai/Mistral-7B-v0.1"): ["s", "se", "", "se"],
    ("gemma3", "google/gemma-3-1b-it"): ["s", "se", "", "se"],
    ("llama3", "meta-llama/Llama-3.1-8B"): ["s", "s", "s", "s"],
    ("qwen3", "Qwen/Qwen3-0.6B"): ["", "", "", ""],
}
ASKED: list[dict[str, bool]] = [
    {},
    {"add_eos_token": True},
    {"add_bos_token": False},
    {"add_bos_token": True, "add_eos_token": True},
]


@pytest.mark.parametrize(("model", "wanted"), AS_GIVEN.items(), ids=str)
def test_as_transformers_4(model: tuple[str, str], wanted: list[str], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from porter.validate.stand_ins.models.stand_in_tokenizer import write_tokenizer
    from porter.validate.stand_ins.models.stand_in_tokens import tokens_of

    write_tokenizer(tmp_path, tokens_of(*model), None)
    for asked, around in zip(ASKED, wanted, strict=True):
        tokenizer = rt.bos_eos(AutoTokenizer.from_pretrained(tmp_path), **asked)
        assert _around(tokenizer) == around, asked


def _around(tokenizer: Any) -> str:
    ids = tokenizer("a b").input_ids
    return ("s" if ids[0] == tokenizer.bos_token_id else "") + ("e" if ids[-1] == tokenizer.eos_token_id else "")
