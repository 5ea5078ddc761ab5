"""Imports of packages that a TPU machine has not: they go when nothing uses them, else the port ends there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..tree.projects import MODELS, ported
from .porting import port

SCRIPT = """\
{imported}
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model=model, args=SFTConfig(output_dir="out"), train_dataset=rows)
trainer.train()
{behind}
"""
VLLM = "from vllm import LLM, SamplingParams"


@pytest.mark.parametrize(
    "imported",
    [
        "from liger_kernel.transformers import AutoLigerKernelForCausalLM",
        "import flash_attn",
        "import triton.language as tl",
        "import torchao",
        VLLM,
        f"{VLLM}; import json",
    ],
)
def test_an_import_that_nothing_uses_goes(imported: str) -> None:
    found = port(SCRIPT.format(imported=imported, behind=""))
    assert found.status == "ported" and imported.split()[1].partition(".")[0] not in found.after


def test_a_port_that_ends_at_an_import_is_partial() -> None:
    """`ported: nothing left to do` was said of it."""
    found = port(SCRIPT.format(imported=VLLM, behind='print(LLM(model="out").generate("Hello"))'))
    assert found.status == "partial" and VLLM.replace(", SamplingParams", "") in found.after
    (said,) = [each for each in found.findings if each.severity == "error"]
    assert (said.rule, said.line) == ("TP001", 1) and "(line 10)" in said.fix
    assert said.message == "vllm is not on a TPU machine: the port ends at this import."


@pytest.mark.parametrize(
    "imported",
    [
        f"def sample():\n    {VLLM}\n    return LLM(model='out')\n",
        "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\nprint(flash_attn)",
    ],
)
def test_an_import_that_may_not_run_is_a_warning(imported: str) -> None:
    found = port(SCRIPT.format(imported=imported, behind=""))
    assert found.status == "ported"
    assert [each.severity for each in found.findings if each.rule == "TP001"] == ["warning"]


@pytest.mark.parametrize(("imports", "severity"), [("import xformers.ops\n", "error"), ("", None)])
def test_a_module_beside_the_port(imports: str, severity: str | None, tmp_path: Path) -> None:
    kernels = f"{imports}\n\ndef first(rows):\n    return rows[:1]\n"
    imported = "from models import load_model\nfrom kernels_of_ours import first\nprint(first([1]))"
    found = ported(tmp_path / "p", imported, "load_model", models=MODELS, kernels_of_ours=kernels)
    said = [each.severity for each in found.findings if "kernels_of_ours.py" in each.message]
    assert said == ([severity] if severity else [])
    assert found.status == ("partial" if severity else "ported")
