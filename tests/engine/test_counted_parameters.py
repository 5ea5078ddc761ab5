"""Walks over a model's parameters: those that count them or cast what is trained have a form in the port."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port
from .trainer_scripts import LOADED


@pytest.mark.parametrize(
    ("count", "ported"),
    [
        ("sum(p.numel() for p in m.parameters())", "rt.count_parameters(m)"),
        ("sum(p.numel() for p in m.parameters() if p.requires_grad)", "rt.count_parameters(m, trainable=True)"),
        ("sum(p.numel() for _, p in m.named_parameters())", "rt.count_parameters(m)"),
    ],
)
def test_parameters_are_counted(count: str, ported: str) -> None:
    check_becomes(f"{LOADED}print({count})\n", f"print({ported})\n")


def test_other_walks_over_the_parameters_are_said() -> None:
    found = port(f"{LOADED}print(sum(p.norm() for p in m.parameters()))\n")
    assert found.status == "partial"


def test_a_function_that_only_counts_parameters_is_the_runtimes() -> None:
    function = (
        "def show(model):\n    n = a = 0\n    for _, p in model.named_parameters():\n        a += p.numel()\n"
        "        if p.requires_grad:\n            n += p.numel()\n    print(n, a)\n"
    )
    check_becomes(LOADED.replace("m = Auto", f"{function}m = Auto") + "show(m)\n", "rt.print_trainable_parameters(m)\n")
    frozen = function.replace("n += p.numel()", "p.requires_grad = False")
    assert port(LOADED.replace("m = Auto", f"{frozen}m = Auto") + "show(m)\n").status == "partial"


def test_casts_of_what_is_trained_go() -> None:
    cast = "for n, p in m.named_parameters():\n    if p.requires_grad:\n        p.data = p.data.to(torch.float32)\n"
    check_becomes(
        "import torch\n" + LOADED.replace("trainer = ", f"{cast}trainer = "), gone=("torch.", "named_parameters")
    )
    other = cast.replace("float32", "bfloat16")
    assert port("import torch\n" + LOADED.replace("trainer = ", f"{other}trainer = ")).status == "partial"


@pytest.mark.parametrize(
    ("model", "loader", "said"),
    [
        ("google/gemma-3-4b-it", "AutoModelForCausalLM", True),
        ("google/gemma-3-1b-it", "AutoModelForCausalLM", False),
        ("google/gemma-3-4b-it", "Gemma3ForCausalLM", False),
        ("google/gemma-3-4b-it' if rows else 'google/gemma-3-4b-pt", "AutoModelForCausalLM", True),
    ],
)
def test_a_count_of_a_model_that_sees_is_the_texts(model: str, loader: str, said: bool) -> None:
    text = LOADED.replace("Qwen/Qwen3-0.6B", model).replace("AutoModelForCausalLM", loader)
    text += "# not google/gemma-3-4b-it\n"  # whatever else the file speaks of
    found = port(f"{text}print(sum(p.numel() for p in m.parameters()), m.num_parameters())\n")
    assert sum("the tower that sees" in each.message for each in found.findings) == 2 * said
