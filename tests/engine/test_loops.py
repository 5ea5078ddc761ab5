"""Training loops written by hand: what is read from the standard one, and which line makes another one."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from porter.engine.loops.training_loops import read_loop, training_loops

from .standard_loops import HEAD, STANDARD, WHOLE, parsed, read, said

BASE = {"loader": "loader", "epochs": "3", "model": "model", "optimizer": "optimizer", "inputs": WHOLE}


def test_the_shortest_loop() -> None:
    assert said(*read(STANDARD)) == BASE


@pytest.mark.parametrize(
    "body, more",
    [
        (STANDARD.replace("range(3)", "tqdm(range(EPOCHS), desc='epochs')"), {"epochs": "EPOCHS"}),
        (STANDARD.replace("range(3)", "range(1, EPOCHS + 1)"), {"epochs": "EPOCHS"}),
        (STANDARD.replace("enumerate(loader)", "enumerate(tqdm(loader, disable=True))"), {}),
        (STANDARD.replace("step, batch in enumerate(loader)", "batch in tqdm(loader)"), {}),
        (
            STANDARD.replace("        loss = model(**batch).loss\n        loss.backward()\n", """\
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            outputs = model(**batch)
            loss = outputs[0]
        scaler.scale(loss / 8).backward()
        if (step + 1) % 8 == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=args.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
""").replace("        optimizer.step()\n        optimizer.zero_grad()\n", ""),
            {"accumulation": "8", "clip": "args.clip"},
        ),
        (
            STANDARD.replace("loss = model(**batch).loss", """\
ids = batch["input_ids"].to(device)
        mask = batch["attention_mask"].to(device)
        out = model(input_ids=ids, attention_mask=mask, labels=ids)
        loss = out.loss"""),
            {"inputs": {**WHOLE, "labels": "input_ids"}},
        ),
        (
            STANDARD.replace("model(**batch)", "model(batch['input_ids'], labels=batch['labels'])"),
            {"inputs": {"input_ids": "input_ids", "labels": "labels"}},
        ),
        (
            "done = 0\n" + STANDARD.replace("        optimizer.zero_grad()\n", """\
        scheduler.step()
        optimizer.zero_grad()
        done += 1
        progress.update(1)
        wandb.log({"loss": loss.item(), "lr": scheduler.get_last_lr()[0]})
        if done >= args.max_steps:
            break
"""),
            {"scheduler": "scheduler", "max_steps": "args.max_steps"},
        ),
    ],
)  # fmt: skip
def test_how_people_write_it(body: str, more: dict[str, Any]) -> None:
    assert said(*read(body)) == {**BASE, **more}


def test_accelerates_accumulation() -> None:
    module, loop = read("""
        for epoch in range(3):
            for step, batch in enumerate(loader):
                with accelerator.accumulate(model):
                    outputs = model(**batch)
                    loss = outputs.loss
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
    """)
    assert loop.accumulates and said(module, loop) == {**BASE, "clip": "1.0", "scheduler": "scheduler"}


def test_what_the_loop_does_besides_is_kept_in_mind() -> None:
    _, loop = read(
        STANDARD
        + """\
        total += loss.item()
        if step % 100 == 0:
            model.save_pretrained(f"step-{step}")
    model.eval()
    with torch.no_grad():
        for batch in eval_loader:
            total += model(**batch).loss.item()
    print(total)
