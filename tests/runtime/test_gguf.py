"""GGUF files: what is written where, by a llama.cpp that only says what it was asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.saving import gguf
from tests.tiny import tokenizer

CONVERTER = """\
import argparse, os
asked = argparse.ArgumentParser()
asked.add_argument("folder"), asked.add_argument("--outfile"), asked.add_argument("--outtype")
given = asked.parse_args()
assert {"weights", "tokenizer.json"} <= set(os.listdir(given.folder))
open(given.outfile, "w").write(given.outtype)
"""
QUANTIZER = '#!/bin/sh\necho "$3 of $(cat "$1")" > "$2"\n'
MODEL: Any = SimpleNamespace(porter=SimpleNamespace(id="unsloth/Tiny-1B"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSLOTH_LLAMA_CPP_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")

    def save(model: Any, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "weights").write_text("merged")

    monkeypatch.setattr(gguf, "save_model", save)
    return tmp_path


def build(home: Path) -> None:
    (home / "build" / "bin").mkdir(parents=True)
    (home / "convert_hf_to_gguf.py").write_text(CONVERTER)
    program = home / "build" / "bin" / "llama-quantize"
    program.write_text(QUANTIZER.replace("$(cat", "$(/bin/cat"))
    program.chmod(0o755)


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text().strip() for path in sorted(folder.rglob("*.gguf"))}


@pytest.mark.parametrize(
    ("method", "layout", "made"),
    [
        ("q4_k_m", "folder beside", {"out_gguf/Tiny-1B.Q4_K_M.gguf": "q4_k_m of bf16"}),
        ("quantized", "working folder", {"Tiny-1B.Q4_K_M.gguf": "q4_k_m of bf16"}),
        ("q8_0", "folder beside", {"out_gguf/Tiny-1B.Q8_0.gguf": "q8_0 of bf16"}),
        ("bf16", "folder beside", {"out_gguf/Tiny-1B.BF16.gguf": "bf16"}),
        (
            ["q8_0", "bf16"],
            "folder beside",
            {"out_gguf/Tiny-1B.BF16.gguf": "bf16", "out_gguf/Tiny-1B.Q8_0.gguf": "q8_0 of bf16"},
        ),
        ("fast_quantized", "folder", {"out/unsloth.Q8_0.gguf": "q8_0"}),
        ("q8_0", "name", {"out-unsloth.BF16.gguf": "bf16", "out-unsloth.Q8_0.gguf": "q8_0 of bf16"}),
        (
            ["q4_k_m", "f16"],
            "folder",
            {"out/unsloth.F16.gguf": "f16", "out/unsloth.Q4_K_M.gguf": "q4_k_m of f16"},
        ),
    ],
)
def test_the_files_are_unsloths(here: Path, method: Any, layout: Any, made: dict[str, str]) -> None:
    build(here / "llama.cpp")
    paths = gguf.save_gguf(MODEL, "out", tokenizer("qwen3"), method, layout=layout)
    assert files(here) == made and sorted(paths) == [str(here / name) for name in made]


def test_without_llama_cpp_the_merged_model_is_there(here: Path) -> None:
    with pytest.raises(RuntimeError, match=r"git clone(?s:.)*saved in out, no GGUF"):
        gguf.save_gguf(MODEL, "out", tokenizer("qwen3"))
    assert (here / "out" / "weights").exists() and (here / "out" / "tokenizer.json").exists()
    build(here / ".unsloth" / "llama.cpp")
    (here / ".unsloth" / "llama.cpp" / "convert_hf_to_gguf.py").write_text("raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="exit status 3"):
        gguf.save_gguf(MODEL, "again", tokenizer("qwen3"))


def test_an_unknown_method_is_said_before_anything_is_written(here: Path) -> None:
    with pytest.raises(ValueError, match="'iq2_xxs' is no method"):
        gguf.save_gguf(MODEL, "out", tokenizer("qwen3"), "iq2_xxs")
    assert not (here / "out").exists()


def test_a_start_token_that_the_tokenizer_adds_leaves_the_saved_template(here: Path) -> None:
    build(here / "llama.cpp")

    class Adds:
        bos_token_id, bos_token, chat_template = 1, "<s>", "{{ bos_token }}{{ bos_token + messages[0] }}"

        def __call__(self, text: str) -> Any:
            return SimpleNamespace(input_ids=[1, 5])

        def save_pretrained(self, folder: Path) -> None:
            (folder / "tokenizer.json").write_text(self.chat_template)

    adds = Adds()
    gguf.save_gguf(MODEL, "out", adds)
    assert (here / "out" / "tokenizer.json").read_text() == "{{ messages[0] }}".replace("{{ ", "")
    assert adds.chat_template == Adds.chat_template
