"""What the model of a training loop is given of each batch, and what makes the batches."""

from __future__ import annotations

import pytest

from .porting import port
from .standard_loops import HEAD, SCRIPT, STANDARD, WHOLE, read, said


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
    ("loop", "reason"),
    [
        ("for step in range(20):\n    out = model(input_ids=ids, labels=ids)", "every step trains the same rows"),
        ("for batch in loader:\n    out = model(input_ids=ids, labels=ids)", "is given other rows than the batch"),
        ("for step in range(20):\n    out = model(**next(iter(loader)))", "its batches are made in the loop"),
    ],
)
def test_rows_that_stand_in_front_of_the_loop_are_said(loop: str, reason: str) -> None:
    """The loss is the model's own all the same."""
    head, _, _ = DRAWN.partition("drawn = ")
    steps = "    out.loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    found = port(f"{head}ids = tokenizer('a text', return_tensors='pt')['input_ids']\n{loop}\n{steps}")
    errors = [each.message for each in found.findings if each.rule == "TP504"]
    assert found.status == "unsupported" and reason in errors[0]
    assert not [each for each in errors if "not the one that the model computes" in each]


@pytest.mark.parametrize(
    ("call", "loss"),
    [
        ("model(input_ids=ids)", "out.loss"),
        ("model(input_ids=ids, labels=ids)", "out.score"),
    ],
)
def test_a_loss_that_the_model_does_not_compute_is_said(call: str, loss: str) -> None:
    head, _, _ = DRAWN.partition("drawn = ")
    steps = f"    {loss}.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    found = port(f"{head}ids = tokenizer('a text')['input_ids']\nfor step in range(20):\n    out = {call}\n{steps}")
    assert any("not the one that the model computes" in each.message for each in found.findings), found.findings


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
