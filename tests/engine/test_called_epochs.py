"""An epoch's training in a function of its own, which the loop over epochs calls."""

from __future__ import annotations

from textwrap import indent

import pytest

from .porting import port

SCRIPT = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator, get_linear_schedule_with_warmup


def train_epoch(net, batches_of, opt, sched, device, every=4):
    net.train()
    total = 0
    for step, batch in enumerate(batches_of):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = net(**batch).loss / every
        loss.backward()
        if (step + 1) % every == 0 or step + 1 == len(batches_of):
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            sched.step()
            opt.zero_grad()
        total += loss.item() * every
    return total / len(batches_of)


def main():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
    rows = load_dataset("json", data_files="rows.jsonl", split="train")
    loader = DataLoader(rows, batch_size=2, shuffle=True, collate_fn=default_data_collator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, 3 * len(loader))
    for epoch in range(3):
        train_loss = train_epoch(model, loader, optimizer, scheduler, "cuda")
        print(epoch, train_loss)
    model.save_pretrained("out")


main()
"""


def test_a_function_that_trains_an_epoch_is_ported_with_the_loop_that_calls_it() -> None:
    found = port(SCRIPT)
    assert found.status == "ported", found.findings
    for code in ("rows,", "epochs=3,", "accumulation=4,", "clip_by_global_norm(0.5)", "trainer.train(batches)"):
        assert code in found.after
    assert "train_epoch" not in found.after and "3 * math.ceil(len(rows) / 2)" in found.after
    again = port(SCRIPT.replace('"cuda")\n        print', '"cuda", every=8)\n        print'))
    assert again.status == "ported" and "accumulation=8," in again.after


CALL = '        train_loss = train_epoch(model, loader, optimizer, scheduler, "cuda")\n'


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (CALL, CALL + CALL.replace("train_loss", "again"), "given it"),
        (CALL, f"        if epoch:\n    {CALL}        else:\n            train_loss = 0\n", "isn't called by every"),
        ("    total = 0\n", "    total = 0\n    every = pick(net.config)\n", "known within `train_epoch` alone"),
        (CALL, f"{CALL}        prune(model)\n", "`prune` gets `model`"),
        ("net.parameters(), 0.5", "net.parameters(), len(device)", "`len(device)` is known within `train_epoch` alone"),
        ("def train_epoch(", "@timed\ndef train_epoch(", "it runs several times"),
        ("            sched.step()\n", "            sched.step(loss)\n", "steps by what it is given"),
    ],
)
def test_an_epoch_of_another_kind_is_refused(old: str, new: str, why: str) -> None:
    assert old in SCRIPT
    found = port(SCRIPT.replace(old, new, 1))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


HEAD, EPOCH, MAIN = SCRIPT.removesuffix("\n\n\nmain()\n").split("\n\n\ndef ")


@pytest.mark.parametrize(("owner", "status"), [("self", "ported"), ("tuner", "unsupported")])
def test_an_attribute_of_self_is_known_in_another_method_and_nowhere_else(owner: str, status: str) -> None:
    method = f"def {EPOCH}".replace("(net,", "(self, net,").replace("0.5", "self.limit")
    main = f"def {MAIN}".replace("train_epoch(", f"{owner}.train_epoch(").replace("main()", f"main({owner})")
    text = f"{HEAD}\n\n\nclass Tuner:\n    limit = 0.25\n\n{indent(method, '    ')}\n\n\n"
    text += f"{indent(main, '    ')}\n\n\nTuner().main()\n" if owner == "self" else f"{main}\n\n\nmain(Tuner())\n"
    found = port(text)
    assert found.status == status, found.findings
    known = any("`self.limit` is known within `train_epoch` alone" in each.message for each in found.findings)
    assert known is (owner == "tuner"), found.findings


def test_another_function_that_trains_in_each_epoch_is_named() -> None:
    other = (
        "def other(batches_of):\n    for batch in batches_of:\n        critic(batch).loss.backward()\n\n\ndef main():"
    )
    found = port(SCRIPT.replace("def main():", other).replace(CALL, f"{CALL}        other(loader)\n"))
    assert found.status == "unsupported" and found.edits == ()
    assert any("`other` trains as well" in finding.message for finding in found.findings), found.findings


def test_epochs_that_come_again_in_another_loop_are_refused() -> None:
    loop = "    for epoch in range(3):\n"
    body = SCRIPT.partition(loop)[2].partition("    model.save")[0]
    again = "".join(f"    {line}\n" for line in body.splitlines())
    found = port(SCRIPT.replace(loop + body, f"    for fold in range(2):\n    {loop}{again}"))
    assert found.status == "unsupported" and found.edits == ()
