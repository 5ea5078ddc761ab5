"""Unsloth's get_peft_model seeds Python and NumPy, and what the script draws below is what the GPU run drew."""

from __future__ import annotations

import pytest

from .porting import port

DRAWN = """\
import random
import numpy as np
from sklearn.model_selection import train_test_split
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer
{above}
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
{adapted}
{below}
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
ADAPTED = "model = FastLanguageModel.get_peft_model(model, r=8)"
SEEDED = "\nset_seed(3407)  # Unsloth's get_peft_model seeds what {} draws by\n"


@pytest.mark.parametrize(
    ("below", "what"),
    [
        ("rows = rows.train_test_split(test_size=0.1)['train']", "train_test_split"),
        ("rows = rows.train_test_split(test_size=0.1, shuffle=True)['train']", "train_test_split"),
        ("rows = train_test_split(rows, shuffle=True)[0]", "train_test_split"),
        ("rows = rows.shuffle()", "shuffle"),
        ("rows = random.sample(rows, 9)", "sample"),
        ("rows = frame.sample(9)", "sample"),
        ("rows = rows[np.random.permutation(9)]", "permutation"),
        ("def add(row):\n    return {'text': random.choice(row['texts'])}\nrows = rows.map(add)", "choice"),
        ("rows = rows.train_test_split(test_size=0.1, seed=1)['train']", ""),
        ("rows = rows.train_test_split(test_size=0.1, shuffle=False)['train']", ""),
        ("rows = train_test_split(rows, shuffle=False)[0]", ""),
        ("rows = train_test_split(rows, random_state=1)[0]", ""),
        ("rows = rows.shuffle(3)", ""),
        ("rows = rows.shuffle(**given)", ""),
        ("rows = rows[np.random.default_rng(1).permutation(9)]", ""),
        ("rows = random.Random(1).sample(rows, 9)", ""),
    ],
)
def test_what_draws_behind_the_adapters_is_seeded(below: str, what: str) -> None:
    after = port(DRAWN.format(above="", adapted=ADAPTED, below=below)).after
    assert ("import AutoTokenizer, set_seed" in after) is bool(what) is ("set_seed(" in after), after
    assert (SEEDED.format(what) if what else below) in after, after
    drawn = DRAWN.format(above=below, adapted=ADAPTED, below="")
    assert "set_seed(" not in port(drawn).after  # drawn before Unsloth seeds


def test_the_scripts_own_random_state_and_its_own_function_of_that_name() -> None:
    own = "def set_seed(seed):\n    print(seed)\n\ndef adapted(model):\n"
    own += "    return FastLanguageModel.get_peft_model(model, r=8, random_state=SEED)\nSEED = 5"
    after = port(DRAWN.format(above=own, adapted="model = adapted(model)", below="rows = rows.shuffle()")).after
    assert "\n    transformers.set_seed(SEED)  # Unsloth's" in after and "    return rt.apply_lora(" in after, after
    assert "import transformers\n" in after
    above = f"{own}\nrows = rows.shuffle()"
    assert "set_seed(SEED)" not in port(DRAWN.format(above=above, adapted="model = adapted(model)", below="")).after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(model, r=8)", "(model, r=8, random_state=None)"),  # which seeds nothing
        ("FastLanguageModel.get_peft_model(model, r=8)", "get_peft_model(model, LoraConfig(r=8))"),
    ],
)
def test_what_seeds_nothing(old: str, new: str) -> None:
    text = DRAWN.format(
        above="from peft import LoraConfig, get_peft_model", adapted=ADAPTED, below="rows = rows.shuffle()"
    )
    assert "set_seed(3407)" in port(text).after
    assert "set_seed(" not in port(text.replace(old, new)).after


def test_what_shares_its_line_is_said_to_be_unseeded() -> None:
    text = DRAWN.format(above="", adapted=f"{ADAPTED}; print(model)", below="rows = rows.shuffle()")
    found = port(text)
    message = "seeds what shuffle draws by (3407), and the port doesn't"
    [said] = [each for each in found.findings if message in each.message]
    assert said.severity == "warning" and said.fix == "Call transformers.set_seed(3407) there."
    assert "set_seed(" not in found.after
