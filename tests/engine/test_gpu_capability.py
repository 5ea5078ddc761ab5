"""The GPU's compute capability: that of the GPU that the file names, else of an Ampere; said with what hangs on it."""

from __future__ import annotations

import pytest

from porter.engine.packs.facts import note_facts
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.machine.gpu_of_run import GpuOfRun, gpu_of_run
from porter.source.parsing import parse_module, parse_notebook
from tests.notebooks import cell
from tests.notebooks import notebook as made
from tests.notebooks import printed as out

from .porting import port, sft_script

ASKED = "torch.cuda.get_device_capability()"


def notebook(text: str, printed: str = "", **metadata: object) -> Port:
    """The port of a notebook of one cell, which has `printed` something."""
    document = made(cell(text, *[out(printed)] * bool(printed)), **metadata)
    return port_module(parse_notebook(document.encode(), "train.ipynb"), Options())


def said(ported: Port) -> list[tuple[str, str]]:
    return [(finding.severity, finding.message) for finding in ported.findings if finding.rule == "TP538"]


@pytest.mark.parametrize(
    ("asks", "kept"),
    [
        (f"if {ASKED}[0] >= 8:\n    rows = 64\nelse:\n    rows = 32\n", "rows = 64"),
        (f"major, _ = {ASKED}\nif major >= 8:\n    rows = 64\nelse:\n    rows = 32\n", "rows = 64"),
        (f"major, minor = {ASKED}\nif major * 10 + minor < 75:\n    rows = 64\nelse:\n    rows = 32\n", "rows = 32"),
        (f"if {ASKED} >= (8, 9):\n    rows = 64\nelse:\n    rows = 32\n", "rows = 32"),
        ("gpu = torch.cuda.get_device_properties(0)\nrows = 64 if gpu.major >= 8 else 32\n", "rows = 64"),
        ("new = torch.cuda.get_device_properties('cuda').major >= 8\nrows = 64 if new else 32\n", "rows = 64"),
        (f"if torch.cuda.is_available() and {ASKED}[0] >= 9:\n    rows = 64\nelse:\n    rows = 32\n", "rows = 32"),
    ],
)
def test_conditions_are_decided_as_on_an_ampere_where_no_gpu_is_named(asks: str, kept: str) -> None:
    ported = port(sft_script(f"{asks}sys.argv.append(rows)", imports="import sys\nimport torch"))
    assert ported.status == "ported" and f"\n{kept}\n" in ported.after
    assert "torch" not in ported.after and "major" not in ported.after
    ((severity, message),) = said(ported)
    assert severity == "warning" and "of an Ampere or newer, 8.0: no GPU is named" in message and "` is " in message


@pytest.mark.parametrize(
    ("printed", "kept", "how"),
    [
        ("| N/A   34C    P8    Tesla T4    Off |", "rows = 32", "of a T4, 7.5: the notebook's outputs name it"),
        ("NVIDIA A100-SXM4-40GB\n", "rows = 64", "of a A100, 8.0: the notebook's outputs name it"),
        ("NVIDIA GeForce RTX 4090. Max memory: 23.6 GB.", "rows = 64", "of a RTX 4090, 8.9: the notebook's outputs"),
        ("/home/me/.venv/lib/python3.12/site-packages/peft/x.py:270: UserWarning", "rows = 64", "no GPU is named"),
        ("C:\\Users\\me\\venv\\Lib\\site-packages\\tqdm\\auto.py:21: TqdmWarning", "rows = 64", "no GPU is named"),
        ("/usr/local/lib/python3.11/dist-packages/peft/x.py: UserWarning", "rows = 32", "name it for Colab"),
        ("Tesla T4 and NVIDIA L4 were compared", "rows = 32", "name it for Colab"),
    ],
)
def test_what_a_notebook_has_printed_goes_over_its_metadata(printed: str, kept: str, how: str) -> None:
    asks = f"if {ASKED}[0] >= 8:\n    rows = 64\nelse:\n    rows = 32\nsys.argv.append(rows)"
    ported = notebook(sft_script(asks, imports="import sys\nimport torch"), printed, colab={"gpuType": "T4"})
    assert kept in ported.after and ("rows = 64" in ported.after) != ("rows = 32" in ported.after)
    ((_, message),) = said(ported)
    assert how in message


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ({"accelerator": "GPU", "colab": {"gpuType": "T4"}}, "rows = 32"),
        ({"accelerator": "GPU", "colab": {"gpuType": "A100"}}, "rows = 64"),
        ({"kaggle": {"accelerator": "nvidiaTeslaP100"}}, "rows = 32"),
        ({"kaggle": {"accelerator": "none"}}, "rows = 64"),
        ({"colab": "T4"}, "rows = 64"),
    ],
)
def test_a_notebook_names_its_gpu(metadata: dict[str, object], kept: str) -> None:
    asks = f"if {ASKED}[0] >= 8:\n    rows = 64\nelse:\n    rows = 32\nsys.argv.append(rows)"
    ported = notebook(sft_script(asks, imports="import sys\nimport torch"), **metadata)
    assert kept in ported.after and ("rows = 64" in ported.after) != ("rows = 32" in ported.after)


