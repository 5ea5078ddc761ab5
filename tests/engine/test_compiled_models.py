"""`model = torch.compile(model)`: where the source ends by it, that is said."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
# pip install transformers=={release}
import sys
import torch
from datasets import load_from_disk
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from peft import LoraConfig, get_peft_model
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"{load})
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))
{before}
trainer = Trainer(
    model=model, args=TrainingArguments("out"{more}), train_dataset=load_from_disk("rows"), data_collator=collate
)
{behind}
trainer.train()
"""
COMPILED = "model = torch.compile(model)"
IF = f"if sys.platform != 'win32':\n    {COMPILED}"
IN_4_BITS = ", quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
KEPT = ", remove_unused_columns=False"


@pytest.mark.parametrize(
    ("release", "load", "before", "more", "behind", "expected"),
    [
        ("4.50.3", "", COMPILED, "", "", "takes all columns away"),
        ("4.50.3", "", IF, "", "", "where the model is compiled"),
        ("4.50.3", "", COMPILED, KEPT, "", ""),
        ("4.50.3", IN_4_BITS, COMPILED, KEPT, "", "makes no Trainer"),
        ("4.37.2", IN_4_BITS, COMPILED, "", "", "takes all columns away"),
        ("5.2.0", IN_4_BITS, COMPILED, KEPT, "", ""),
        ("4.50.3", "", "", "", COMPILED, ""),
        ("4.50.3", "", f"{COMPILED}\nmodel = other", "", "", ""),
    ],
)
def test_a_model_compiled_in_front_of_the_trainer(
    release: str, load: str, before: str, more: str, behind: str, expected: str
) -> None:
    text = SCRIPT.format(release=release, load=load, before=before, more=more, behind=behind)

    found = [each for each in port(text).findings if "torch.compile" in each.message]

    assert [each.severity for each in found] == ["warning"][: bool(expected)]
    assert expected in str(found)
