"""What only shows the model: loops that print its parameters go, others stay a TODO; and its name."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig("out"),
    train_dataset=load_dataset("some/rows", split="train"),
    peft_config=LoraConfig(r=8),
)
{loop}
trainer.train()
"""
SHOWN = [
    "for name, param in model.named_parameters():\n    if param.requires_grad:\n        print(name, param.shape)",
    'for n, p in model.named_parameters():\n    if "lora" in n:\n        print(f"{n}: {p.dtype}")',
    "for name, param in trainer.model.named_parameters():\n    if param.dtype == torch.bfloat16:\n"
    '        print(f"found: {name}")\n        break\nelse:\n    print("none")',
    "for name, layer in model.named_modules():\n    print(name, type(layer))",
    "for i, (name, p) in enumerate(list(model.named_parameters())[:5]):\n    print(i, name, tuple(p.shape))",
    "shown = 0\nfor name, p in model.named_parameters():\n    print(name)\n    shown += 1\n"
    "    if shown > 5:\n        break",
]
KEPT = [
    "for name, p in model.named_parameters():\n    print(name)\n    p.requires_grad = False",
    "for name, p in model.named_parameters():\n    print(name)\n    names.append(name)",
    "seen = 0\nfor name, p in model.named_parameters():\n    print(name)\n    seen += 1\nprint(seen)",
    "for name, p in model.named_parameters():\n    print(name)\nprint(name)",
    "for name, p in model.named_parameters():\n    print(name, check(p))",
    "for name, p in model.named_parameters():\n    print(name)\n    assert p.requires_grad",
]


@pytest.mark.parametrize("loop", SHOWN)
def test_a_loop_that_shows_goes(loop: str) -> None:
    found = port(SCRIPT.format(loop=loop))
    assert found.status == "ported"
    assert "named_" not in found.after
    assert [each.line for each in found.findings if each.message.startswith("This loop only prints")]


@pytest.mark.parametrize("loop", KEPT)
def test_a_loop_that_does_more_stays(loop: str) -> None:
    found = port(SCRIPT.format(loop=loop))
    assert found.status == "partial"
    assert "in model.named_parameters():" in found.after


def test_other_loops_may_have_its_names() -> None:
    loop = f"{SHOWN[0]}\nfor name, param in {{}}.items():\n    print(name, param)"
    assert port(SCRIPT.format(loop=loop)).status == "ported"


@pytest.mark.parametrize("name", ["name_or_path", "config.name_or_path", "config._name_or_path"])
def test_a_model_says_what_it_was_loaded_by(name: str) -> None:
    found = port(SCRIPT.format(loop=f"print(f'Model: {{model.{name}}}')"))
    assert found.status == "ported"
    assert "print(f'Model: {model.porter.id}')" in found.after
