"""A training loop that evaluates, saves or stops between its epochs: the loop over epochs stays, and what it does."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port

SCRIPT = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import AutoModelForCausalLM, default_data_collator

torch.manual_seed(7)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
rows = load_dataset("json", data_files={"train": "train.jsonl", "val": "val.jsonl"})
loader = DataLoader(rows["train"], batch_size=4, shuffle=True, collate_fn=default_data_collator)
val_loader = DataLoader(rows["val"], batch_size=8, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


@torch.no_grad()
def evaluate(net, data):
    net.eval()
    losses = []
    for batch in tqdm(data):
        batch = {k: v.to("cuda") for k, v in batch.items()}
        losses.append(net(**batch).loss.item())
    return sum(losses) / len(data)


for epoch in range(3):
    model.train()
    running, steps = 0.0, 0
    for batch in tqdm(loader):
        batch = {k: v.to("cuda") for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        running += loss.item()
        steps += 1
    # is it better?
    val_loss = evaluate(model, val_loader)
    print(epoch, running / len(loader), val_loss)
    model.save_pretrained(f"out/{epoch}")
"""
CALL = "    val_loss = evaluate(model, val_loader)\n"
INLINE = """\
    model.eval()
    total = 0
    with torch.no_grad():
        for number, batch in enumerate(val_loader):
            if number == 9:
                break
            batch = {k: v.to("cuda") for k, v in batch.items()}
            outputs = model(**batch)
            loss = outputs.loss
            total += loss.item()
    val_loss = total / len(val_loader)
"""
ACCUMULATED = """\
    for step, batch in enumerate(loader):
        loss = model(**batch).loss / 2
        loss.backward()
        running += loss.item()
        if (step + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
STEP = SCRIPT[SCRIPT.index("    for batch in tqdm(loader)") : SCRIPT.index("        steps += 1")]
TRAINED = """\
for epoch in range(3):
    running, steps = 0.0, 0
    with mesh:
        step_losses = rt.train_epoch(trainer, batches)
    running += step_losses.sum()
    # is it better?
    val_loss = evaluate(model, val_loader)
    print(epoch, running / batches.gpu_batches, val_loss)
    rt.save_model(model, f"out/{epoch}")
trainer.close()
"""


def changed(*swaps: tuple[str, str]) -> str:
    text = SCRIPT
    for old, new in swaps:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_loop_over_epochs_stays() -> None:
    check_becomes(
        SCRIPT,
        TRAINED,
        'val_loader = rt.EvaluationLosses(trainer, batches.evaluation(rows["val"], batch_size=8))\nfor epoch',
        "def evaluate(net, data):\n    losses = []\n    for loss in tqdm(data):\n        losses.append(loss)\n",
        gone=("DataLoader", "no_grad", "TODO"),
    )


def test_an_evaluation_in_the_loop_itself() -> None:
    inner = "    for number, loss in enumerate(val_loader):\n        if number == 9:\n            break\n"
    check_becomes(
        changed((CALL, INLINE)),
        f"    total = 0\n{inner}        total += loss\n    val_loss = total / len(val_loader)\n",
        gone=("outputs", "model.eval()"),
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("running += loss.item()", "history.append(loss.item())", "    history.extend(step_losses.tolist())\n"),
        (STEP, ACCUMULATED, "    running += step_losses.sum()\n"),
        (STEP, ACCUMULATED.replace("loss.item()", "loss.item() * 2"), "    running += step_losses.sum() * 2\n"),
        (" val_loss)\n", " val_loss, steps)\n", "    steps += batches.steps_per_epoch\n"),
        (" val_loss)\n", " val_loss, loss.item())\n", "    loss = step_losses[-1]\n"),
    ],
)
def test_names_that_are_read_behind_the_batches_get_what_they_had(old: str, new: str, line: str) -> None:
    found = port(changed((old, new), ("for epoch in", "history = []\nfor epoch in")) + "print(running, history)\n")
    assert found.status == "ported", found.findings
    assert line in found.after


def test_a_function_that_holds_the_loop_is_given_the_rows_that_it_evaluates() -> None:
    loop = SCRIPT[SCRIPT.index("for epoch") :].replace("\n", "\n    ").rstrip()
    function = f"def train(model, loader, val_loader, optimizer):\n    {loop}\n"
    made = SCRIPT[SCRIPT.index("rows =") : SCRIPT.index("optimizer =")].replace("\n", "\n    ")
    main = f"def main():\n    {made}optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)\n"
    call = "    print(len(val_loader))\n    train(model, loader, val_loader, optimizer)\n\n\nmain()\n"
    head = SCRIPT[: SCRIPT.index("rows =")] + SCRIPT[SCRIPT.index("\n\n@torch") : SCRIPT.index("for epoch")]
    found = check_becomes(f"{head}{function}\n\n{main}{call}", '    print(math.ceil(len(rows["val"]) / 8))\n')
    assert "def train(model, rows):" in found.after and "train(model, rows)\n" in found.after
    assert '    val_loader = rt.EvaluationLosses(trainer, batches.evaluation(rows["val"], batch_size=8))' in found.after


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ("    model.train()\n", ""),
        ("    model.train()", ""),
        ("    if epoch > 1:\n        break  # enough\n", "    if epoch > 1:\n        break  # enough\n"),
    ],
)
def test_the_trainer_closes_behind_the_loop(last: str, kept: str) -> None:
    found = port(SCRIPT + last)
    assert found.status == "ported"
    assert found.after.replace("\n\n", "\n").endswith(f'save_model(model, f"out/{{epoch}}")\n{kept}trainer.close()\n')


@pytest.mark.parametrize("asked", ['optimizer.param_groups[0]["lr"]', "scheduler.get_last_lr()[0]"])
def test_the_learning_rate_is_read_of_the_schedule(asked: str) -> None:
    made = "scheduler = get_constant_schedule(optimizer)\n\n\n@torch"
    imported = ("default_data_collator\n\n", "default_data_collator, get_constant_schedule\n\n")
    step = ("optimizer.step()\n", "optimizer.step()\n        scheduler.step()\n")
    text = changed(("\n\n@torch", made), imported, step, ("print(epoch,", f"print({asked},"))
    check_becomes(text, "print(float(schedule(trainer.train_steps)), running")


def test_early_stopping_and_the_best_checkpoint_are_ordinary_python() -> None:
    behind = """\
    if val_loss < best:
        best = val_loss
        model.save_pretrained("best")
    elif epoch > 1:
        break
