"""Loops that cast what is trained: they go, however the parameters are chosen; others are named."""

import pytest

from .porting import port, sft_script

ADAPTERS = ',\n    peft_config=LoraConfig(r=8, target_modules=["q_proj"])'
CAST = "    param.data = param.data.to(torch.float32)"


def script(head: str, body: str = CAST) -> str:
    imports = "import torch\nfrom peft import LoraConfig"
    return sft_script(imports=imports, between=f"{head}\n{body}", trainer=ADAPTERS)


@pytest.mark.parametrize(
    "head",
    [
        "for param in model.parameters():",
        "for param in filter(lambda p: p.requires_grad, model.parameters()):",
        "for param in filter(lambda q:q.requires_grad, model.parameters()):",
    ],
)
def test_a_loop_that_only_casts_goes(head: str) -> None:
    ported = port(script(head))
    assert ported.status == "ported" and "param" not in ported.after.split("model = ", 1)[1].split("trainer", 1)[0]


@pytest.mark.parametrize("chosen", ["mine", "lambda p: mine(p)"])
def test_parameters_that_are_chosen_by_other_code_are_named(chosen: str) -> None:
    ported = port(script(f"for param in filter({chosen}, model.parameters()):"))
    assert ported.status == "partial"
    assert [finding.rule for finding in ported.findings if finding.severity == "error"] == ["TP190"]


@pytest.mark.parametrize(
    ("dtype", "more", "said"),
    [("float32", ", bf16=False", True), ("bfloat16", ", bf16=False", False), ("float32", "", False)],
)
def test_float32_products_are_said(dtype: str, more: str, said: bool) -> None:
    script = sft_script(config=more).replace('dtype="bfloat16"', f'dtype="{dtype}"')
    found = [finding.severity for finding in port(script).findings if "multiplies them in bfloat16" in finding.message]
    assert found == (["info"] if said else [])
