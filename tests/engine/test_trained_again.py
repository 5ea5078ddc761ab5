"""Trainers that train more than once."""

import re
from pathlib import Path

import pytest

from .porting import port, sft_script

SAID = "train() is called again here"


@pytest.mark.parametrize(
    ("after", "times"),
    [
        ("trainer.train()", 0),
        ('for epoch in range(3):\n    trainer.train()\n    trainer.save_model(f"out/{epoch}")', 1),
        ("while True:\n    trainer.train()\n    if done():\n        break", 1),
        ("trainer.train()\ntrainer.train()", 1),
        ("if first:\n    trainer.train()\ntrainer.train()", 1),
        ("try:\n    trainer.train()\nexcept ValueError:\n    trainer.train()", 0),
        ("try:\n    trainer.train()\nexcept ValueError:\n    pass\ntrainer.train()", 1),
        ("if first:\n    trainer.train()\nelse:\n    trainer.train()", 0),
        ("if first:\n    trainer.train()\n    raise SystemExit\ntrainer.train()", 0),
        ("while True:\n    try:\n        trainer.train()\n        break\n    except OSError:\n        pass", 0),
        # in functions: wherever they are called
        ("def one():\n    trainer.train()\n\nfor _ in range(3):\n    one()", 1),
        ("def one():\n    trainer.train()\n\none()", 0),
        ("def one():\n    trainer.train()\n\none()\none()", 1),
        ("def one():\n    trainer.train()\n\ndef all():\n    one()\n\nall()\nall()", 1),
        ("def one():\n    trainer.train()\n\nif first:\n    one()\nelse:\n    one()", 0),
        ("def one(n):\n    trainer.train()\n    if n:\n        one(n - 1)\n\none(3)", 1),
        ("def one():\n    if first:\n        trainer.train()\n    else:\n        trainer.train()\n\none()", 0),
        ("def one(which):\n    which.train()\n\none(trainer)", 0),
        ("def one(which):\n    which.train()\n\none(other)\none(trainer)", 0),
        ("def one(which):\n    which.train()\n\ndef two(it):\n    one(it)\n\ntwo(other)\ntwo(trainer)", 0),
    ],
)
def test_a_second_training_starts_anew(after: str, times: int) -> None:
    found = port(sft_script(after=after))
    assert len(re.findall(r"^ *rt\.start_anew\(\w+\)", found.after, re.MULTILINE)) == times
    assert found.status == "ported" and SAID not in str(found.recipe.findings)


def test_a_function_trains_again_what_has_trained() -> None:
    found = port(sft_script(after="def one(which):\n    which.train()\n\ntrainer.train()\none(trainer)"))
    assert "    rt.start_anew(which)" in found.after and found.after.count("start_anew") == 1


@pytest.mark.parametrize(
    "script",
    [
        sft_script(config=', fsdp="full_shard"', after="trainer.train()\ntrainer.train()"),
        sft_script(config=", deepspeed={'zero_optimization': {'stage': 2}}", after="trainer.train()\ntrainer.train()"),
        sft_script(after="trainer.train()\ntrainer.train(resume_from_checkpoint=True)"),
    ],
)
def test_a_second_training_that_cannot_start_anew_is_an_error(script: str) -> None:
    found = port(script)
    said = [finding for finding in found.recipe.findings if SAID in finding.message]
    assert len(said) == 1 and found.status == "partial" and "start_anew" not in found.after


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("args.num_train_epochs = 2", 1),
        ("args.max_steps += 2", 1),
        ("setattr(args, 'max_steps', 2)", 1),
        ("args.learning_rate = 1e-5", 0),
        ("setattr(args, 'learning_rate', 1e-5)", 0),
        ("print(args, 'max_steps', 2)", 0),
    ],
)
def test_settings_of_a_later_training_are_said(setting: str, said: int) -> None:
    script = sft_script(
        between="args = SFTConfig('out', max_steps=5)", after=f"trainer.train()\n{setting}\ntrainer.train()"
    )
    script = re.sub(r"args=SFTConfig\(.*\),\n", "args=args,\n", script)
    found = port(script)
    assert str(found.recipe.findings).count("is changed behind the trainer") == said, found.after
    assert (found.status == "partial") == bool(said)
    before = script.replace("trainer = ", "args.max_steps = 4\ntrainer = ").replace(f"\n{setting}\n", "\n")
    assert "is changed behind the trainer" not in str(port(before).recipe.findings)


def test_a_trainer_made_in_the_loop_trains_each_time() -> None:
    script = sft_script(after="")
    head, made = script[: script.index("trainer = ")], script[script.index("trainer = ") :]
    body = "".join(f"    {line}" for line in made.strip().splitlines(keepends=True))
    found = port(f"{head}for seed in range(3):\n{body}\n    trainer.train()\n")
    assert SAID not in str(found.recipe.findings) and "start_anew" not in found.after


@pytest.mark.parametrize(
    ("round_", "times"),
    [
        ("    trainer = build()\n    trainer.train()\n", 0),
        ("    trainer = build()\n    print(seed)\n    if seed:\n        trainer.train()\n", 0),
        ("    other = build()\n    trainer.train()\n", 1),
        ("    if seed:\n        trainer = build()\n    trainer.train()\n", 1),
        ("    trainer.train()\n    trainer = build()\n", 1),
    ],
)
def test_a_trainer_that_a_function_makes_in_the_loop_trains_each_time(round_: str, times: int) -> None:
    script = sft_script(after="")
    head, made = script[: script.index("model = ")], script[script.index("model = ") :].strip()
    body = "".join(f"    {line}" for line in made.splitlines(keepends=True))
    build = f"{head}def build():\n{body}\n    return trainer\n\ntrainer = build()\n"
    assert port(f"{build}for seed in range(3):\n{round_}").after.count("start_anew") == times


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED", "MULTI_GPU"])
def test_nor_can_one_that_is_launched_so(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "launch.yaml"
    file.write_text(f"distributed_type: {kind}\nnum_processes: 2\n")
    found = port(sft_script(after="trainer.train()\ntrainer.train()"), launch_config=file)
    assert (SAID in str(found.recipe.findings)) is (kind != "MULTI_GPU")


def test_what_else_is_done_with_the_trainer_is_no_training() -> None:
    after = "trainer.train()\ntrainer.save_model('a')\ntrainer.save_model('b')"
    found = port(sft_script(config=', fsdp="full_shard"', after=after))
    assert found.status == "ported" and SAID not in str(found.recipe.findings)
