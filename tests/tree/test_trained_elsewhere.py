"""Files that train nothing themselves: what a module of the project trains for them is named, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.front.port_script import port_script

from .projects import project

DPO = """\
import torch.nn.functional as F
from torch.optim import AdamW

BETA = 0.1


class DPO:
    def __init__(self, model, reference):
        self.model, self.reference = model, reference
        self.optimizer = AdamW(model.parameters(), lr=1e-6)

    def train(self, rows, epochs=1):
        for epoch in range(epochs):
            for batch in rows:
                better, worse = self.model(input_ids=batch["chosen"]), self.model(input_ids=batch["rejected"])
                loss = -F.logsigmoid(better.loss - worse.loss).mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()


def made(model, reference):
    return DPO(model, reference)
"""
SCRIPT = """\
{imported}
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="cuda")
{runs}
"""
TRAINING = [
    ("import trainers.dpo as dpo", "dpo.DPO(model, model).train([])"),
    ("from trainers.dpo import DPO as Trained", "Trained(model, model).train([])"),
    ("from trainers import dpo", "dpo.made(model, model).train([])"),
]
OTHERS = [
    ("from trainers.dpo import BETA", "model.train()\nprint(BETA, 'DPO')"),
    ("from trainers.dpo import DPO", "print(model)"),
    ("import trainers.dpo", "def made(model):\n    return model\n\n\nprint(made(model).DPO)"),
]


@pytest.mark.parametrize(("imported", "runs"), TRAINING)
def test_a_module_that_trains_for_a_script(imported: str, runs: str, tmp_path: Path) -> None:
    project(tmp_path, {"run.py": SCRIPT.format(imported=imported, runs=runs), "trainers/dpo.py": DPO})
    port = port_script(tmp_path / "run.py")
    assert port.status == "unsupported" and port.after == port.before
    (said,) = port.findings
    assert said.rule == "TP004" and said.line == 1 and "tpu-port trainers/dpo.py" in said.fix
    assert said.message.startswith("trainers/dpo.py trains here (torch.training_loop): This training loop is not")


@pytest.mark.parametrize(("imported", "runs"), OTHERS)
def test_a_module_that_nothing_trains_with(imported: str, runs: str, tmp_path: Path) -> None:
    project(tmp_path, {"run.py": SCRIPT.format(imported=imported, runs=runs), "trainers/dpo.py": DPO})
    assert port_script(tmp_path / "run.py").status == "unchanged"


@pytest.mark.parametrize(("way", "status"), [(TRAINING[0], "unsupported"), (OTHERS[0], "unchanged")])
def test_a_module_that_trains_for_a_notebook(way: tuple[str, str], status: str, tmp_path: Path) -> None:
    """`unchanged` was said of it, and exit code 0 given."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "source": text} for text in SCRIPT.format(imported=way[0], runs=way[1]).split("\n\n")]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    project(tmp_path, {"run.ipynb": json.dumps(book), "trainers/dpo.py": DPO})
    port = port_script(tmp_path / "run.ipynb")
    assert port.status == status
    assert ["nbconvert" in each.fix for each in port.findings] == [True] * (status == "unsupported")
