"""Settings that a script gives its arguments behind the call that makes them: what the port's object refuses there is
an error before, and so is what comes behind the trainer, where the port has read them."""

from __future__ import annotations

import pytest

from .porting import HEAD, port

MADE = "args = SFTConfig('out', max_steps=3)\n"
TRAINER = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\n"
TRAIN = "trainer.train()\n"
ITEMS = "{'seed': 4, 'eval_delay': 2}"


def errors(text: str) -> list[str]:
    return [each.message for each in port(f"{HEAD}{text}").findings if each.severity == "error"]


@pytest.mark.parametrize(
    "line",
    [
        "args.eval_delay = 2",
        "setattr(args, 'eval_delay', 2)",
        "name = 'eval_delay'\nsetattr(args, name, 2)",
        f"for name, value in {ITEMS}.items():\n    setattr(args, name, value)",
        f"more = {ITEMS}\nfor k, v in more.items():\n    if hasattr(args, k):\n        setattr(args, k, v)",
    ],
)
def test_what_the_object_refuses_is_refused_before(line: str) -> None:
    """Such a port was called ported, and ended at that line."""
    [error] = errors(f"{MADE}{line}\n{TRAINER}{TRAIN}")
    assert error.startswith("SFTConfig.eval_delay=2: Tunix evaluates from the start")
    found = port(f"{HEAD}{MADE}{line}\n{TRAINER}{TRAIN}").fields
    assert [(row.value, row.fate) for row in found if row.source == "SFTConfig.eval_delay"] == [("2", "manual")]


@pytest.mark.parametrize(
    "line",
    [
        "args.eval_delay = 0",
        "args.own = 2",
        "args.eval_delay = int(input())",
        "setattr(args, 'max_steps', 5)",
        "if len(rows) > 9:\n    args.eval_delay = 2",
        "if len(rows) > 9:\n    setattr(args, 'eval_delay', 2)",
        "print(args.eval_delay)",
        f"for name in {ITEMS}:\n    setattr(args, name, 0)",
        f"for name, value in {ITEMS}.items():\n    setattr(args, name, 0)",
        f"for name, value in {ITEMS}.items():\n    if len(rows) > 9:\n        setattr(args, name, value)",
        f"if len(rows) > 9:\n    for name, value in {ITEMS}.items():\n        setattr(args, name, value)",
    ],
)
def test_what_it_takes_or_may_not_get_is_not(line: str) -> None:
    assert errors(f"{MADE}{line}\n{TRAINER}{TRAIN}") == []


@pytest.mark.parametrize("line", ["peft.use_dora = True", "setattr(peft, 'use_dora', True)"])
def test_nor_may_adapters_get_what_is_refused(line: str) -> None:
    trainer = TRAINER.replace("args=args", "args=args, peft_config=peft")
    [error] = errors(f"from peft import LoraConfig\npeft = LoraConfig(r=4)\n{line}\n{MADE}{trainer}{TRAIN}")
    assert error.startswith("LoraConfig.use_dora=True: ")


BEHIND = [
    "args.learning_rate = 5e-5",
    "args.learning_rate *= 2",
    "setattr(args, 'learning_rate', 5e-5)",
    "for k, v in load().items():\n    setattr(args, k, v)",
    "vars(args).update(learning_rate=5e-5)",
    "vars(args)['learning_rate'] = 5e-5",
    "args.__dict__['learning_rate'] = 5e-5",
    "args.__dict__.update(learning_rate=5e-5)",
    "def slower(given):\n    given.learning_rate = 5e-5\nslower(args)",
]


@pytest.mark.parametrize("line", BEHIND)
def test_what_is_set_behind_the_trainer(line: str) -> None:
    """The GPU run trained with it, the port with the first value, and nothing was said."""
    [error] = errors(f"{MADE}{TRAINER}{line}\n{TRAIN}")
    assert "behind the trainer, whose port has read args where it is made" in error
    assert errors(f"{MADE}{line}\n{TRAINER}{TRAIN}") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"{MADE}{TRAINER}{TRAIN}args.output_dir = 'other'\n", 0),
        (f"{MADE}{TRAINER}args.own = 2\nprint(args.learning_rate)\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}def slower(given):\n    print(given)\nslower(args)\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}def show(given, name, value):\n    print(name)\nshow(args, 'seed', 2)\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}print(trainer.args)\nargs.learning_rate = 5e-5\n{TRAIN}", 1),
        (f"{MADE}{TRAINER}args.accelerator_config.split_batches = True\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}print(args.__dict__)\nprint(vars(args)['seed'], vars(args).items())\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}def slower():\n    args.learning_rate = 5e-5\n{TRAIN}", 0),
        (f"{MADE}{TRAINER}args.learning_rate = 5e-5\n", 0),
        (f"{MADE}{TRAINER}for rate in (1e-4, 5e-5):\n    {TRAIN}    args.learning_rate = rate\n", 0),
        (f"{MADE}for rate in (1e-4, 5e-5):\n    args.learning_rate = rate\n    {TRAINER}    {TRAIN}", 0),
    ],
)
def test_where_it_is_set_decides(text: str, count: int) -> None:
    assert len([each for each in errors(text) if "behind the trainer" in each]) == count
