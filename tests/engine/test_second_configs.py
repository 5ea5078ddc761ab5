"""A trainer that is given a model with adapters and a peft_config, too: each release makes something else of both."""

import pytest

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import {kind}Config, {kind}Trainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
first = LoraConfig(r=8, target_modules=["q_proj"])
second = LoraConfig(r=16, target_modules=["q_proj", "v_proj"])
model = {adapted}
trainer = {kind}Trainer(
    model=model,
    args={kind}Config(output_dir="out"),
    train_dataset=load_dataset("a/b", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
    peft_config=second,{more}
)
trainer.train()
"""
FRESH, SAVED = "get_peft_model(model, {})", 'PeftModel.from_pretrained(model, "saved", is_trainable=True)'


BITS = "BitsAndBytesConfig"


def said(kind: str, release: str, adapted: str) -> list[str]:
    more = " reward_funcs=lambda prompts, **_: [0.0]," if kind == "GRPO" else ""
    found = port(SCRIPT.format(kind=kind, adapted=adapted, more=more), source_trl=release)
    return [each.message for each in found.findings if each.severity == "error"]


@pytest.mark.parametrize(
    ("kind", "release", "does"),
    [
        ("SFT", "0.19.1", ""),
        ("SFT", "0.20.0", "puts adapters into those that the model has"),
        ("SFT", "0.22.2", "merges the model's adapters"),
        ("SFT", "0.26.2", "merges the model's adapters"),
        ("DPO", "0.15.2", "merges the model's adapters"),
        ("ORPO", "0.19.1", "merges the model's adapters"),
        ("GRPO", "0.19.1", "puts adapters into those that the model has"),
        ("GRPO", "0.24.0", "merges the model's adapters"),
    ],
)
def test_what_a_release_makes_of_both(kind: str, release: str, does: str) -> None:
    for adapted in (FRESH.format("first"), SAVED):
        found = [message for message in said(kind, release, adapted) if "peft_config=second" in message]
        assert (len(found) == 1 and does in found[0]) if does else not found


def test_adapters_of_the_same_config_are_trained_by_every_release() -> None:
    assert not said("DPO", "0.15.2", FRESH.format("second"))


@pytest.mark.parametrize("certain", ["second", "LoraConfig(r=len(model.names))", "LoraConfig(r=8)"])
@pytest.mark.parametrize("held", ["", ", quantization_config=BitsAndBytesConfig(load_in_4bit=True)"])
def test_a_config_that_a_release_takes_no_notice_of_is_said_so_of_any_base(held: str, certain: str) -> None:
    text = SCRIPT.format(kind="SFT", adapted=FRESH.format("second"), more="")
    text = text.replace('0.6B")\nfirst', f'0.6B"{held})\nfirst').replace(
        "import AutoModel", "import BitsAndBytesConfig, AutoModel"
    )
    text = (
        text.replace('LoraConfig(r=16, target_modules=["q_proj", "v_proj"])', certain) if certain != "second" else text
    )
    found = port(text, source_trl="0.12.2")
    [row] = [row for row in found.fields if row.source == "SFTTrainer.peft_config"]
    reason = "the model has its adapters already, and TRL 0.12.2 takes no notice of it"
    assert (row.fate, row.target, row.reason) == ("dropped", "", reason)
    assert not [
        each for each in found.findings if "no line of the port" in each.message or "PEFT prepares" in each.message
    ]


def test_a_base_that_is_prepared_below_adapters_of_the_same_config_is_said_beside_that() -> None:
    text = SCRIPT.format(kind="DPO", adapted=FRESH.format("second"), more="").replace(
        "import AutoM", f"import {BITS}, AutoM"
    )
    found = port(
        text.replace('0.6B")\nfirst', f'0.6B", quantization_config={BITS}(load_in_4bit=True))\nfirst'),
        source_trl="0.15.2",
    )
    [row] = [row for row in found.fields if row.source == "DPOTrainer.peft_config"]
    assert row.fate == "dropped" and row.reason.startswith("the model has adapters of the same config, which nothing")
    assert "prepares a quantised base itself" in row.reason
