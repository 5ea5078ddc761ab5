"""Loops over the model's parameters that count them."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port, sft_script

SUM = """\
every = trained = 0
for _, param in model.named_parameters():
{body}
print(every, trained)
"""
COUNTED = "every += rt.count_parameters(model)\ntrained += rt.count_parameters(model, trainable=True)\nprint("


def looped(body: str) -> str:
    return SUM.replace("{body}", "\n".join(f"    {line}" for line in body.splitlines()))


@pytest.mark.parametrize(
    "body",
    [
        "every += param.numel()\nif param.requires_grad:\n    trained += param.numel()",
        "n = param.numel()\nevery += n\nif param.requires_grad:\n    trained += n",
        "n = param.numel()\nif n == 0 and hasattr(param, 'ds_numel'):\n    n = param.ds_numel\nevery += n\n"
        "if param.requires_grad:\n    trained += n",
    ],
)
def test_what_a_loop_adds_up_is_counted(body: str) -> None:
    check_becomes(sft_script(between=looped(body)), COUNTED, gone=("named_parameters",))


@pytest.mark.parametrize(
    "body",
    [
        "every += param.numel()\nprint(param)",
        "every -= param.numel()",
        "every += param.numel() * param.element_size()",
        "every += param.numel()\nif param.is_leaf:\n    trained += param.numel()",
        "every += param.numel()\nif param.requires_grad:\n    trained += 1",
    ],
)
def test_a_loop_that_does_more_is_left_to_a_person(body: str) -> None:
    found = port(sft_script(between=looped(body)))
    assert "model.named_parameters()" in found.after
    assert [each.rule for each in found.findings if each.severity == "error"] == ["TP190"]


def test_a_size_that_is_read_behind_the_loop_stays() -> None:
    text = sft_script(between=looped("n = param.numel()\nevery += n") + "print(n)")
    assert "model.named_parameters()" in port(text).after


def test_a_loop_in_a_function_that_gives_its_text_back() -> None:
    function = "def said(model):\n    every = 0\n    for p in model.parameters():\n        every += p.numel()\n"
    text = sft_script(f"{function}    return f'{{every}}'", between="print(said(model))")
    check_becomes(text, "    every += rt.count_parameters(model)\n    return f'{every}'\n", "print(said(model))\n")


def test_types_are_those_of_tunix_parameters() -> None:
    loop = "types = {}\nfor _, p in model.named_parameters():\n    types[p.dtype] = types.get(p.dtype, 0) + p.numel()\n"
    walk = (
        "for p in jax.tree.leaves(nnx.state(model, nnx.Param)):\n    types[p.dtype] = types.get(p.dtype, 0) + p.size\n"
    )
    check_becomes(sft_script(between=loop), walk, "from flax import nnx\n")
    named = loop.replace("for _,", "for name,").replace("types[p.dtype] =", "types[name] =")
    assert "model.named_parameters()" in port(sft_script(between=named)).after


FOUR = ", quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"
ALL = "print(sum(p.numel() for p in model.parameters()))"
PRINTS = (
    "def show(model):\n    every = 0\n    for _, p in model.named_parameters():\n        every += {}\n    print(every)"
)


@pytest.mark.parametrize(
    ("load", "counts", "said"),
    [
        (FOUR, ALL, True),
        (FOUR, looped("every += param.numel()\nif param.requires_grad:\n    trained += param.numel()"), True),
        (FOUR, f"{PRINTS.format('p.numel()')}\nshow(model)", True),
        (FOUR, ALL.replace("())", "() if p.requires_grad)"), False),
        (FOUR, looped("if param.requires_grad:\n    trained += param.numel()"), False),
        (FOUR, "print(model.num_parameters())", False),
        (FOUR.replace("4bit=True, bnb_4bit_quant_type='nf4'", "8bit=True"), ALL, False),
        (", load_in_8bit=int(input()) > 1", ALL, False),
        (", load_in_4bit=int(input()) > 1", ALL, True),
        ("", ALL, False),
    ],
)
def test_weights_of_four_bits_are_counted_by_halves_on_a_gpu(load: str, counts: str, said: bool) -> None:
    imports = "from peft import LoraConfig, get_peft_model\nfrom transformers import BitsAndBytesConfig"
    adapted = "model = get_peft_model(model, LoraConfig(r=8))\n"
    found = port(sft_script(imports=imports, load=load, between=adapted + counts))
    assert found.status == "ported" and "count" in found.after
    packed = [each for each in found.findings if "packs two into each element" in each.message]
    assert [each.severity for each in packed] == (["info"] if said else [])
