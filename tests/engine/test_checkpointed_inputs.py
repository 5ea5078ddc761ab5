"""Adapters under reentrant checkpointing whose inputs ask for no gradients: the GPU run ends, and it is said."""

import pytest

from .porting import port

SCRIPT = """\
# pip install transformers==4.51.3
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
model = get_peft_model(model, LoraConfig(r=8, task_type="CAUSAL_LM"))
rows = load_dataset("some/rows", split="train").map(lambda row: tokenizer(row["text"]))
args = TrainingArguments("out", gradient_checkpointing=True)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
trainer = Trainer(model, args, data_collator=collator, train_dataset=rows)
trainer.train()
"""
SFT = """\
# pip install trl=={release} transformers==4.53.0
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = SFTConfig("out", gradient_checkpointing=True)
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer({model}, args=args, train_dataset=rows{more})
trainer.train()
"""


def _said(text: str) -> list[str]:
    return [found.message for found in port(text).findings if "no input asks for gradients" in found.message]


def test_the_end_of_the_source_is_said() -> None:
    (message,) = _said(SCRIPT)
    assert "transformers 4.51.3 checkpoints reentrantly" in message and "ends at its first step (element 0" in message
    (message,) = _said(SCRIPT.replace("checkpointing=True", "checkpointing=input() == 'y'"))
    assert "ends at its first step where gradient_checkpointing is on (" in message
    quantised = "if input():\n    model = prepare_model_for_kbit_training(model)\nmodel = get_peft_model"
    (message,) = _said(SCRIPT.replace("model = get_peft_model", quantised))
    assert "where prepare_model_for_kbit_training isn't called" in message
    counted = "print(sum(p.numel() for p in model.parameters() if p.requires_grad))\nargs = Training"
    assert len(_said(SCRIPT.replace("args = Training", counted))) == 1
    built = "from project.settings import lora\n\nif lora() is not None:\n    model = get_peft_model(model, lora())"
    (message,) = _said(SCRIPT.replace('model = get_peft_model(model, LoraConfig(r=8, task_type="CAUSAL_LM"))', built))
    assert "ends at its first step (element 0" in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("transformers==4.51.3", "transformers==5.2.0"),
        ("checkpointing=True", "checkpointing=False"),
        (", gradient_checkpointing=True", ""),
        ("model = get_peft_model", "model.enable_input_require_grads()\nmodel = get_peft_model"),
        ("model = get_peft_model", "model = prepare_model_for_kbit_training(model)\nmodel = get_peft_model"),
        ("model = get_peft_model", "model.gradient_checkpointing_enable()\nmodel = get_peft_model"),
        ("model = get_peft_model", "model.get_input_embeddings().weight.requires_grad = True\nmodel = get_peft_model"),
        ("checkpointing=True", 'checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}'),
        ('r=8, task_type="CAUSAL_LM"', 'r=8, modules_to_save=["embed_tokens"]'),
        ('model = get_peft_model(model, LoraConfig(r=8, task_type="CAUSAL_LM"))\n', ""),
    ],
)
def test_what_trains_there_too(old: str, new: str) -> None:
    assert old in SCRIPT and _said(SCRIPT.replace(old, new)) == []


def test_sft_trainers_of_their_release() -> None:
    own, trls = ("get_peft_model(model, LoraConfig(r=8))", ""), ("model", ", peft_config=LoraConfig(r=8)")
    for release, given, says in (("0.19.1", own, True), ("0.20.0", own, False), ("0.19.1", trls, False)):
        assert bool(_said(SFT.format(release=release, model=given[0], more=given[1]))) == says
