"""Training loops written by hand: what is read from the standard one, and which line makes another one."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from porter.engine.loops.statements.facts import Loop
from porter.engine.loops.training_loops import read_loop, training_loops
from porter.source.module import Module
from porter.source.parsing import parse_module

from .porting import port

HEAD = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
"""
STANDARD = """\
for epoch in range(3):
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def parsed(body: str) -> Module:
    return parse_module((HEAD + textwrap.dedent(body)).encode(), "train.py")


def read(body: str) -> tuple[Module, Loop]:
    module = parsed(body)
    (statement,) = training_loops(module)
    return module, read_loop(module, statement)


def said(module: Module, loop: Loop) -> dict[str, Any]:
    nodes = {"loader": loop.loader, "epochs": loop.epochs, "accumulation": loop.accumulation, "clip": loop.clip,
             "max_steps": loop.max_steps}  # fmt: skip
    found = {name: module.code(node) for name, node in nodes.items() if node is not None}
    names = {"model": loop.model, "optimizer": loop.optimizer, "scheduler": loop.scheduler}
    return found | {name: text for name, text in names.items() if text} | {"inputs": loop.inputs}


WHOLE = {name: name for name in ("input_ids", "attention_mask", "labels")}
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


SCRIPT = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    loss = model(CALL).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        ("**batch", None),
        ("**{k: v.cuda() for k, v in batch.items()}", None),
        ("batch['input_ids'], attention_mask=batch['attention_mask'], labels=batch['labels']", None),
        ("batch['input_ids'], labels=batch['labels']", '{"input_ids": "input_ids", "labels": "labels"}'),
        ("**batch, labels=batch['input_ids']", '"labels": "input_ids"}'),
        ("**batch, labels=batch.pop('labels')", None),
        ("batch, labels=batch", '{"input_ids": "*", "labels": "*"}'),
        ("batch['input_ids'].squeeze(), labels=batch['labels'].squeeze()", '{"input_ids": "input_ids", "labels'),
    ],
)
def test_a_port_gives_the_model_what_the_loop_gave_it(call: str, inputs: str | None) -> None:
    found = port(SCRIPT.replace("CALL", call))
    assert found.status == "ported", found.findings
    assert ("inputs=" in found.after) is (inputs is not None)
    assert inputs is None or inputs in found.after


@pytest.mark.parametrize("library", ["transformers", "peft", "deepspeed"])
def test_a_loop_whose_model_comes_from_elsewhere_is_refused(library: str) -> None:
    found = port(f"{HEAD}import {library}\nfrom mine import model, loader, optimizer\n\n{STANDARD}")
    assert found.status == "unsupported" and found.edits == ()
    wrong = [finding for finding in found.findings if finding.severity == "error"]
    named = [finding.message.partition(": ")[2][:12] for finding in wrong]
    assert len(wrong) == 3 and {"`optimizer` ", "its batches "} < set(named)
    said = next(finding for finding in wrong if "its model is" in finding.message)
    assert said.rule == "TP504" and "not loaded by a from_pretrained call" in said.message


def test_a_loop_over_no_language_model_is_none_of_ours() -> None:
    assert port(f"{HEAD}from mine import model, loader, optimizer\n\n{STANDARD}").status == "unchanged"


ACCUMULATED = """
from transformers import AutoModelForCausalLM, default_data_collator
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader

