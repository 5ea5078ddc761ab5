"""Functions that give back something else on a machine without a GPU: the port's gives what the GPU run's gave."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

HAS_CUDA = torch.cuda.is_available()


def quantization():
    if {test}:
        return None
    return BitsAndBytesConfig(load_in_4bit=True)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=quantization())
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out", max_steps=5), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize("test", ["not HAS_CUDA", "not torch.cuda.is_available()", "HAS_CUDA is False"])
def test_what_a_function_gives_back_without_a_gpu_isnt_the_ports(test: str) -> None:
    found = port(SCRIPT.format(test=test))
    assert found.status == "ported", found.findings
    assert "is_available" not in found.after and "quantization=quantization()" in found.after
