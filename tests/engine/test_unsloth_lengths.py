"""At which length Unsloth cuts rows: the trainer's, or that of the model."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port
from .unsloth_scripts import LOAD, script


@pytest.mark.parametrize("config", ["'out'", "'out', max_length=64"])
def test_rows_are_cut_at_the_models_length(config: str) -> None:
    found = check_becomes(script(config), "max_length=512,", gone=("max_length=64",))
    assert [row.fate for row in found.fields if row.source == "FastLanguageModel.max_seq_length"] == ["exact"]


def test_unless_the_trainer_is_given_its_own() -> None:
    check_becomes(script(trainer=", max_seq_length=64"), "max_length=64,\n", gone=("max_length=512",))


def test_where_the_length_is_not_seen_a_person_is_asked() -> None:
    loads = f"def load(length):\n    return {LOAD.replace('512', 'length')}\n\nmodel, tokenizer = load(512)\n"
    text = script().replace(f"model, tokenizer = {LOAD}", loads)
    assert "Unsloth cuts rows at the model's max_seq_length, which can't be read" in port(text).after


@pytest.mark.parametrize(
    ("given", "length", "is_same"),
    [
        ("settings", "int(settings['rows']['length'])", True),
        ("settings", "int(settings['rows']['longest'])", False),
        ("other", "int(settings['rows']['length'])", False),
    ],
)
def test_a_config_may_say_the_models_length_itself(given: str, length: str, is_same: bool) -> None:
    loads = f"def load(cfg):\n    length = int(cfg['rows']['length'])\n    return {LOAD.replace('512', 'length')}\n"
    loads = f"import yaml\nsettings, other = yaml.safe_load(open('a')), {{}}\n{loads}model, tokenizer = load({given})\n"
    found = port(script(f"'out', max_length={length}").replace(f"model, tokenizer = {LOAD}", loads))
    assert ("which can't be read" not in found.after) == is_same
    assert (f"max_length={length}," in found.after) or not is_same
    reasons = [row.reason for row in found.fields if row.source == "FastLanguageModel.max_seq_length"]
    assert ["same expression" in reason for reason in reasons] == [is_same]


@pytest.mark.parametrize(
    ("model", "trainer", "written"),
    [
        ("512", "4096", "max_length=512,  # the model's max_seq_length, as in Unsloth"),
        ("512", "64", "max_length=64,"),
        ("512", "LONG", "max_length=min(LONG, 512),"),
        ("LONG", "LONG", "max_length=LONG,"),
        ("None", "4096", "max_length=4096,"),
        ("", "4096", "max_length=2048,  # the model's max_seq_length, as in Unsloth"),
    ],
)
def test_a_trainers_length_is_no_longer_than_its_models(model: str, trainer: str, written: str) -> None:
    of_model = f"max_seq_length={model}, " if model else ""
    text = script(f"'out', max_seq_length={trainer}").replace("max_seq_length=512, ", of_model, 1)
    found = check_becomes(text.replace("\nrows =", "\nimport sys\nLONG = len(sys.argv)\nrows =", 1), written)
    (row,) = (row for row in found.fields if row.source == "SFTConfig.max_seq_length")
    assert (row.fate == "changed") is ("as in Unsloth" in written or "min(" in written)


def test_a_length_that_may_be_reduced_out_of_sight_is_said() -> None:
    loads = f"def load(length):\n    return {LOAD.replace('512', 'length')}\n\nmodel, tokenizer = load(512)\n"
    text = script("'out', max_seq_length=4096").replace(f"model, tokenizer = {LOAD}", loads)
    found = check_becomes(text, "max_length=4096,", status="partial")
    assert any("The port cuts them at the trainer's" in finding.message for finding in found.findings)


APART = """from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


def load():
    length = 2048
    return FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=length, load_in_4bit=False)


def train(model, tokenizer):
    rows = load_dataset("x", split="train")
    SFTTrainer(model=model, processing_class=tokenizer, args=SFTConfig("out"), train_dataset=rows).train()


model, tokenizer = load()
train(model, tokenizer)
"""


def test_a_length_that_another_function_names_is_a_number_at_the_trainer() -> None:
    found = port(APART).after
    assert "max_length=2048,  # the model's max_seq_length, as in Unsloth" in found
    assert "max_length=length" not in found
