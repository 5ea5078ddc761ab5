"""Unsloth's tokenizers: their padding, their end token, and their chat templates."""

from __future__ import annotations

import re

import pytest

from .porting import check_becomes, port
from .unsloth_scripts import HEAD, LOAD, PUT_IN, script


@pytest.mark.parametrize(
    ("name", "load"),
    [
        (
            "'meta-llama/Llama-3.2-1B'",
            "rt.pad_as_unsloth(AutoTokenizer.from_pretrained('meta-llama/Llama-3.2-1B'), model, \"2025.3.19\")",
        ),
        ("NAME", 'rt.pad_as_unsloth(AutoTokenizer.from_pretrained(NAME), model, "2025.3.19")'),
        ("'unsloth/Llama-3.2-1B'", "AutoTokenizer.from_pretrained('unsloth/Llama-3.2-1B')"),
    ],
)
def test_a_tokenizer_gets_unsloths_padding(name: str, load: str) -> None:
    text = script().replace("'unsloth/Qwen3-0.6B'", name).replace("rows =", "NAME = 'Qwen/Qwen2.5-0.5B'\nrows =", 1)
    check_becomes("# pip install unsloth==2025.3.19 transformers==5.1.0\n" + text, f"tokenizer = {load}\n")


@pytest.mark.parametrize(("name", "said"), [("google/gemma-3-1b-it", True), ("unsloth/gemma-3-1b-it", False)])
def test_a_copy_with_another_end_token_is_named(name: str, said: bool) -> None:
    found = port(script().replace("unsloth/Qwen3-0.6B", name)).findings
    assert any("Name unsloth/gemma-3-1b-it" in each.fix for each in found) is said


GEMMA = "FastModel.from_pretrained('unsloth/gemma-3-4b-it', load_in_4bit=False)\n"


@pytest.mark.parametrize(
    ("load", "call", "asked"),
    [
        (GEMMA, "tokenizer.apply_chat_template(talk)", "tokenizer.apply_chat_template(talk, tokenize=False)"),
        (GEMMA, "tokenizer.apply_chat_template(talk, tokenize=True)", ""),
        (GEMMA.replace("4b", "1b"), "tokenizer.apply_chat_template(talk)", ""),
        (GEMMA.replace("gemma-3-4b-it", "medgemma-27b-text-it"), "tokenizer.apply_chat_template(talk)", ""),
        (LOAD, "tokenizer.apply_chat_template(talk)", ""),
    ],
)
def test_a_multimodal_models_processor_gives_texts(load: str, call: str, asked: str) -> None:
    texts = f"tokenizer = get_chat_template(tokenizer, chat_template='gemma-3')\ntext = {call}\n"
    text = f"{HEAD}from unsloth import FastModel, get_chat_template\nmodel, tokenizer = {load}{PUT_IN}{texts}"
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    after = port(f"{text}trainer = {made}\ntrainer.train()\n").after
    assert (f"text = {asked}\n" in after) if asked else ("tokenize=False" not in after)


SHARED = ", mapping={'role': 'from', 'content': 'value', 'user': 'human', 'assistant': 'gpt'}"
USUAL = ", mapping={'role': 'role', 'content': 'content', 'user': 'user', 'assistant': 'assistant'}"


@pytest.mark.parametrize(
    ("template", "mapping", "ported"),
    [("llama-3", SHARED, True), ("qwen-2.5", USUAL, True), ("qwen-2.5", SHARED, False), ("llama-3", "", True)],
)
def test_other_names_for_roles_are_those_of_llama_3(template: str, mapping: str, ported: bool) -> None:
    call = f"get_chat_template(tokenizer, chat_template='{template}'{mapping})"
    text = (
        f"{HEAD}from unsloth import FastModel, get_chat_template\nmodel, tokenizer = {LOAD}{PUT_IN}tokenizer = {call}\n"
    )
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    found = port(f"{text}trainer = {made}\ntrainer.train()\n")
    assert (f"tokenizer = rt.{call}" in found.after) is ported
    assert any(finding.rule == "TP712" for finding in found.findings) is not ported


PADS = "def tokenize(row):\n    return tokenizer(row['text'], padding='max_length', max_length=8)\n"


