"""Adapters that TRL 0.20 to 0.23.0 freeze over a quantised base: the GPU run trains nothing, and it is said."""

import pytest

from .porting import port

SCRIPT = """\
# pip install trl==0.22.2 transformers==4.56.2
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantised = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=quantised)
model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8, task_type="CAUSAL_LM"))
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows)
trainer.train()
"""


def _said(text: str) -> list[str]:
    return [found.message for found in port(text).findings if "freezes the adapters" in found.message]


def test_a_run_that_trains_nothing_is_said() -> None:
    (message,) = _said(SCRIPT)
    assert message.startswith("TRL 0.22.2 freezes the adapters that a model has already, as it prepares")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trl==0.22.2", "trl==0.23.1"),
        ("trl==0.22.2 transformers==4.56.2", "trl==0.19.1 transformers==4.53.0"),
        (", quantization_config=quantised", ""),
        ("model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8, task_type='CAUSAL_LM'))", ""),
    ],
)
def test_what_trains_there_too(old: str, new: str) -> None:
    text = SCRIPT.replace('"CAUSAL_LM"', "'CAUSAL_LM'")
    assert old in text and not _said(text.replace(old, new))
