"""What the porter can't follow is said where it stands, never kept in silence."""

from __future__ import annotations

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.module import parse_module

TOP = """from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
"""
TRAINER = (
    "SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig(output_dir='o'), train_dataset=load_dataset('imdb', split='train'))"
)


def port(text: str, **options: str) -> Port:
    return port_module(parse_module(text.encode(), "train.py"), Options(**options))  # type: ignore[arg-type]


def said(ported: Port) -> list[tuple[int, str]]:
    return [(finding.line, finding.message) for finding in ported.findings if finding.severity != "info"]


def test_what_the_caller_gets_back_is_used_in_its_function_only() -> None:
    body = f"def build():\n    trainer = {TRAINER}\n    trainer.train()\n    return trainer\n"
    assert said(port(f"{TOP}{body}build()\n")) == []
    ported = port(f"{TOP}{body}t = build()\nt.save_model('z')\n")
    assert ported.status == "partial" and [line for line, _ in said(ported)] == [8]


def test_another_name_for_the_trainer() -> None:
    ported = port(f"{TOP}trainer = {TRAINER}\ntrainer.train()\nt = trainer\nt.save_model('z')\n")
    assert [line for line, _ in said(ported)] == [6]


def test_a_model_from_a_tuple_has_its_later_uses_answered() -> None:
    model = "model, n = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B'), 3\nmodel.config.use_cache = False\n"
    ported = port(
        f"{TOP}{model}trainer = {TRAINER.replace(chr(39) + 'Qwen/Qwen3-0.6B' + chr(39), 'model', 1)}\ntrainer.train()\n"
    )
    assert ported.status == "ported" and "use_cache" not in ported.after


def test_star_imports_hide_the_trainer() -> None:
    ported = port(f"from trl import *\ntrainer = {TRAINER}\ntrainer.train()\n")
    assert ported.status == "unsupported" and "import *" in said(ported)[0][1]


@pytest.mark.parametrize(("release", "fits"), [("0.15.0", True), ("", False)])
def test_an_old_keyword_dates_the_script(release: str, fits: bool) -> None:
    text = f"{TOP}trainer = {TRAINER.replace('output_dir', 'max_seq_length=9, output_dir')}\ntrainer.train()\n"
    messages = [message for _, message in said(port(text, **({"source_trl": release} if release else {})))]
    assert any("max_seq_length is the name" in message for message in messages) is not fits
