"""The batch that a notebook's outputs show, and the GPUs of its machine, where no launch is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options
from porter.recipe import Finding
from tests.notebooks import cell, notebook, printed

from .porting import sft_script

SCRIPT = sft_script(config=", per_device_train_batch_size=1, gradient_accumulation_steps=8")
UNSLOTH = """\
   \\\\   /|    Tesla T4. Num GPUs = {gpus}. Max memory: 14.741 GB. Platform: Linux.
==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1
O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = {accumulation}
\\        /    Data Parallel GPUs = 1 | Total batch size (2 x {accumulation} x 1) = {rows}
"""
TRANSFORMERS = """\
  Instantaneous batch size per device = {device}
  Total train batch size (w. parallel, distributed & accumulation) = {rows:,}
  Gradient Accumulation steps = 8
"""


def ported(path: Path, text: str) -> tuple[str, Finding]:
    """The processes of a port, and what is said of them."""
    path.write_text(notebook(cell(SCRIPT, printed(text))), "utf-8")
    port = port_file(path)
    processes = port.recipe.known("mesh.processes")
    return str(processes), next(each for each in port.findings if each.rule == "TP401")


@pytest.mark.parametrize(
    ("text", "processes", "severity", "said"),
    [
        (UNSLOTH.format(gpus=2, accumulation=8, rows=16), "2", "warning", "show 16 rows a step, 2 times the 8"),
        (
            UNSLOTH.format(gpus=1, accumulation=8, rows=16),
            "1",
            "warning",
            "show 16 rows a step, where the script says 8",
        ),
        (UNSLOTH.format(gpus=2, accumulation=4, rows=16), "1", "warning", "where the script says 8"),  # another day's
        (UNSLOTH.format(gpus=1, accumulation=8, rows=8), "1", "info", "show 8 rows a step, as one process has"),
        (TRANSFORMERS.format(device=1, rows=32), "4", "warning", "show 32 rows a step, 4 times the 8"),
        (TRANSFORMERS.format(device=4, rows=32), "1", "warning", "show 32 rows a step, where the script says 8"),
        (TRANSFORMERS.format(device=1, rows=4), "1", "warning", "show 4 rows a step, where the script says 8"),
        (TRANSFORMERS.format(device=1, rows=1024), "128", "warning", "show 1024 rows"),
        ("loss: 2.1\n", "1", "info", "No launch config: the GPU run is taken to be one process"),
    ],
)
def test_a_shown_batch_tells_the_processes(tmp_path: Path, text: str, processes: str, severity: str, said: str) -> None:
    found, finding = ported(tmp_path / "train.ipynb", text)
    assert (found, finding.severity) == (processes, severity) and said in finding.message


@pytest.mark.parametrize(
    ("accelerator", "hides", "warned"),
    [
        ("nvidiaTeslaT4", "", True),
        ("nvidiaTeslaP100", "", False),
        ("nvidiaTeslaT4", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n", False),
        ("nvidiaTeslaT4", "places = dict(device_map='auto')\n", False),
        ("nvidiaTeslaT4", "%env CUDA_VISIBLE_DEVICES=0", False),
    ],
)
def test_kaggles_two_gpus_are_fed_unless_one_is_hidden(
    tmp_path: Path, accelerator: str, hides: str, warned: bool
) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(hides or "1", SCRIPT, kaggle={"accelerator": accelerator}), "utf-8")
    finding = next(each for each in port_file(path).findings if each.rule == "TP401")
    assert (finding.severity == "warning" and "had 2 GPUs" in finding.message) is warned


def test_a_launch_that_is_known_needs_no_outputs(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(cell(SCRIPT, printed(TRANSFORMERS.format(device=1, rows=32)))), "utf-8")
    port = port_file(path, Options(processes=1))
    assert port.recipe.known("mesh.processes") == 1 and not any(each.rule == "TP401" for each in port.findings)


@pytest.mark.parametrize(("more", "told"), [(", group_by_length=True", True), (", group_by_length=False", False)])
def test_rows_that_are_grouped_by_length_are_told(tmp_path: Path, more: str, told: bool) -> None:
    path, text = tmp_path / "train.ipynb", SCRIPT.replace("accumulation_steps=8", f"accumulation_steps=8{more}")
    path.write_text(notebook(cell(text, printed(UNSLOTH.format(gpus=2, accumulation=8, rows=16)))), "utf-8")
    finding = next(each for each in port_file(path).findings if each.rule == "TP401")
    assert ("grouped rows by length over all" in finding.message) is told