def named(text: str) -> GpuOfRun:
    module = parse_module(text.encode(), "train.py")
    note_facts(module, facts_in(load_packs()))
    return gpu_of_run(module)


def test_modal_is_asked_for_a_gpu() -> None:
    text = "import modal\napp = modal.App()\n\n@app.function(gpu='L40S:2')\ndef train():\n    pass  # gpu='T4'\n"
    assert named(text).capability == (8, 9)
    both = text + "\n@app.function(gpu='T4')\ndef test():\n    pass\n"
    assert named(both).name == ""


def test_what_only_tells_goes_also_where_a_condition_is_around_it() -> None:
    asks = (
        f"if len(sys.argv) > 1:\n    major, _ = {ASKED}\n    if major >= 8:\n        print('=' * 80)\n"
        "        print('Your GPU supports bfloat16')\n        print('=' * 80)\ntorch.cuda.current_device()\n"
    )
    ported = port(sft_script(asks, imports="import sys\nimport torch"))
    assert ported.status == "ported" and "print" not in ported.after and "torch" not in ported.after
    assert said(ported) == []


def test_an_installation_that_hangs_on_it_is_that_of_the_gpu() -> None:
    install = "if major >= 8:\n    !pip install flash-attn\nelse:\n    !pip install xformers einops\n"
    asks = f"major, minor = {ASKED}\n{install}"
    ported = notebook(sft_script(asks, imports="import torch"), colab={"gpuType": "T4"})
    assert "einops" in ported.after and "flash" not in ported.after and "major" not in ported.after
    ((severity, message),) = said(ported)
    assert severity == "info" and "of a T4, 7.5: the notebook's metadata name it for Colab" in message


def test_numbers_that_something_else_reads_stay_numbers() -> None:
    asks = f"major, minor = {ASKED}\nsys.argv.append(f'{{major}}.{{minor}}')\nsys.argv.append({ASKED})\n"
    ported = port(sft_script(asks, imports="import sys\nimport torch"))
    assert "major, minor = (8, 0)\n" in ported.after and "sys.argv.append((8, 0))" in ported.after
    assert ported.status == "ported" and port(ported.after).after == ported.after


@pytest.mark.parametrize(
    ("gpu", "imports", "fate"), [("T4", "unsloth", "changed"), ("A100", "unsloth", "exact"), ("T4", "json", "exact")]
)
def test_fp16_of_a_gpu_without_bfloat16_is_what_it_was(gpu: str, imports: str, fate: str) -> None:
    asks = ", fp16=not torch.cuda.is_bf16_supported()"
    ported = notebook(sft_script(imports=f"import {imports}\nimport torch", config=asks), colab={"gpuType": gpu})
    [row] = [row for row in ported.fields if row.source.endswith(".fp16")]
    assert row.fate == fate and bool([each for _, each in said(ported) if "loss scaling" in each]) is (
        fate == "changed"
    )