"""
    )
    assert [left.what for left in loop.left] == ["logging", "saving", "evaluation", "evaluation", "logging"]


@pytest.mark.parametrize(
    "old, new, line, why",
    [
        ("loss = model(**batch).loss", "loss = loss_fn(model(**batch).logits, batch['labels'])", 5, "not the one"),
        ("loss = model(**batch).loss", "loss = model(**batch).loss + penalty", 5, "not the one"),
        (
            "loss.backward()",
            "loss.backward()\n        model.lm_head.weight.grad.zero_()",
            6,
            "changes gradients or weights",
        ),
        ("loss.backward()", "loss.backward()\n        for p in params: p.grad *= 2", 6, "changed"),
        ("loss.backward()", "if step % 2: loss.backward()", 5, "only some batches train"),
        (
            "loss = model(**batch).loss",
            "batch['labels'] = mask(batch)\n        loss = model(**batch).loss",
            4,
            "changed",
        ),
        ("loss = model(**batch).loss", "if bad(batch): continue\n        loss = model(**batch).loss", 4, "left out"),
        ("optimizer.step()", "if loss < 2: optimizer.step()", 6, "when the optimizer steps"),
        ("optimizer.step()", "model.requires_grad_(False)\n        optimizer.step()", 6, "way of its own"),
        ("loss = model(**batch).loss", "with profile():\n            loss = model(**batch).loss", 4, "context"),
        ("model(**batch)", "model(input_ids=batch['input_ids'])", 4, "no labels"),
        ("range(3)", "count()", 1, "range"),
        ("range(3)", "range()", 1, "range"),
        ("enumerate(loader)", "enumerate()", 3, "a number and a batch"),
        ("for epoch in range(3):", "while True:", 1, "while"),
        ("        optimizer.step()\n", "", 1, "optimizer.step"),
    ],
)
def test_the_first_line_that_is_not_standard_is_named(old: str, new: str, line: int, why: str) -> None:
    module = parsed(STANDARD.replace(old, new, 1))
    (statement,) = training_loops(module)
    (obstacle,) = read_loop(module, statement).obstacles
    assert why in obstacle.reason
    assert module.location(obstacle.node)[0] == line + HEAD.count("\n")


def test_a_loop_without_backward_is_none() -> None:
    assert training_loops(parsed("for batch in loader:\n    print(batch)\n")) == []


def test_deepspeeds_engine_sets_gradients_to_zero_itself() -> None:
    body = "for batch in loader:\n    loss = engine(**batch).loss\n    engine.backward(loss)\n    engine.step()\n"
    assert read(body)[1].obstacles == []


def test_the_last_batch_of_an_epoch_may_have_a_name() -> None:
    _, loop = read("""\
        for epoch in range(3):
            for step, batch in enumerate(loader):
                loss = model(**batch).loss / n
                if scaler.is_enabled():
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                is_last = (step + 1) == len(loader)
                if (step + 1) % n == 0 or is_last:
                    optimizer.step()
                    optimizer.zero_grad()
        """)
    assert not loop.obstacles and loop.steps_at_last and loop.accumulation is not None


@pytest.mark.parametrize(
    ("first", "second", "condition"),
    [
        ("autocast(dtype=bfloat16)", "autocast()", "args.bf16 or args.fp16"),
        ("autocast(dtype=bfloat16)", "nullcontext()", "args.bf16"),
        ("nullcontext()", "autocast()", "not (args.bf16) and (args.fp16)"),
        ("nullcontext()", "nullcontext()", ""),
    ],
)
def test_three_ways_to_train_are_one_but_for_their_bits(first: str, second: str, condition: str) -> None:
    way = "with {}:\n    loss = model(**batch).loss / n\n{}.backward()\n"
    ways = [way.format(first, "loss"), way.format(second, "scaler.scale(loss)"), way.format("nullcontext()", "loss")]
    tests = ("if args.bf16:", "elif args.fp16:", "else:")
    lines = "".join(f"{test}\n{textwrap.indent(one, '    ')}" for test, one in zip(tests, ways, strict=True))
    text = (
        "from contextlib import nullcontext\nfrom torch import bfloat16\nfrom torch.cuda.amp import autocast\n"
        f"for epoch in range(3):\n    for step, batch in enumerate(loader):\n{textwrap.indent(lines, ' ' * 8)}"
        "        if (step + 1) % n == 0:\n            optimizer.step()\n            optimizer.zero_grad()\n"
    )
    _, loop = read(text)
    assert not loop.obstacles and loop.autocast == bool(condition) and loop.autocast_if == condition


def test_three_ways_of_which_one_trains_otherwise_are_refused() -> None:
    text = STANDARD.replace(
        "        loss.backward()\n",
        """\
        if args.bf16:
            loss.backward()
        elif args.fp16:
            (loss / 2).backward()
        else:
            loss.backward()
""",
    )
    assert any("do not mean the same" in str(each) for each in read(text)[1].obstacles)
