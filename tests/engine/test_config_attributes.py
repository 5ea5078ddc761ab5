"""Settings that Unsloth's get_peft_model takes from a LoraConfig of the file."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig, PeftConfig
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

config = LoraConfig(r=4, target_modules=["q_proj"], {held})
{between}
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=512, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(
    model, r=config.r, target_modules=config.target_modules, lora_alpha=config.lora_alpha, bias=config.bias
)
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


def errors(held: str, between: str = "") -> list[str]:
    found = port(SCRIPT.format(held=held, between=between))
    return [finding.message for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize("between", ["", "print(config)", "print(config.bias)"])
def test_what_the_config_was_given_is_what_it_holds(between: str) -> None:
    assert errors('lora_alpha=8, bias="none"', between) == []


@pytest.mark.parametrize(
    ("held", "between"),
    [
        ('bias="all"', ""),
        ('bias="none"', 'config.bias = "all"'),
        ('bias="none"', "import sys\nif sys.argv[1:]:\n    config = PeftConfig.from_pretrained(sys.argv[1])"),
        ('bias="none"', "def change(it): it.bias = 'all'\nchange(config)"),
        ('bias="none"', "other = config"),
        ('bias="none"', 'setattr(config, "bias", "all")'),
    ],
)
def test_what_may_be_changed_or_trains_biases_is_left_to_a_person(held: str, between: str) -> None:
    assert [message for message in errors(held, between) if ".bias=config.bias" in message]
