"""What a training loop does besides training: ends of its own, guards, checkpoints, evaluations, what it fills."""

from __future__ import annotations

import textwrap

import pytest

from .porting import port
from .standard_loops import ACCUMULATED, BEHIND, SCRIPT

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
