"""Loads that one variable holds in turn: what reaches the trainer is trained, whatever the name held before."""

from __future__ import annotations

import pytest

from .porting import port, sft_script
from .unsloth_scripts import LOAD, script

SAVED = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\nmodel.save_pretrained('base')\n"
ONCE = (
    "import os\nif not os.path.exists('base'):\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
)
IMPORTS = "from transformers import AutoModelForCausalLM\n"


@pytest.mark.parametrize("before", [SAVED, ONCE + "    model.save_pretrained('base')\n    del model\n"])
def test_a_model_in_front_of_unsloths_stays_torchs(before: str) -> None:
    text = script().replace("model, tokenizer = " + LOAD, f"{IMPORTS}{before}model, tokenizer = {LOAD}")
    found = port(text)
    assert found.status == "ported", found.findings
    assert "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B'" in found.after
    assert "rt.load_model('unsloth/Qwen3-0.6B'" in found.after.replace('"', "'") and 'unsloth="' in found.after


def test_the_second_of_two_loads_is_trained() -> None:
    found = port(sft_script(imports=IMPORTS).replace("model = Auto", SAVED + "model = Auto", 1))
    assert found.status == "ported" and 'rt.load_model("Qwen/Qwen3-0.6B", mesh' in found.after
    assert "model.save_pretrained('base')" in found.after and "rt.load_model('Qwen/Qwen2.5" not in found.after


def test_loads_in_branches_are_both_trained() -> None:
    two = "if len(str(load_dataset)) > 9:\n    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
    found = port(sft_script(imports=IMPORTS, between=two))
    assert found.after.count("rt.load_model(") == 2


@pytest.mark.parametrize(
    ("between", "written"),
    [
        ("model.save_pretrained('base')", "rt.save_model(model, 'base')"),
        (
            "model = get_peft_model(model, LoraConfig(r=8))\nmodel.save_pretrained('base')",
            "rt.save_adapter(model, 'base')",
        ),
        (
            "model.save_pretrained('base')\nmodel = get_peft_model(model, LoraConfig(r=8))",
            "rt.save_model(model, 'base')",
        ),
    ],
)
def test_a_base_that_is_saved_in_front_of_its_adapters_is_saved_whole(between: str, written: str) -> None:
    given = "" if "get_peft" in between else ", peft_config=LoraConfig(r=8)"
    found = port(sft_script(imports="from peft import LoraConfig, get_peft_model", between=between, trainer=given))
    assert found.status == "ported" and written in found.after, found.after


def test_a_quantised_base_is_not_saved_whole() -> None:
    load = ", quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
    imports = "from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    text = sft_script(imports=imports, between="model.save_pretrained('base')", trainer=", peft_config=LoraConfig(r=8)")
    found = port(text.replace(', dtype="bfloat16"', load))
    assert found.status == "partial" and "A quantised base is saved here" in str(found.findings)


def test_a_second_stage_prepares_a_base_of_its_own() -> None:
    imports = IMPORTS + (
        "from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training\n"
        "from trl import DPOConfig, DPOTrainer\n"
    )
    second = (
        "trainer.train()\ntrainer.save_model('sft')\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
        "model = prepare_model_for_kbit_training(model)\n"
        "model = PeftModel.from_pretrained(model, 'sft', is_trainable=True)\n"
        "trainer = DPOTrainer(model, ref_model=None, args=DPOConfig('dpo'), train_dataset=rows)\ntrainer.train()\n"
    )
    adapters = "model = get_peft_model(model, LoraConfig(r=8))"
    found = port(sft_script("rows = load_dataset('me/pairs')", imports=imports, between=adapters, after=second))
    said = [finding.message for finding in found.findings if finding.rule in ("TP202", "TP204")]
    assert not any("get_peft_model" in message for message in said), said
    assert found.after.count("rt.load_model(") == 2 and "rt.apply_adapter(model, 'sft', mesh" in found.after
