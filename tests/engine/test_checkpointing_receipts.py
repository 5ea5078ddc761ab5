"""Gradient checkpointing that is asked for in two places: every condition of it has its line, or is dropped."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port, sft_script
from .receipt_lines import SCRIPT, lines, row

PREPARED = "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training"
ADAPTERS = "model = get_peft_model(model, LoraConfig(r=8, target_modules=['q_proj']))"


def prepared(asked: str, keywords: str) -> Port:
    """The port of a script that prepares a quantised base and gives its config keywords."""
    load = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom own import flag, other\n"
    load += "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', "
    load += "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4'))\n"
    before = f"{PREPARED}\n{load}model = prepare_model_for_kbit_training(model{asked})\n{ADAPTERS}\n"
    source = SCRIPT.format(before=before, keywords=f"max_steps=5, {keywords}")
    return port(source.replace('    "Qwen/Qwen3-0.6B",', "    model,"))


def test_checkpointing_that_is_on_in_any_case_drops_its_other_conditions() -> None:
    found = prepared("", "gradient_checkpointing=flag")
    one = row(found, "SFTConfig.gradient_checkpointing")
    assert (one.fate, one.reason) == (
        "dropped",
        "PEFT's k-bit preparation turns gradient checkpointing on",
    )
    assert "if flag" not in found.after and "rt.remat(model)" in found.after


def test_every_condition_of_checkpointing_is_written() -> None:
    found = prepared(", use_gradient_checkpointing=flag", "gradient_checkpointing=other")
    assert "if other or flag:\n    model = rt.remat(model)" in found.after
    for source in ("SFTConfig.gradient_checkpointing", "prepare_model_for_kbit_training.use_gradient_checkpointing"):
        assert lines(found, source) == ["if other or flag:"]


def test_a_condition_of_another_function_is_a_warning() -> None:
    found = port(
        "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom trl import SFTConfig, SFTTrainer\n\n"
        "def load(flag):\n"
        "    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=quantised)\n"
        "    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=flag)\n"
        f"    {ADAPTERS}\n    return model\n\n"
        "model = load(True)\n"
        "trainer = SFTTrainer(model, args=SFTConfig('out', gradient_checkpointing=False), train_dataset=rows)\n"
        "trainer.train()\n"
    )
    assert row(found, "prepare_model_for_kbit_training.use_gradient_checkpointing").fate == "manual"
    [finding] = [each for each in found.findings if "use_gradient_checkpointing=flag" in each.message]
    assert finding.severity == "warning" and "rt.remat" not in found.after.replace(finding.fix, "")


def test_checkpointing_that_is_on_whatever_is_asked() -> None:
    head = "import sys\nfrom peft import LoraConfig, prepare_model_for_kbit_training\n"
    load = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', load_in_4bit=True)\n"
    before = f"{load}model = prepare_model_for_kbit_training(model)\n"
    text = SCRIPT.format(before=before, keywords="gradient_checkpointing=len(sys.argv) > 1")
    text = f"{head}from transformers import AutoModelForCausalLM\n{text}"
    ported = port(text.replace('"Qwen/Qwen3-0.6B",', "model, peft_config=LoraConfig(r=4),"))
    assert ported.status == "ported", ported.findings
    assert "model = rt.remat(model)" in ported.after


OBJECT = """\
def made(lr=1e-4):
    args = SFTConfig(output_dir="out", max_steps=5, learning_rate=lr, gradient_checkpointing={})
    print(args)
    return args
args = made()
"""


@pytest.mark.parametrize(("asked", "fate"), [("True", "exact"), ("lr > 1", "dropped"), ("False", "dropped")])
def test_the_arguments_of_a_model_that_has_turned_it_on_itself(asked: str, fate: str) -> None:
    text = sft_script(between=f"model.gradient_checkpointing_enable()\n{OBJECT.format(asked)}")
    found = port(text.replace('args=SFTConfig(output_dir="out", max_steps=5, report_to="none")', "args=args"))
    assert row(found, "SFTConfig.gradient_checkpointing").fate == fate
    assert "\nmodel = rt.remat(model)" in found.after
    assert not [finding for finding in found.findings if "no line of the port" in finding.message]
