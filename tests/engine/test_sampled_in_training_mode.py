"""Samples right behind the training, with the dropout of adapters on the GPU and without in the port."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

IMPORTS = "from peft import LoraConfig, get_peft_model"
ADAPTED = """\
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"], lora_dropout={dropout}))"""
SAMPLE = "print(model.generate(**tokenizer('a', return_tensors='pt')))"


@pytest.mark.parametrize(
    ("dropout", "after", "config", "says"),
    [
        ("0.1", SAMPLE, "", True),
        ("0.1", f"trainer.save_model('out')\n{SAMPLE}\n{SAMPLE}", "", True),
        ("0.0", SAMPLE, "", False),
        ("0.1", f"model.eval()\n{SAMPLE}", "", False),
        ("0.1", f"trainer.evaluate()\n{SAMPLE}", "", False),
        ("0.1", f"model = model.merge_and_unload()\n{SAMPLE}", "", False),
        ("0.1", SAMPLE, ", eval_strategy='epoch'", False),
    ],
)
def test_dropout_while_sampling_is_said_once(dropout: str, after: str, config: str, says: bool) -> None:
    data = ', eval_dataset=load_dataset("some/rows", split="test")' if config else ""
    text = sft_script(
        imports=IMPORTS,
        between=ADAPTED.format(dropout=dropout),
        config=config,
        trainer=data,
        after=f"trainer.train()\n{after}",
    )
    found = port(text)
    assert sum("in training mode" in finding.message for finding in found.findings) == says, found.findings
    before = sft_script(imports=IMPORTS, between=f"{ADAPTED.format(dropout=dropout)}\n{SAMPLE}")
    assert not any("in training mode" in finding.message for finding in port(before).findings)
