"""Types looked up by their name: `getattr(torch, name)`."""

import pytest

from .porting import port

LOADED = """import argparse
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16")
args = parser.parse_args()
{before}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", {given})
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("before", "given", "written"),
    [
        ("", "torch_dtype=getattr(torch, args.dtype)", "dtype=args.dtype"),
        ("dtype = getattr(torch, args.dtype)", "dtype=dtype", "dtype = getattr(jnp, args.dtype)"),
        ("kwargs = dict(dtype=getattr(torch, args.dtype))", "**kwargs", "dtype=getattr(jnp, args.dtype)"),
    ],
)
def test_the_model_is_loaded_in_it_without_torch(before: str, given: str, written: str) -> None:
    found = port(LOADED.format(before=before, given=given))
    assert found.status == "ported"
    assert written in found.after and "torch" not in found.after
    assert ("import jax.numpy as jnp" in found.after) == ("jnp" in written)


def test_a_type_for_torch_stays_torch_s() -> None:
    before = "import mine\nmine.start(getattr(torch, args.dtype))\nstep = getattr(torch, 'compile')"
    found = port(LOADED.format(before=before, given="dtype='bfloat16'"))
    assert "mine.start(getattr(torch, args.dtype))" in found.after and "getattr(torch, 'compile')" in found.after