"""
    text = changed(("for epoch in", 'best = float("inf")\nfor epoch in')) + behind
    check_becomes(text, behind.replace('model.save_pretrained("best")', 'rt.save_model(model, "best")'))


OTHER_COLLATOR = (
    'val_loader = DataLoader(rows["val"], batch_size=8, collate_fn=default',
    "val_loader = DataLoader(rows",
)


@pytest.mark.parametrize(
    "swaps",
    [
        [("rows[\"val\"], batch_size=8, collate_fn=default_data_collator", "rows[\"val\"], batch_size=8")],
        [("batch_size=8,", "batch_size=8, shuffle=True,")],
        [("batch_size=8,", "batch_size=8, drop_last=True,")],
        [("net(**batch).loss.item()", "net(**batch).logits.mean().item()")],
        [("losses.append(net(**batch).loss.item())", "losses.append(net(**batch).loss.item() * len(batch))")],
        [("evaluate(model, val_loader)", "evaluate(model, loader)")],
        [("        running += loss.item()\n", "        if epoch:\n            running += loss.item()\n")],
        [("for epoch in", "evaluate(model, val_loader)\nfor epoch in")],
        [("    model.save", "    print(next(iter(val_loader)))\n    model.save")],
        [("for epoch in range(3):", "for epoch in range(first, 3):"), ("rows =", "first = 1\nrows =")],
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named(swaps: list[tuple[str, str]]) -> None:
    found = port(changed(*swaps))
    assert found.status == "partial"
    assert "rt.train_epoch" not in found.after


def test_dropout_that_stays_on_or_off_is_named() -> None:
    lora = "model = get_peft_model(model, LoraConfig(lora_dropout=0.1, target_modules=['q_proj']))\nrows = load"
    imports = ("import torch\n", "import torch\nfrom peft import LoraConfig, get_peft_model\n")
    text = changed(("rows = load", lora), imports)
    assert port(text).status == "ported"
    for gone in ("    net.eval()\n", "    model.train()\n"):
        found = port(text.replace(gone, ""))
        assert found.status == "partial" and "dropout" in next(
            f.message for f in found.findings if f.severity == "error"
        )


def test_several_processes_evaluate_rows_of_their_own() -> None:
    found = port(SCRIPT, processes=2)
    assert found.status == "partial" and any("2 GPU processes" in each.message for each in found.findings)


def test_a_loop_that_calls_the_model_evaluates_without_eval_too() -> None:
    inline = SCRIPT.replace(CALL, INLINE.replace("    model.eval()\n", ""))
    found = port(inline)
    assert found.status == "ported" and "for number, loss in enumerate(val_loader):" in found.after, found.after
    unread = port(inline.replace("enumerate(val_loader)", "enumerate(list(val_loader)[:5])"))
    assert unread.status == "partial"
    assert any("evaluations inside the loop" in finding.message for finding in unread.findings), unread.findings


@pytest.mark.parametrize(
    ("behind", "kept"),
    [
        ("loss = loss.exp()", False),
        ("loss *= 2", False),
        ("loss.mul_(2)", False),
        ("loss = loss - 1", False),
        ("if epoch:\n            loss = loss.exp()", False),
        ("loss = loss.mean()", True),
        ("if epoch:\n            loss = loss.mean()", True),
    ],
)
def test_a_loss_that_is_changed_before_it_is_summed_is_no_loss(behind: str, kept: bool) -> None:
    found = port(changed(("running += loss.item()", f"{behind}\n        running += loss.item()")))
    assert ("rt.train_epoch" in found.after) is kept and (found.status == "ported") is kept, found.findings


@pytest.mark.parametrize(
    ("divided", "behind", "said"),
    [
        ("loss = loss / 2", "", "step_losses.sum()"),
        ("loss /= 2", "loss *= 2", "step_losses.sum() * 2"),
        ("loss /= 2", "loss = loss * 2", "step_losses.sum() * 2"),
        ("loss = loss / 2", "loss *= 4", ""),
        ("loss = loss / 2", "loss = loss * loss", ""),
    ],
)
def test_what_is_summed_of_an_accumulated_loss(divided: str, behind: str, said: str) -> None:
    body = ACCUMULATED.replace(".loss / 2\n", f".loss\n        {divided}\n")
    found = port(changed((STEP, body.replace("running", f"{behind}\n        running" if behind else "running"))))
    assert (f"running += {said}\n" in found.after) is bool(said) and (found.status == "ported") is bool(said)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("running / len(loader)", True),
        ("running.item() / len(loader)", True),
        ("torch.exp(running / len(loader))", False),
        ("running.cpu()", False),
    ],
)
def test_a_sum_of_tensors_that_is_read_as_one_stays_with_a_person(said: str, kept: bool) -> None:
    """The port's is a number."""
    text = changed(("running += loss.item()", "running += loss.detach().float()"), ("running / len(loader)", said))
    found = port(text)
    assert ("rt.train_epoch" in found.after) is kept and (found.status == "ported") is kept, found.after
