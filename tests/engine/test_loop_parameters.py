"""A training loop in a function that is given its DataLoader, optimizer and schedule."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator, get_linear_schedule_with_warmup


def train(net, batches_of, opt, sched, epochs, device="cuda"):
    print(len(batches_of))
    for epoch in range(epochs):
        for batch in batches_of:
            loss = net(**{k: v.to(device) for k, v in batch.items()}).loss
            loss.backward()
            opt.step()
            sched.step()
            opt.zero_grad()


def main(lr=1e-4, size=2):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
    rows = load_dataset("json", data_files="rows.jsonl", split="train")
    loader = DataLoader(rows, batch_size=size, shuffle=True, collate_fn=default_data_collator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    steps = 3 * len(loader)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, steps)
    train(model, loader, optimizer, scheduler, 3)
    model.save_pretrained("out")


main()
"""
CALL = "train(model, loader, optimizer, scheduler, 3)"


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        (CALL, "train(model, rows, size, lr, steps, 3)"),
        (
            "train(model, sched=scheduler, epochs=3, batches_of=loader, opt=optimizer)",
            "train(model, steps=steps, epochs=3, rows=rows, size=size, lr=lr)",
        ),
    ],
)
def test_the_function_is_given_what_its_parts_were_made_of(call: str, becomes: str) -> None:
    found = port(SCRIPT.replace(CALL, call))
    assert found.status == "ported", found.findings
    assert 'def train(net, rows, size, lr, steps, epochs, device="cuda"):' in found.after and becomes in found.after
    assert "print(math.ceil(len(rows) / size))" in found.after


@pytest.mark.parametrize("place", ["*, batches_of, opt, sched", "batches_of, *, opt, sched"])
def test_parameters_that_are_given_by_their_names_alone(place: str) -> None:
    call = "train(model, batches_of=loader, opt=optimizer, sched=scheduler, epochs=3)"
    found = port(SCRIPT.replace("batches_of, opt, sched", place).replace(CALL, call))
    assert found.status == "ported", found.findings
    assert "rows, size, lr, steps, epochs" in found.after
    assert "train(model, rows=rows, size=size, lr=lr, steps=steps, epochs=3)" in found.after


def test_what_the_function_reads_already_isnt_given_again() -> None:
    rates = SCRIPT.replace("def main(lr=1e-4, size=2):\n", "LR = 1e-4\n\n\ndef main(size):\n").replace("lr=lr", "lr=LR")
    found = port(rates.replace("epochs, device", "epochs, size, device").replace("scheduler, 3", "scheduler, 3, size"))
    assert found.status == "ported", found.findings
    assert "def train(net, rows, steps, epochs, size, device" in found.after
    assert "train(model, rows, steps, 3, size)" in found.after


@pytest.mark.parametrize(
    ("parameters", "call", "becomes"),
    [
        (
            "net, epochs, batches_of=None, opt=None, sched=None, device",
            "train(model, 3, loader, optimizer, scheduler)",
            "net, epochs, rows=None, size=None, lr=None, steps=None, device",
        ),
        (
            "net, batches_of: DataLoader, opt: torch.optim.Optimizer, sched, epochs: int = 3, *, device",
            "train(model, loader, optimizer, scheduler)",
            "net, rows, size, lr, steps, epochs: int = 3, *, device",
        ),
    ],
)
def test_parameters_with_defaults_and_annotations(parameters: str, call: str, becomes: str) -> None:
    found = port(SCRIPT.replace("net, batches_of, opt, sched, epochs, device", parameters).replace(CALL, call))
    assert found.status == "ported" and f"def train({becomes}=" in found.after, found.after


def test_a_parameter_of_the_name_that_it_is_given() -> None:
    found = port(SCRIPT.replace("batches_of", "rows"))
    assert found.status == "ported" and "def train(net, rows, size, lr, steps, epochs, device" in found.after, (
        found.after
    )


def test_the_names_of_a_lambda_are_its_own() -> None:
    made = "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / steps))"
    found = port(SCRIPT.replace("get_linear_schedule_with_warmup(optimizer, 10, steps)", made))
    assert found.status == "ported" and "train(model, rows, size, lr, steps, 3)" in found.after


def test_a_name_that_means_something_else_where_the_function_is_called_is_said() -> None:
    call = f"def go():\n        size = 7\n        {CALL.replace('3', 'size')}\n    go()"
    found = port(SCRIPT.replace(CALL, call))
    said = [finding.message for finding in found.findings if finding.severity == "error"]
    assert found.status == "partial" and any("size can't be read where the loop stands" in each for each in said)


def test_a_name_that_the_function_has_for_something_else_is_said() -> None:
    found = port(SCRIPT.replace("    print(len(batches_of))", "    rows = len(batches_of)"))
    said = [finding.message for finding in found.findings if finding.severity == "error"]
    assert found.status == "partial" and any("rows can't be read where the loop stands" in each for each in said)


CLASS = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator, get_linear_schedule_with_warmup


class Fitter:
    def __init__(self, model, rows, rate=1e-4, size=2, epochs=3):
        self.model = model
        self.epochs, self.lr = epochs, rate
        self.loader = DataLoader(rows, batch_size=size, collate_fn=default_data_collator)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate)
        self.scheduler = get_linear_schedule_with_warmup(self.optimizer, 5, epochs * len(self.loader))

    def train_epoch(self):
        for batch in self.loader:
            loss = self.model(**{k: v.cuda() for k, v in batch.items()}).loss
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()

    def fit(self):
        print(len(self.loader))
        for epoch in range(self.epochs):
            self.train_epoch()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
rows = load_dataset("json", data_files="rows.jsonl", split="train")
Fitter(model, rows).fit()
model.save_pretrained("out")
"""


@pytest.mark.parametrize("given", ["rows", "rows, size=args.size"])
def test_what_another_method_made_the_parts_of_is_kept_on_self(given: str) -> None:
    found = port(CLASS.replace("Fitter(model, rows)", f"Fitter(model, {given})"))
    assert found.status == "ported", found.findings
    made, _, fit = found.after.partition("def fit(self):")
    assert "        self.rows = rows\n        self.size = size\n" in made and "self.loader" not in found.after
    assert "print(math.ceil(len(self.rows) / self.size))" in fit and "batch_size=self.size," in fit
    assert "optax.linear_schedule(0.0, self.lr, 5)" in fit and "self.epochs * math.ceil(len(self.rows)" in fit


@pytest.mark.parametrize("line", ["        rows.lr = rate\n", "        rows.lr = 3\n        rows.rate = 4\n"])
def test_attributes_of_other_objects_hold_nothing_of_self(line: str) -> None:
    held = "        self.epochs, self.lr = epochs, rate\n"
    found = port(CLASS.replace(held, f"{line}{held}"))
    assert found.status == "ported" and "optax.linear_schedule(0.0, self.lr, 5)" in found.after, found.findings
    found = port(CLASS.replace(held, f"        self.epochs = epochs\n{line}"))
    assert found.status == "ported" and "self.rate = rate\n" in found.after and "(0.0, self.rate, 5)" in found.after


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("    def fit(self):\n", "    def fit(self):\n        size = 3\n", "size"),
        ("        print(len(self.loader))", "        self.rows = []", "rows"),
        ("        print(len(self.loader))", "        self.lr /= 2", "rate"),
    ],
)
def test_an_attribute_that_is_something_else_is_said(old: str, new: str, name: str) -> None:
    found = port(CLASS.replace(old, new))
    said = [finding.message for finding in found.findings if finding.severity == "error"]
    assert found.status == "partial" and any(f"{name} can't be read where the loop stands" in each for each in said)