@pytest.mark.parametrize(
    ("before", "behind", "sides"),
    [
        ("", "rows = rows.map(tokenize)\n", ["right"]),
        ("rows = rows.map(tokenize)\n", "", ["left"]),
        ("", "", []),
        (
            "",
            "rows = rows.map(tokenize)\nFastLanguageModel.for_inference(model)\nx = tokenizer('a', padding=True)\n",
            ["right", "left"],
        ),
        ("", "tokenizer.padding_side = 'left'\nrows = rows.map(tokenize)\n", []),
        (
            "",
            "def demo():\n    FastLanguageModel.for_inference(model)\nrows = rows.map(tokenize)\ndemo()\n",
            ["right"],
        ),
    ],
)
def test_a_tokenizer_pads_on_unsloths_side(before: str, behind: str, sides: list[str]) -> None:
    text = f"{HEAD}model, tokenizer = {LOAD}{PADS}{before}{PUT_IN}{behind}"
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    after = port(f"{text}trainer = {made}\ntrainer.train()\n").after
    assert re.findall(r'tokenizer\.padding_side = "(\w+)"\n', after) == sides
    assert len(sides) < 2 or 'tokenizer.padding_side = "left"\nx = tokenizer(' in after


SCORE = "def score(model, tokenizer):\n    return tokenizer(rows['text'], padding=True)\n"
ANSWER = """\
def answer(model, tokenizer):
    FastLanguageModel.for_inference(model)
    for text in rows['text']:
        ids = tokenizer(text, padding=True, return_tensors='pt')
        out = model.generate(**ids)
"""
SFT = "trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)\n"


@pytest.mark.parametrize(
    ("release", "body", "sides"),
    [  # the script's own side: what Unsloth does to it behind
        ("2025.8.9", f"score(model, tokenizer)\n{PUT_IN}{SFT}trainer.train()\nscore(model, tokenizer)\n", ["right"]),
        ("2024.12.12", f"{PUT_IN}score(model, tokenizer)\n{SFT}trainer.train()\n", ["right"]),
        ("2025.8.9", f"{PUT_IN}{SFT}trainer.train()\nanswer(model, tokenizer)\n", ["right"]),
        ("2025.12.5", f"{PUT_IN}{SFT}trainer.train()\nanswer(model, tokenizer)\n", []),
        ("2025.9.9", f"{PUT_IN}{SFT}trainer.train()\nscore(model, tokenizer)\n", []),
        ("2026.1.4", f"{PUT_IN}{SFT}trainer.train()\nscore(model, tokenizer)\n", ["right"]),
        ("2025.8.9", f"{PUT_IN}{SFT}trainer.train()\ntokenizer.save_pretrained('out')\n", ["right"]),
        ("2025.8.9", f"score(model, tokenizer)\n{PUT_IN}{SFT}trainer.train()\n", []),
    ],
)
def test_unsloth_turns_the_scripts_own_side(release: str, body: str, sides: list[str]) -> None:
    text = f"# pip install unsloth=={release}\n{HEAD}{SCORE}{ANSWER}model, tokenizer = {LOAD}"
    after = port(f"{text}tokenizer.padding_side = 'left'\n{body}").after
    assert re.findall(r'tokenizer\.padding_side = "(\w+)"', after) == sides


def test_generate_leaves_the_tokenizer_on_the_right() -> None:
    body = f"{PUT_IN}{SFT}trainer.train()\nanswer(model, tokenizer)\nscore(model, tokenizer)\n"
    text = f"# pip install unsloth==2025.8.9\n{HEAD}{SCORE}{ANSWER}model, tokenizer = {LOAD}{body}"
    after = port(text).after
    assert "    out = rt.generate(" in after
    assert "\nmodel, tokenizer" not in after and '\ntokenizer.padding_side = "left"\n' in after  # behind the load
    assert re.search(r'rt\.generate\([^\n]*\n        tokenizer\.padding_side = "right"  # as Unsloth', after)


def test_a_saved_tokenizer_has_unsloths_side() -> None:
    body = f"{PUT_IN}{SFT}trainer.train()\nFastLanguageModel.for_inference(model)\ntokenizer.save_pretrained('out')\n"
    text = f"# pip install unsloth==2025.8.9\n{HEAD}model, tokenizer = {LOAD}{body}"
    check_becomes(text, "AutoTokenizer.from_pretrained('unsloth/Qwen3-0.6B')\ntokenizer.padding_side = \"left\"\n")
