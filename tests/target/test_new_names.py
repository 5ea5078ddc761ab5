"""The names of what the port makes itself: the field's own where they are free."""

from __future__ import annotations

import pytest

from tests.engine.porting import port

SCRIPT = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

{above}


def train():
    rows = load_dataset("some/rows", split="train")
    args = SFTConfig("out", max_steps=10, warmup_ratio={ratio})
    trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
    trainer.train()
    save(trainer)


def save(trainer):
    {saves}
    trainer.save_model("there")


train()
"""
OWN = "def longest(rows, tokenizer):\n    return max(len(tokenizer(row)) for row in rows)"


@pytest.mark.parametrize(
    ("above", "saves", "name"),
    [
        ("", "pass", "tokenizer"),
        (OWN, "pass", "tokenizer"),  # another function's
        (OWN, 'tokenizer = load("x")', "trainer_tokenizer"),  # of one that gets the trainer
        ('tokenizer = load("x")', "pass", "trainer_tokenizer"),
        (f'tokenizer = load("x")\ntrainer_tokenizer = tokenizer\n{OWN}', "pass", "trainer_tokenizer_2"),
    ],
)
def test_a_trainers_own_tokenizer_has_the_plain_name_where_it_is_free(above: str, saves: str, name: str) -> None:
    after = port(SCRIPT.format(above=above, saves=saves, ratio=0)).after
    assert f"    {name} = AutoTokenizer.from_pretrained(" in after
    assert f"trainer.processing_class = {name}\n" in after
    assert 'rt.save_model(trainer.model, "there", tokenizer=trainer.processing_class)' in after


@pytest.mark.parametrize(("above", "name"), [("", "warmup_steps"), ("warmup_steps = 3", "lr_warmup_steps")])
def test_steps_of_the_warmup_have_a_name_of_their_own(above: str, name: str) -> None:
    script = SCRIPT.format(above=above, saves="pass", ratio=0.1).replace("max_steps=10", "num_train_epochs=1")
    assert f"    {name} = math.ceil(0.1 * batches.steps)" in port(script).after
