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


IN_FUNCTION = (
    "def make(config):\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    "    return get_peft_model(model, LoraConfig(task_type='CAUSAL_LM'))\n"
)
INDENTED = "    " + (MODEL + PUT_IN + WHOLE).rstrip().replace("\n", "\n    ") + "\n"
DEEPER = "".join(f"    {line}\n" for line in INDENTED.splitlines())
AGAIN = "\n    seed = 5"
MAIN = f"def main():\n{INDENTED}"
CLASS = (
    "class Run:\n    def __init__(self, args):\n        self.args = args\n        {init}\n    def seed(self):\n"
    "        torch.manual_seed(self.args.seed)\n    def go(self):\n        {go}\n    "
    + INDENTED.rstrip().replace("\n", "\n    ")
    + "\nRun(args).go()\n"
)


def drawn(script: str, **options: object) -> str:
    found = re.search(r"rt\.apply_\w+\(.*?seed=([^,)]+)", port(HEAD + script, **options).after, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("script", "seed"),
    [
        ("torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "args.seed"),
        ("set_seed(3)\n" + MODEL + PUT_IN + WHOLE, "3"),
        (OWN + "seed_all(args.seed)\n" + MODEL + PUT_IN + WHOLE, "args.seed"),
        (OWN + "seed_all()\n" + MODEL + PUT_IN + WHOLE, "1"),
        ("set_seed(3)\ntorch.manual_seed(4)\n" + MODEL + PUT_IN + WHOLE, "4"),
        ("def seed_all():\n    torch.manual_seed(13)\nseed_all()\n" + MODEL + PUT_IN + WHOLE, "13"),
        # in front of the call of the function, handed on to it, in one that is called there
        (f"{MAIN}if __name__ == '__main__':\n    set_seed(3)\n    main()\n", "3"),
        (f"{IN_FUNCTION}set_seed(args.seed)\nmodel = make(args)\n{WHOLE}", "args.seed"),
        (
            f"{IN_FUNCTION}def main(options):\n    set_seed(options.seed)\n    model = make(options)\n"
            f"    {WHOLE.rstrip().replace(chr(10), chr(10) + '    ')}\nmain(args)\n",
            "config.seed",
        ),
        (
            "def seed_all(value):\n    set_seed(value)\ndef setup(options):\n    seed_all(options.seed)\n"
            f"{MAIN}setup(args)\nmain()\n",
            "args.seed",
        ),
        (CLASS.format(init="set_seed(args.seed)", go="pass"), "self.args.seed"),
        (CLASS.format(init="pass", go="self.seed()"), "self.args.seed"),
        # only where it is given
        (
            "if args.seed is not None:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE,
            "args.seed if args.seed is not None else 42",
        ),
        ("if args.seed:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "args.seed or 42"),
        (
            "def seed_all(value):\n    if value is not None:\n        set_seed(value)\nseed_all(args.seed)\n"
            + MODEL
            + PUT_IN
            + WHOLE,
            "args.seed if args.seed is not None else 42",
        ),
        # behind it, under a test, in another function: the run's
        (MODEL + PUT_IN + "torch.manual_seed(args.seed)\n" + WHOLE, "42"),
        ("if args.seed > 3:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "42"),
        ("def other():\n    torch.manual_seed(5)\n" + MODEL + PUT_IN + WHOLE, "42"),
        # a name that means something else by then
        ("torch.manual_seed(args.seed)\nargs = None\n" + MODEL + PUT_IN + WHOLE, "42"),
        (MODEL + "torch.manual_seed(args.seed)\n" + PUT_IN + "args = None\n" + WHOLE, "42"),
        (CLASS.format(init="set_seed(args.seed)\n        self.args = None", go="pass"), "42"),
        ("torch.manual_seed(True)\n" + MODEL + PUT_IN + WHOLE, "42"),  # no number
        # behind them in the constructor, where a test isn't met, in a parameter that is bound again
        (f"class Run:\n    def __init__(self):\n{DEEPER}        set_seed(args.seed)\nRun()\n", "42"),
        ("if args.seed:\n    pass\nelse:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, "42"),
        (
            f"{IN_FUNCTION.replace('config):', 'seed):' + AGAIN)}set_seed(args.seed)\nmodel = make(args.seed)\n{WHOLE}",
            "args.seed",
        ),
    ],
)
def test_the_last_seed_above_draws_them(script: str, seed: str) -> None:
    assert drawn(script) == seed


@pytest.mark.parametrize(
    ("release", "seed"), [("0.12.0", "args.seed"), ("1.14.2", "args.seed"), ("1.15.0", "42"), ("1.16.0", "42")]
)
def test_adapters_of_the_trainer_are_drawn_by_its_own_seed_where_it_gives_torch_that(release: str, seed: str) -> None:
    assert drawn(MODEL + "torch.manual_seed(args.seed)\n" + BY_TRAINER, source_trl=release) == seed
    assert drawn("torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE, source_trl=release) == "args.seed"


@pytest.mark.parametrize(
    "script",
    [
        "if args.seed > 3:\n    torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE,
        IN_FUNCTION.replace("config", "*_")
        + "def main(options):\n    set_seed(options.seed)\n    model = make()\n"
        + f"    {WHOLE.rstrip().replace(chr(10), chr(10) + '    ')}\nmain(args)\n",
    ],
)
def test_a_seed_that_cant_be_written_there_is_said(script: str) -> None:
    said = [finding.message for finding in port(HEAD + script).findings if "The adapters start from" in finding.message]
    assert len(said) == 1 and "The adapters start from seed 42: that of " in said[0]


def test_a_loop_shuffles_by_the_seed_that_a_function_gives() -> None:
    own = "def seed_all(value):\n    torch.manual_seed(value)\n"
    after = port(LOOP.replace("SEEDED", f"{own}seed_all(7)")).after
    assert re.search(r"seed=7,", after), after


def test_the_seed_of_the_data_order_stays_the_configs() -> None:
    after = port(HEAD + "torch.manual_seed(args.seed)\n" + MODEL + PUT_IN + WHOLE).after
    assert "    seed=42,  # the GPU run's order\n" in after


LOOP = """import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator
SEEDED
loader = DataLoader(load_dataset("x/y", split="train"), 2, shuffle=True, collate_fn=default_data_collator)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
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
