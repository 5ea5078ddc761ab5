"""apply_chat_template gave token ids before transformers 5, and does so in ports."""

import pytest

from .porting import port, sft_script

ROWS = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")\nids = {}\n'


def ported(call: str, config: str = ", max_seq_length=5") -> str:
    return port(sft_script(ROWS.format(call), config=config)).after


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ("tokenizer.apply_chat_template(rows)", "tokenizer.apply_chat_template(rows, return_dict=False)"),
        (
            "[tokenizer.apply_chat_template(row, tokenize=True) for row in rows]",
            "[tokenizer.apply_chat_template(row, tokenize=True, return_dict=False) for row in rows]",
        ),
        (
            "tokenizer.apply_chat_template(\n    rows,\n    max_length=5,  # tokens\n)",
            "tokenizer.apply_chat_template(\n    rows,\n    max_length=5,\n    return_dict=False,  # tokens\n)",
        ),
        ("tokenizer.apply_chat_template(rows)[1:]", "tokenizer.apply_chat_template(rows, return_dict=False)[1:]"),
    ],
)
def test_token_ids_are_asked_for(call: str, asked: str) -> None:
    assert f"ids = {asked}\n" in ported(call)
    assert f"ids = {call}\n" in ported(call, config="")  # of transformers 5


@pytest.mark.parametrize(
    "call",
    [
        "tokenizer.apply_chat_template(rows, tokenize=False)",
        "tokenizer.apply_chat_template(rows, return_dict=True)",
        "tokenizer.apply_chat_template(rows, **settings)",
        "processor.apply_chat_template(rows)",
    ],
)
def test_what_gave_something_else_stays(call: str) -> None:
    assert f"ids = {call}\n" in ported(call)


def test_generation_asks_once() -> None:
    call = 'tokenizer.apply_chat_template(rows, return_tensors="pt")'
    text = sft_script(ROWS.format(call), config=", max_seq_length=5", after="trainer.train()\nmodel.generate(ids)")
    assert port(text).after.count("return_dict=False") == 1
