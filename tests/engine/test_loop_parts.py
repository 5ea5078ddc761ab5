"""Where the model, the optimizer and the loader of a training loop are made, and where they are let go."""

from __future__ import annotations

import pytest

from .porting import port
from .standard_loops import HEAD, STANDARD


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
