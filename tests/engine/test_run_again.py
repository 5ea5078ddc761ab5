"""Training loops that run again on the same optimizer, samplers, schedules, and parameters of an optimizer."""

from __future__ import annotations

import pytest

from .loop_scripts import SCRIPT
from .porting import port

STEP = "loss = model(**batch).loss"
AT = SCRIPT.index("{before}")
SETUP, LOOP = SCRIPT[:AT], SCRIPT[AT:].format(before="", lines=STEP)
TRAIN = "def train():\n" + "".join(f"    {line}\n" for line in LOOP.splitlines())


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("train()", None),
        ("if slow:\n    train()\nelse:\n    train()\n", None),
        ("notebook_launcher(train)", None),
        ("def main():\n    train()\n\n\nif __name__ == '__main__':\n    main()\n", None),
        ("train()\ntrain()", 21),
        ("for _ in range(3):\n    print()\n    train()\nrow = 1\ntrain()", 24),
        ("losses = [train() for epoch in range(3)]", 20),
        ("def epoch():\n    train()\n\n\nfor _ in range(3):\n    epoch()", 24),
        ("step = train\nstep()", 20),
        ("def run(f):\n    f()\n\n\nrun(train)", 24),
        ("if slow:\n    train()\ntrain()", 22),
    ],
)
def test_a_loop_that_runs_again_is_refused(call: str, line: int | None) -> None:
    found = port(f"{SETUP}{TRAIN}{call}\n")
    again = [finding.message for finding in found.findings if "it runs several times" in finding.message]
    assert (found.status, len(again)) == (("unsupported", 1) if line else ("ported", 0)), found.findings
    assert line is None or f"(line {line})" in again[0], again


