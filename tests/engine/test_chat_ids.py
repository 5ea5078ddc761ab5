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
    pinned = f"# /// script\n# dependencies = ['transformers==5.3.0']\n# ///\n{sft_script(ROWS.format(call))}"
    assert f"ids = {call}\n" in port(pinned).after


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


TAKEN = """ids = tokenizer.apply_chat_template(rows, return_tensors="pt"{}){}
print(model.generate({}, max_new_tokens=5)[0][ids.shape[1]:])"""


@pytest.mark.parametrize(
    ("pin", "said", "moved", "taken", "ends"),
    [
        ("5.3.0", "", "", "ids", True),
        ("5.0.0", "", ".to(model.device)", "input_ids=ids.to('cuda')", True),
        ("4.57.6", "", "", "ids", False),
        ("5.3.0", ", return_dict=False", "", "ids", False),
        ("5.3.0", ", return_dict=True", "", "**ids", False),
        ("5.3.0", "", "", "ids['input_ids']", False),
        ("5.3.0", "", ".to('cuda')\nif not hasattr(ids, 'shape'):\n    ids = ids['input_ids']", "ids", False),
    ],
)
def test_a_dictionary_taken_for_token_ids_ends_the_gpu_run(
    pin: str, said: str, moved: str, taken: str, ends: bool
) -> None:
    """A tiny model of Qwen2 under transformers 5.3.0: AttributeError. What follows there isn't told as if it ran."""
    text = sft_script(
        imports=f"# pip install transformers=={pin}",
        between=ROWS.partition("\n")[0],
        config=", gradient_checkpointing=True",
        after=f"trainer.train()\n{TAKEN.format(said, moved, taken)}",
    )
    found = port(text.replace(", dtype=", ", torch_dtype=") if pin < "5" else text).findings
    told = [each.severity for each in found if f"gives a dictionary in transformers {pin}" in each.message]
    assert told == ["warning"] * ends
    assert any("the GPU run generates" in each.message for each in found) != ends


COUNTED = """tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
rows = rows.filter(lambda row: {})
"""


@pytest.mark.parametrize(
    ("pin", "counts", "told"),
    [
        ("transformers==5.3.0", "len(tokenizer.apply_chat_template(row['messages'], tokenize=True)) <= 1024", True),
        ("transformers==4.57.6", "len(tokenizer.apply_chat_template(row['messages'], tokenize=True)) <= 1024", False),
        ("transformers==5.3.0", "len(tokenizer.apply_chat_template(row['messages'], return_dict=False)) <= 9", False),
        ("transformers==5.3.0", "len(tokenizer.apply_chat_template(row['messages'], tokenize=False)) <= 9", False),
        ("transformers==5.3.0", "print(len(tokenizer.apply_chat_template(row['messages']))) or row['good']", False),
    ],
)
def test_a_filter_that_counts_keys_of_a_dictionary_is_told(pin: str, counts: str, told: bool) -> None:
    """Under transformers 5 it keeps every row, in the GPU run as in the port."""
    ported = port(f"# pip install {pin}\n" + sft_script(between=COUNTED.format(counts)))
    found = [each for each in ported.findings if "whose len(...) is 2" in each.message]
    assert [each.severity for each in found] == ["warning"] * told
    assert ("return_dict=False" in ported.after) == (pin < "transformers==5" or "return_dict" in counts)