USE_AMP = False
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", enabled=USE_AMP)
done = 0
for epoch in range(1, 3):
    for step, batch in enumerate(loader):
        with torch.autocast("cuda", enabled=USE_AMP):
            loss = model(**batch).loss
        scaler.scale(LOSS).backward()
        if (step + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            done += 1
            if done >= 6:
                break
    if done >= 6:
        break
"""


def test_a_loop_behind_flags_that_ends_by_its_steps_is_ported() -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss / 4"))
    assert found.status == "ported", found.findings
    assert "accumulation=4," in found.after and "max_steps=6," in found.after


def test_gradients_that_are_summed_are_refused() -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss"))
    assert found.status == "unsupported" and found.edits == ()
    (said,) = (finding for finding in found.findings if finding.severity == "error")
    assert "summed over the 4 batches" in said.message and said.fix == "Divide the loss by it."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    optimizer.zero_grad()\n", "", "never set to zero"),
        (
            "    optimizer.step()\n    optimizer.zero_grad()",
            "    optimizer.zero_grad()\n    optimizer.step()",
            "between",
        ),
        (
            "    optimizer.step()",
            "    divide_gradients(model)\n    optimizer.step()",
            "`divide_gradients` gets `model`",
        ),
        ("    optimizer.step()", "    x = normalize_weights(model)\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    if hide(model): pass\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    y = weigh(model) + 1\n    optimizer.step()", "may change it"),
        ("    optimizer.step()", "    log_and_update(model)\n    optimizer.step()", "may change it"),
    ],
)
def test_what_trains_otherwise_without_looking_so_is_refused(old: str, new: str, why: str) -> None:
    text = SCRIPT.replace("CALL", "**batch")
    assert old in text
    found = port(text.replace(old, new))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize("line", ["log_stats(model)", "norm = grad_norm(model)", "if len(model): pass", "prof.step()"])
def test_what_only_looks_on_is_no_obstacle(line: str) -> None:
    text = SCRIPT.replace("CALL", "**batch").replace("    optimizer.step()", f"    {line}\n    optimizer.step()")
    assert port(text).status == "ported"


def test_deepspeeds_engine_sets_gradients_to_zero_itself() -> None:
    body = "for batch in loader:\n    loss = engine(**batch).loss\n    engine.backward(loss)\n    engine.step()\n"
    assert read(body)[1].obstacles == []


IN_STEP = "        if (step + 1) % 4 == 0:\n"
BEHIND = "    if done >= 6:\n        break\n"
CLIP = "clip_grad_norm_(model.parameters(), 1.0)\n"
BY_HAND = "    for group in optimizer.param_groups:\n        group['lr'] = 1e-5\n"
OFTEN = "        optimizer.zero_grad()\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("(step + 1) % 4", "step % 4", "doesn't step behind every 4 batches"),
        ("loss / 4", "loss / 2", "divided by `2`, and the optimizer steps every `4`"),
        (BEHIND, "        scheduler.step()\n" + BEHIND, "the schedule steps at every batch"),
        (BEHIND, "    scheduler.step(loss)\n" + BEHIND, "`scheduler.step(loss)` steps by what it is given"),
        ("    for step", "    scheduler.step()\n    for step", "stands at the epoch, not behind its steps"),
        (BEHIND, "    optimizer.step()\n" + BEHIND, "stands at the epoch, not behind its steps"),
        ("    for step", BY_HAND + "    for step", "set by hand"),
        (IN_STEP, f"        {CLIP}{IN_STEP}", "clipped at every batch"),
        ("        with torch.auto", OFTEN + "        with torch.auto", "set to zero at every batch"),
        ("done >= 6:\n                break", "step >= 6:\n                break", "ends each epoch"),
        (
            "            scaler.",
            f"            if loss > 1:\n                {CLIP}            scaler.",
            "only some steps",
        ),
    ],
)
def test_a_loop_whose_steps_are_others_is_refused(old: str, new: str, why: str) -> None:
    text = ACCUMULATED.replace("LOSS", "loss / 4")
    assert old in text
    found = port(text.replace(old, new, 1))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


def test_what_a_condition_clips_and_batches_that_are_counted() -> None:
    clip = f"            if CLIP:\n                {CLIP}            scaler.step"
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace("            scaler.step", clip, 1)
    assert "clip_by_global_norm(1.0 if CLIP else None)" in port(text).after.replace("rt.", "").replace("optax.", "")
    counted = ACCUMULATED.replace("LOSS", "loss / 4").replace(
        "        with torch", "        done += 1\n        with torch"
    )
    counted = counted.replace("            done += 1\n", "").replace("done >= 6", "done >= 24")
    found = port(counted)
    assert "max_steps=6," in found.after and "epochs=2," in found.after
    assert any(finding.message.startswith("The loop ends after 2 epochs or 6 steps") for finding in found.findings)


@pytest.mark.parametrize(("last", "warned"), [("", True), (" or step + 1 == len(loader)", False)])
def test_batches_that_are_left_over_are_carried_on_unless_the_last_makes_a_step(last: str, warned: bool) -> None:
    found = port(ACCUMULATED.replace("LOSS", "loss / 4").replace("% 4 == 0", f"% 4 == 0{last}"))
    assert found.status == "ported", found.findings
    said = [finding for finding in found.findings if "carries the rest into the next step" in finding.message]
    assert [finding.severity for finding in said] == ["warning"] * warned


def test_batches_that_are_left_over_go_where_each_epoch_sets_gradients_to_zero() -> None:
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace("    for step", "    optimizer.zero_grad()\n    for step")
    found = port(text)
    assert found.status == "ported", found.findings
    assert [f.severity for f in found.findings if "the loop leaves the rest out" in f.message] == ["warning"]


def test_of_a_schedule_that_steps_by_batch_and_by_epoch_the_one_at_the_epoch_is_named() -> None:
    step = "            optimizer.zero_grad()\n"
    text = ACCUMULATED.replace("LOSS", "loss / 4").replace(step, f"            scheduler.step()\n{step}")
    found = port(text.replace(BEHIND, "    scheduler.step()\n" + BEHIND, 1))
    assert found.status == "unsupported"
    said = [finding.message for finding in found.findings if finding.severity == "error"]
    assert any("a schedule steps with the batches too" in each for each in said)
    assert any("`scheduler` isn't made by a schedule that is read" in each for each in said)


@pytest.mark.parametrize(
    ("shuffle", "said"), [("True", "another order than the GPU run's"), ("False", "in their order")]
)
def test_what_the_seed_of_a_loop_orders(shuffle: str, said: str) -> None:
    text = SCRIPT.replace("CALL", "**batch")
    found = port(text.replace("batch_size=2", f"batch_size=2, shuffle={shuffle}", 1)).after
    assert f"seed=42,  # the rows come {said}" in found or f"seed=42,  # {said}" in found


WATCHED = ACCUMULATED.replace("LOSS", "loss / 4").replace("done = 0\n", "done = 0\nlosses, best = [], 9.0\n")
AT_STEP = "            done += 1\n"


@pytest.mark.parametrize(
    ("old", "new", "severity", "said"),
    [
        (BEHIND, f"    if loss < best:\n        break\n{BEHIND}", "error", "ends of its own (line 26) are not"),
        (AT_STEP, f"{AT_STEP}            if stop():\n                break\n", "error", "ends of its own (line 25)"),
        (
            "        scaler.scale",
            "        if torch.isnan(loss):\n            continue\n        scaler.scale",
            "warning",
            "whose loss isn't finite are left out",
        ),
        (BEHIND, f"    keep('best')\n{BEHIND}", "error", "checkpoints that the loop saves (line 25)"),
        (BEHIND, f"    print(model.generate(ids))\n{BEHIND}", "error", "texts that the loop generates (line 25)"),
        (BEHIND, f"{BEHIND}    losses.append(loss.item())\nplot(losses)\n", "error", "losses is read here"),
        (BEHIND, f"{BEHIND}    best = min(best, loss)\nprint(best)\n", "error", "best is read here"),
    ],
)
def test_what_else_a_loop_did_is_said(old: str, new: str, severity: str, said: str) -> None:
    text = WATCHED.replace(old, new, 1)
    if "keep(" in new:
        text = text.replace("done = 0", "def keep(name):\n    model.save_pretrained(name)\n\n\ndone = 0")
    found = port(text)
    told = [finding for finding in found.findings if said.partition(" (line")[0] in finding.message]
    assert [finding.severity for finding in told] == [severity], found.findings
    assert found.status == ("ported" if severity == "warning" else "partial")


@pytest.mark.parametrize(
    ("test", "guards"),
    [
        ("torch.isnan(loss) or torch.isinf(loss)", True),
        ("not torch.isfinite(loss).all()", True),
        ("~torch.isfinite(loss)", True),
        ("loss is None or math.isnan(loss.item())", True),
        ("torch.isnan(loss).sum() > 0", True),
        ("torch.isnan(loss) and step > 3", True),
        ("torch.isnan(loss) or step % 2 == 0", False),
        ("batch is None", False),
        ("torch.isfinite(loss)", False),
        ("not torch.isnan(loss)", False),
        ("not (torch.isfinite(loss) and step % 2)", False),
    ],
)
def test_which_batches_a_guard_leaves_out(test: str, guards: bool) -> None:
    loop = f"        if {test}:\n            continue\n        scaler.scale"
    found = port(WATCHED.replace("        scaler.scale", loop, 1))
    assert found.status == ("ported" if guards else "unsupported"), found.findings
    otherwise = f"        if {test}:\n            pass\n        else:\n            continue\n        scaler.scale"
    found = port(WATCHED.replace("        scaler.scale", otherwise, 1))
    assert (found.status == "ported") is (test in ("torch.isfinite(loss)", "not torch.isnan(loss)")), found.findings


OF_CLASS = """import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator


class Clock:
    def __init__(self):
        self.seen = 0


class Tuner:
    def __init__(self):
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
        self.seen, self.losses = 0, []

    def train(self):
        rows = load_dataset("json", data_files="rows.jsonl", split="train")
        loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        for batch in loader:
            loss = self.model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            self.seen += 1
            self.losses.append(loss.item())


tuner = Tuner()
tuner.train()
"""


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("clock = Clock()\nprint(clock.seen)\n", ""),
        ("print(other.losses)\n", ""),
        ("mine = Tuner()\nprint(mine.losses)\n", "self.losses"),
    ],
)
def test_what_a_loop_fills_is_of_its_own_object(line: str, read: str) -> None:
    found = port(OF_CLASS + line)
    told = [finding.message for finding in found.findings if "is read here" in finding.message]
    assert len(told) == bool(read) and all(read in message for message in told), told
    inside = OF_CLASS.replace(
        "    def train(self):", "    def show(self):\n        print(self.losses)\n\n    def train(self):"
    )
    assert any("self.losses is read here" in finding.message for finding in port(inside).findings)


EVALUATED = """    with torch.no_grad():
        evaluate(model, checked)
    model.save_pretrained("best")
"""


@pytest.mark.parametrize(
    ("behind", "saved"), [("", False), ("tokenizer.save_pretrained('x')\n", False), ("keep()\n", True)]
)
def test_what_to_do_about_evaluations_and_checkpoints(behind: str, saved: bool) -> None:
    made = "checked = DataLoader(held_out, batch_size=7)\ndef keep():\n    model.save_pretrained('out')\ndone = 0"
    text = WATCHED.replace("done = 0", made, 1).replace(BEHIND, BEHIND + EVALUATED) + behind
    fixes = [finding.fix for finding in port(text).findings if finding.severity == "error"]
    assert any("batches.evaluation(held_out, batch_size=7)" in fix for fix in fixes)
    assert any("Nothing else saves the model" in fix for fix in fixes) is not saved


@pytest.mark.parametrize(
    "line", ["loss = loss.mean()", "if gpus > 1:\n            loss = loss.mean()", "loss = loss / 4.0\n        x = 1"]
)
def test_a_mean_over_several_gpus_is_of_one_number(line: str) -> None:
    found = port(
        ACCUMULATED.replace("LOSS", "loss / 4").replace("        scaler.scale", f"        {line}\n        scaler.scale")
    )
    assert found.status == ("unsupported" if "4.0" in line else "ported"), found.findings


@pytest.mark.parametrize(
    ("handler", "severity"),
    [
        ("RuntimeError as error:\n        if 'out of memory' not in str(error):\n            raise", "warning"),
        ("torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()", "warning"),
        ("Exception:\n        continue", "error"),
    ],
)
def test_a_step_that_fails_for_want_of_memory(handler: str, severity: str) -> None:
    head, _, body = SCRIPT.replace("CALL", "**batch").partition("for batch in loader:\n")
    found = port(f"{head}for batch in loader:\n    try:\n{textwrap.indent(body, '    ')}    except {handler}\n")
    told = [each for each in found.findings if "left out here" in each.message or "is caught" in each.message]
    assert [each.severity for each in told] == [severity], found.findings
    assert found.status == ("ported" if severity == "warning" else "unsupported")


def test_names_that_the_loop_fills_for_itself_are_nobodys() -> None:
    lines = "    losses.append(loss.item())\n    print(losses)\nlosses = [3.0]\nplot(losses)\n"
    assert port(WATCHED.replace(BEHIND, BEHIND + lines)).status == "ported"


BY_HAND = """import torch
from torch.utils.data import DataLoader

from .model import build


def train(rows):
    model = build("Qwen/Qwen3-0.6B")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in DataLoader(rows, batch_size=2):
        loss = model(KEY=batch["KEY"], labels=batch["labels"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("key", "status"), [("input_ids", "unsupported"), ("pixels", "unchanged")])
def test_a_language_model_that_another_module_makes_is_trained_all_the_same(key: str, status: str) -> None:
    """`unchanged` is for what trains nothing that tpu-port is about."""
    found = port(BY_HAND.replace("KEY", key))
    assert found.status == status and found.edits == ()
    assert bool(found.findings) is (status == "unsupported")
    alone = BY_HAND.replace("for batch in DataLoader(rows, batch_size=2):", "if batch := rows[0]:").replace("KEY", key)
    assert port(alone).status == status


DRAWN = """from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("x", split="train")
loader = DataLoader(rows, 4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False))
optimizer = AdamW(model.parameters(), lr=1e-5)
drawn = iter(loader)
for step in range(20):
    batch = next(drawn)
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [("", "", "ported"), ("", "print(next(drawn))\n", "partial"), ("print(next(iter(loader)))\n", "", "partial")],
)
def test_an_iterator_that_only_the_loop_draws_from_goes_with_it(before: str, after: str, status: str) -> None:
    found = port(DRAWN.replace("drawn = iter", f"{before}drawn = iter") + after)
    assert found.status == status and ("drawn = iter(loader)" in found.after) == bool(after), found.after


@pytest.mark.parametrize(
    "lines",
    [
        "for mask, ids, labels in loader:\n    loss = model(ids, attention_mask=mask, labels=labels).loss\n",
        "for batch in loader:\n    mask, ids, labels = batch\n"
        "    loss = model(ids, attention_mask=mask, labels=labels).loss\n",
        "for step, (mask, ids, labels) in enumerate(loader):\n    ids, labels = ids.to(device), labels.to(device)\n"
        "    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss\n",
        "for batch in loader:\n    batch = tuple(part.to(device) for part in batch)\n"
        "    loss = model(batch[1], attention_mask=batch[0], labels=batch[2]).loss\n",
    ],
)
def test_the_parts_of_a_tuple_are_told_by_their_places(lines: str) -> None:
    _, loop = read(f"{lines}    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n")
    assert not loop.obstacles
    assert loop.inputs == {"input_ids": "1", "attention_mask": "0", "labels": "2"}


def test_a_batch_that_is_taken_apart_otherwise_is_the_users_own() -> None:
    _, loop = read(
        "for ids, *rest in loader:\n    loss = model(ids, labels=ids).loss\n    loss.backward()\n    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    assert [obstacle.reason for obstacle in loop.obstacles] == [
        "a batch is taken apart otherwise than into its parts, one name each"
    ]


def test_an_axis_that_the_tokenizer_leaves_may_be_squeezed() -> None:
    text = STANDARD.replace(
        "model(**batch)", "model(input_ids=batch['input_ids'].squeeze(1), labels=batch['input_ids'].squeeze(1).clone())"
    )
    assert said(*read(text))["inputs"] == {"input_ids": "input_ids", "labels": "input_ids"}
    _, loop = read(text.replace("squeeze(1)", "squeeze(0)"))
    assert loop.obstacles


def test_without_a_collate_fn_rows_are_stacked_as_torch_does() -> None:
    text = f"""{HEAD}from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
loader = DataLoader(rows, batch_size=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
"""
    ported = port(text + STANDARD)
    assert ported.status == "ported" and "    rows,\n    rt.stack_rows,\n    mesh,\n" in ported.after


GROUPED = f"""{HEAD}from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
loader = DataLoader(rows, batch_size=2)
GROUPS
optimizer = torch.optim.AdamW(groups, lr=1e-3)
{STANDARD}"""
GROUPS = """no_decay = ["bias", "LayerNorm.weight"]
groups = [
    {
        "params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)],
        "weight_decay": 0.1,
    },
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]"""


@pytest.mark.parametrize("more", ["", " and p.requires_grad"])
def test_a_group_without_decay_is_a_mask(more: str) -> None:
    groups = GROUPS.replace("in no_decay)", f"in no_decay){more}")
    ported = port(GROUPED.replace("GROUPS", groups))
    assert ported.status == "ported", ported.findings
    assert "weight_decay=0.1, mask=rt.decay_mask_but(model, no_decay)" in ported.after
    own = port(GROUPED.replace("GROUPS", groups.replace('        "weight_decay": 0.1,\n', "")))
    assert "weight_decay=0.01, mask=rt.decay_mask_but(model, no_decay)" in own.after  # AdamW's
    assert "named_parameters" not in ported.after and 'no_decay = ["bias", "LayerNorm.weight"]' in ported.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"weight_decay": 0.0}', '"weight_decay": 0.0, "lr": 1e-5}'),
        ('"weight_decay": 0.0}', '"weight_decay": 0.2}'),
        ("if not any(", "if any("),
        ("not any(nd in n for nd in no_decay)", "not any(nd in n for nd in others)"),
        ("model.named_parameters() if not", "model.head.named_parameters() if 'x' in n and not"),
    ],
)
def test_other_groups_are_the_scripts_own(old: str, new: str) -> None:
    changed = GROUPS.replace(old, new, 1)
    assert changed != GROUPS
    ported = port(GROUPED.replace("GROUPS", changed))
    assert ported.status == "unsupported"
    assert any("groups of parameters of its own" in finding.message for finding in ported.findings)


def test_what_is_let_go_behind_the_loop_leaves_out_what_the_port_lacks() -> None:
    text = f"""{HEAD}from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
loader = DataLoader(rows, batch_size=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
{STANDARD}
del model, optimizer, loader
del optimizer
del loss, batch
"""
    ported = port(text)
    assert ported.status == "ported", ported.findings
    assert ported.after.rstrip().endswith("del model")


def test_a_part_that_is_made_in_several_places_is_said_so() -> None:
    text = f"""{HEAD}from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
if rank < 0:
    loader = DataLoader(rows, batch_size=2, shuffle=True)
else:
    loader = DataLoader(rows, batch_size=2, sampler=sampler)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
{STANDARD}"""
    [error] = [finding for finding in port(text).findings if finding.severity == "error"]
    assert "`loader` is made in 2 places (line 8, 10)" in error.message and "not told" in error.message


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
    ("made", "inputs"),
    [
        ('{k: batch[k].to(device) for k in ("input_ids", "labels")}', {"input_ids": "input_ids", "labels": "labels"}),
        ('{k: batch[k] for k in ["input_ids", "attention_mask", "labels"]}', WHOLE),
    ],
)
def test_parts_of_a_batch_are_chosen_by_their_names(made: str, inputs: dict[str, str]) -> None:
    text = STANDARD.replace("        loss = model", f"        batch = {made}\n        loss = model")
    assert said(*read(text))["inputs"] == inputs


def test_parts_of_a_batch_that_are_chosen_otherwise_are_the_users_own() -> None:
    made = '{k: own(batch[k]) for k in ("input_ids", "labels")}'
    _, loop = read(STANDARD.replace("        loss = model", f"        batch = {made}\n        loss = model"))
    assert loop.obstacles
