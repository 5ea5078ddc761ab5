"""Training that no rule reads is named, and its file left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import check_noop

STEP = "loss = model(**row).loss\nloss.backward()\noptimizer.step()\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from mine import SFTTrainer\nt = SFTTrainer('m')\nt.train()\n",
            "SFTTrainer is mine.SFTTrainer, which no rule",
        ),
        ("import optimum.habana as h\nh.GaudiTrainer(m).train()\n", "h.GaudiTrainer is optimum.habana.GaudiTrainer"),
        (
            "import torch\nclass T(Base):\n    pass\nT2 = 1\nclass MyTrainer:\n    ...\nMyTrainer().fit()\n",
            "class of this",
        ),
        (
            "from transformers import TrainerCallback\ndef chosen(name): ...\n"
            "made, trainer_class = chosen('sft')\nt = trainer_class(**made)\nt.train()\n",
            "trainer_class is chosen when the script runs",
        ),
        ("from verl import Base\nclass MyTrainer(Base):\n    ...\nMyTrainer().fit()\n", "MyTrainer extends verl.Base"),
        (
            f"import torch\nfrom transformers import AutoModelForCausalLM\n{STEP}",
            "loss.backward() trains outside of a loop",
        ),
    ],
)
def test_training_that_no_rule_reads_is_named(text: str, said: str) -> None:
    found = check_noop(text)
    (finding,) = found.findings
    assert found.status == "unsupported" and finding.rule == "TP004" and said in finding.message and finding.fix


BESIDE_TOKENS = """\
import torch
import TOKENS


def train(model, loader, optimizer):
    for inputs, targets in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("library", "status"),
    [("tiktoken", "unsupported"), ("sentencepiece", "unsupported"), ("torchvision", "unchanged")],
)
def test_a_loop_beside_what_makes_token_ids_of_texts_trains_a_language_model(library: str, status: str) -> None:
    found = check_noop(BESIDE_TOKENS.replace("TOKENS", library))
    assert found.status == status
    assert {finding.rule for finding in found.findings} == ({"TP504"} if status == "unsupported" else set())


@pytest.mark.parametrize(
    "text",
    [
        "import tiktoken\n\n\nclass BPETrainer:\n    def train(self, text): ...\n\n\nBPETrainer().train('text')\n",
        "import tiktoken\nimport torch\n\nids = torch.tensor(tiktoken.get_encoding('gpt2').encode('text'))\n",
    ],
)
def test_a_file_that_makes_token_ids_and_trains_no_model_has_nothing_to_port(text: str) -> None:
    found = check_noop(text)
    assert found.status == "unchanged" and not found.findings


HELPER = """\
def metrics(loss):
    return loss.item()

def micro_step(
    model, batch,
):
    loss = model(**batch).loss
    loss.backward()
    return metrics(loss)
"""
STEPS = """\
import helper
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    print(helper.metrics(helper.{step}(model, batch)))
    optimizer.step()
    {then}
"""


@pytest.mark.parametrize(
    ("step", "then", "status"),
    [
        ("micro_step", "optimizer.zero_grad()", "unsupported"),
        ("metrics", "optimizer.zero_grad()", "unchanged"),  # nothing that it calls trains
        ("micro_step", "scheduler.zero_grad()", "unchanged"),
    ],
)
def test_a_loop_whose_backward_is_in_another_module_is_named(tmp_path: Path, step: str, then: str, status: str) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(STEPS.format(step=step, then=then))
    found = port_file(tmp_path / "train.py")
    said = ["helper.micro_step (helper.py) has the loss.backward()"] if status == "unsupported" else []
    assert found.status == status and [finding.message.partition(" of the")[0] for finding in found.findings] == said


def test_a_loop_whose_model_the_project_loads_is_named(tmp_path: Path) -> None:
    """The file itself imports no library of language models."""
    script = tmp_path / "main.py"
    script.write_text(
        "import torch\nfrom parts import load\n\nmodel, optimizer, rows = load()\nfor row in rows:\n"
        "    loss = model(row).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    parts = tmp_path / "parts.py"
    parts.write_text("import torch\n\ndef load(): ...\n")
    assert port_file(script).status == "unchanged"
    parts.write_text("from transformers import AutoModelForCausalLM\n\ndef load(): ...\n")
    assert port_file(script).status == "unsupported"