def test_an_optimizer_of_each_run_goes_with_it() -> None:
    loader, optimizer = SETUP.splitlines()[-2:]
    made = SETUP.replace(f"{loader}\n{optimizer}\n", "")
    body = TRAIN.replace("train():", f"train():\n    {loader}\n    {optimizer}")
    found = port(f"{made}{body}for fold in range(2):\n    train()\n")
    assert not any("it runs several times" in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize(
    ("sampler", "sampling"),
    [
        ("RandomSampler(rows)", "random"),
        ("SequentialSampler(rows)", "sequential"),
        ("DistributedSampler(rows, shuffle=False)", "sequential"),
        ("DistributedSampler(rows) if world > 1 else RandomSampler(rows)", "random"),
        ("DistributedSampler(rows, shuffle=args.mix)", "args.mix"),
        ("None", "sequential"),
        ("WeightedRandomSampler(weights, 10)", ""),
        ("RandomSampler(rows, replacement=True)", ""),
        ("RandomSampler(rows, True)", ""),
        ("DistributedSampler(rows, 2, 0, False)", "sequential"),
        ("SequentialSampler(rows) if args.plain else RandomSampler(rows)", ""),
        ("own_sampler(rows)", ""),
        ("RandomSampler(rows) if SHUFFLE else None", "sequential"),
        ("None if SHUFFLE else RandomSampler(rows)", "random"),
        ("RandomSampler(rows) if args.mix else None", ""),
        ("SequentialSampler(rows) if args.mix else None", "sequential"),
        ("RandomSampler(rows)\nif SHUFFLE:\n    sampler = None", "random"),
        ("None\nif world > 1:\n    sampler = DistributedSampler(rows)", ""),
    ],
)
def test_a_sampler_says_the_order_of_the_rows(sampler: str, sampling: str) -> None:
    imports = "from torch.utils.data import *\nfrom torch.utils.data.distributed import DistributedSampler\n"
    loader = "loader = DataLoader(rows, batch_size=2"
    text = (
        imports + "SHUFFLE = False\n" + SETUP.replace(loader, f"sampler = {sampler}\n{loader}, sampler=sampler") + LOOP
    )
    found = port(text)
    assert found.status == ("ported" if sampling else "unsupported"), found.findings
    if sampling:
        assert ('sampling="sequential",' in found.after) is (sampling == "sequential"), found.after
        decided = 'sampling="random" if args.mix else "sequential",'
        assert (decided in found.after) is (sampling == "args.mix"), found.after
    else:
        assert any("its sampler gives the rows in an order of its own" in each.message for each in found.findings)


@pytest.mark.parametrize(
    ("shuffle", "sampling"), [("(sampler is None)", "random"), ("True", "random"), ("False", ""), ("args.mix", "")]
)
def test_where_there_may_be_no_sampler_shuffle_says_the_order(shuffle: str, sampling: str) -> None:
    imports = "from torch.utils.data import *\nfrom torch.utils.data.distributed import DistributedSampler\n"
    loader = "loader = DataLoader(rows, batch_size=2"
    sampler = "sampler = DistributedSampler(rows) if world > 1 else None"
    text = imports + SETUP.replace(loader, f"{sampler}\n{loader}, sampler=sampler, shuffle={shuffle}") + LOOP
    found = port(text)
    assert found.status == ("ported" if sampling else "unsupported"), found.findings
    assert 'sampling="sequential",' not in found.after and ('sampling="random" if' in found.after) is False


@pytest.mark.parametrize(
    ("params", "whose"),
    [
        ("model.parameters()", ""),
        ("model.module.parameters()", ""),
        ("[p for p in model.parameters() if p.requires_grad]", ""),
        ("model.lm_head.parameters()", "model.lm_head"),
        ("filter(lambda p: p.requires_grad, model.model.parameters())", "model.model"),
        ("base.parameters()", "base"),
    ],
)
def test_an_optimizer_of_other_parameters_is_refused(params: str, whose: str) -> None:
    base = 'base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B")\nrows ='
    found = port(SETUP.replace("model.parameters()", params).replace("rows =", base, 1) + LOOP)
    said = [each.message for each in found.findings if "the optimizer gets the parameters of" in each.message]
    assert len(said) == bool(whose) and all(f"`{whose}` alone" in each for each in said), found.findings


def test_an_optimizer_of_a_part_is_refused_by_whatever_name_the_loop_calls_the_model() -> None:
    body = "".join(f"    {line}" for line in LOOP.strip().splitlines(keepends=True)).replace("model(", "net(")
    loop = f"def train(net, optimizer, loader):\n{body}\n\ntrain(model, optimizer, loader)\n"
    for params, refused in (("model.lm_head.parameters()", True), ("model.parameters()", False)):
        found = port(SETUP.replace("model.parameters()", params) + loop)
        messages = [each.message for each in found.findings]
        assert any("the parameters of `model.lm_head` alone" in each for each in messages) is refused, messages


@pytest.mark.parametrize(
    ("steps", "optimizer", "said"),
    [
        ("optimizer.step()\n    scheduler.step()", "optimizer", ""),
        ("optimizer.step()\n    scheduler.step()", "other", "`scheduler` is the schedule of another optimizer"),
        ("scheduler.step()\n    optimizer.step()", "optimizer", "`scheduler`, a schedule, steps before the optimizer"),
    ],
)
def test_the_schedule_is_the_optimizers_and_steps_behind_it(steps: str, optimizer: str, said: str) -> None:
    made = f"scheduler = torch.optim.lr_scheduler.StepLR({optimizer}, 3)\n"
    other = "other = torch.optim.AdamW(model.parameters(), lr=1.0)\n"
    found = port(SETUP + other * (optimizer == "other") + made + LOOP.replace("optimizer.step()", steps))
    errors = [each.message for each in found.findings if each.severity == "error"]
    assert len(errors) == bool(said) and all(said in each for each in errors), errors


def test_an_optimizer_that_is_made_in_two_places_is_no_other_one() -> None:
    made = SETUP.splitlines()[-1]
    again = f"if fused:\n    {made}\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
    found = port(SETUP + again + LOOP.replace("optimizer.step()", "optimizer.step()\n    scheduler.step()"))
    [error] = [each.message for each in found.findings if each.severity == "error"]
    assert "`optimizer` is made in 2 places" in error


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ("loss = model(**batch).loss\n    mean_loss = loss / 4", True),
        ("n = len(batch['input_ids'])\n    loss = model(**batch).loss", False),
    ],
)
def test_the_loss_that_is_divided_is_the_one_that_is_trained(lines: str, refused: bool) -> None:
    found = port(SETUP + LOOP.replace(STEP, lines))
    assert found.status == ("unsupported" if refused else "ported"), found.findings
    said = [each.message for each in found.findings if "another loss than the one that is divided" in each.message]
    assert bool(said) is refused
