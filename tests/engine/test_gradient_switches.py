"""Loops that switch gradients: gone where they change nothing, left to a person elsewhere."""

import pytest

from .porting import port, sft_script

IMPORTS = "import torch\nfrom peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training"
ALL = "for p in model.parameters():\n    p.requires_grad = {}\n"
NAMED = "for name, p in model.named_parameters():\n    {}\n"
PUT_IN = "model = get_peft_model(model, LoraConfig(r=8))\n"
LORA = '"lora" in name'
TRAINED_ON = 'model = PeftModel.from_pretrained(model, "adapter", is_trainable=True)\n'


@pytest.mark.parametrize(
    "lines",
    [
        ALL.format(True),
        NAMED.format("p.requires_grad_()"),
        "model.requires_grad_(True)\n",
        ALL.format(False) + PUT_IN,
        "model.requires_grad_(False)\n" + PUT_IN,
        PUT_IN
        + NAMED.format(f"if {LORA}:\n        p.requires_grad = True\n    else:\n        p.requires_grad = False"),
        PUT_IN + NAMED.format("p.requires_grad = 'lora_' in name.lower()"),
        PUT_IN + NAMED.format("p.requires_grad = 'lora' in name or 'adapter' in name"),
        PUT_IN + NAMED.format("if 'lora' not in name:\n        p.requires_grad_(False)"),
        TRAINED_ON + NAMED.format(f"p.requires_grad = False\n    if {LORA}:\n        p.requires_grad = True"),
    ],
)
def test_what_is_trained_or_frozen_anyway(lines: str) -> None:
    found = port(sft_script(imports=IMPORTS, between=lines))
    assert found.status == "ported" and "requires_grad" not in found.after, found.after


def test_the_branch_of_a_choice_that_the_loop_stands_in() -> None:
    tuned = "if len(torch.__version__) > 5:\n    model = get_peft_model(model, LoraConfig(r=8))\nelse:\n    "
    found = port(sft_script(imports=IMPORTS, between=tuned + ALL.format(True).replace("\n    ", "\n        ")))
    assert "requires_grad" not in found.after
    merged = 'model = PeftModel.from_pretrained(model, "adapter")\nmodel = model.merge_and_unload()\n'
    found = port(sft_script(imports=IMPORTS, between=merged + ALL.format(True)))
    assert "requires_grad" not in found.after


def test_what_peft_freezes_in_the_trainer() -> None:
    given = sft_script(imports=IMPORTS, between=ALL.format(False), trainer=", peft_config=LoraConfig(r=8)")
    assert port(given).status == "ported"
    behind = sft_script(imports=IMPORTS, trainer=", peft_config=LoraConfig(r=8)")
    for value in (True, False):
        found = port(behind.replace("trainer.train()", f"{ALL.format(value)}trainer.train()"))
        assert found.status == "partial" and "requires_grad" in found.after


@pytest.mark.parametrize(
    "lines",
    [
        ALL.format(False),
        PUT_IN + ALL.format(True),
        PUT_IN + ALL.format(False),
        PUT_IN + NAMED.format("p.requires_grad = 'lora_A' in name"),
        PUT_IN + NAMED.format("p.requires_grad = 'lora' in name or 'norm' in name"),
        PUT_IN + NAMED.format("p.requires_grad = 'lora' in name and 'layers.3' in name"),
        PUT_IN + NAMED.format("if 'lora' not in name:\n        p.requires_grad = True"),
        NAMED.format("p.requires_grad = 'layers.3' in name"),
        ALL.format(True) + "print(p)\n",
        "model = prepare_model_for_kbit_training(model)\n" + ALL.format(True),
        'model = PeftModel.from_pretrained(model, "adapter")\n' + NAMED.format(f"p.requires_grad = {LORA}"),
        "if len(torch.__version__) > 5:\n    " + PUT_IN + ALL.format(False),
    ],
)
def test_what_trains_something_else_is_an_error(lines: str) -> None:
    found = port(sft_script(imports=IMPORTS, between=lines))
    assert found.status == "partial" and "requires_grad" in found.after, found.after


def test_a_quantised_base_takes_no_gradient() -> None:
    load = ", quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
    imports = f"{IMPORTS}\nfrom transformers import BitsAndBytesConfig"
    found = port(sft_script(imports=imports, load=load, between=ALL.format(True) + PUT_IN))
    assert found.status == "partial" and "requires_grad" in found.after
    assert port(sft_script(imports=imports, load=load, between=ALL.format(False) + PUT_IN)).status == "ported"


@pytest.mark.parametrize(
    ("line", "new"),
    [
        (
            "print(sum(p.numel() for p in filter(lambda p: p.requires_grad, model.parameters())))",
            "print(rt.count_parameters(model, trainable=True))",
        ),
        ("print(sum(p.nelement() for p in model.parameters()))", "print(rt.count_parameters(model))"),
        (
            "assert any(p.requires_grad for _, p in model.named_parameters())",
            "assert rt.count_parameters(model, trainable=True) > 0",
        ),
    ],
)
def test_counts_of_what_is_trained(line: str, new: str) -> None:
    found = port(sft_script(imports=IMPORTS, between=PUT_IN + line))
    assert found.status == "ported" and f"{new}\n" in found.after


def test_a_count_of_something_else_stays() -> None:
    line = "print(sum(p.numel() for p in filter(lambda p: p.ndim > 1, model.parameters())))"
    assert port(sft_script(imports=IMPORTS, between=PUT_IN + line)).status == "partial"
