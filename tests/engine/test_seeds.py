"""Adapters are drawn by the seed that the script has given torch where it puts them in."""

from __future__ import annotations

import re

import pytest

from .porting import port

HEAD = """\
import argparse
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, set_seed
from trl import SFTConfig, SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()
"""
MODEL = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")\n'
PUT_IN = "model = get_peft_model(model, LoraConfig(task_type='CAUSAL_LM'))\n"
TRAINER = 'trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=load_dataset("x/y", split="train"){more})\n'
WHOLE = TRAINER.format(more="") + "trainer.train()\n"
BY_TRAINER = TRAINER.format(more=", peft_config=LoraConfig(task_type='CAUSAL_LM')") + "trainer.train()\n"
OWN = "def seed_all(value=1):\n    torch.manual_seed(value)\n"


def drawn(script: str) -> str:
    found = re.search(r"rt\.apply_\w+\(.*?seed=([^,)]+)", port(HEAD + script).after, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("script", "seed"),
    [
        ("torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "args.seed"),
        ("set_seed(3)\n" + MODEL + PUT_IN + WHOLE, "3"),
        (MODEL + "torch.manual_seed(args.seed)\n" + BY_TRAINER, "args.seed"),
        (OWN + "seed_all(args.seed)\n" + MODEL + PUT_IN + WHOLE, "args.seed"),
        (OWN + "seed_all()\n" + MODEL + PUT_IN + WHOLE, "1"),
        ("set_seed(3)\ntorch.manual_seed(4)\n" + MODEL + PUT_IN + WHOLE, "4"),
        # behind it, under a test, in another function: the run's
        (MODEL + PUT_IN + "torch.manual_seed(args.seed)\n" + WHOLE, "42"),
        ("if args.seed:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "42"),
        ("def other():\n    torch.manual_seed(5)\n" + MODEL + PUT_IN + WHOLE, "42"),
        # a name that means something else by then
        ("torch.manual_seed(args.seed)\nargs = None\n" + MODEL + PUT_IN + WHOLE, "42"),
        (MODEL + "torch.manual_seed(args.seed)\n" + PUT_IN + "args = None\n" + WHOLE, "42"),
    ],
)
def test_the_last_seed_above_draws_them(script: str, seed: str) -> None:
    assert drawn(script) == seed


def test_the_seed_of_the_data_order_stays_the_configs() -> None:
    after = port(HEAD + "torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE).after
    assert "    seed=42,  # the GPU run's order\n" in after


PACKED = """import random
from transformers import set_seed
from trl import SFTConfig, SFTTrainer

SEEDED
DRAWN
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", packing=True), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("seeded", "drawn", "release", "given"),
    [
        ("set_seed(42)", "print(random.sample(rows, 2))", "0.12.0", True),
        ("random.seed(1)", "random.shuffle(rows)", "0.12.0", True),
        ("set_seed(42)", "", "0.12.0", False),
        ("", "print(random.sample(rows, 2))", "0.12.0", False),  # another order in each GPU run
        ("set_seed(42)", "print(random.sample(rows, 2))", "0.16.0", False),  # which shuffles nothing
    ],
)
def test_packed_rows_are_shuffled_by_what_the_script_draws_from(
    seeded: str, drawn: str, release: str, given: bool
) -> None:
    text = PACKED.replace("SEEDED", seeded).replace("DRAWN", drawn)
    assert ("draws=random," in port(text, source_trl=release).after) is given
