"""Models and adapters that Tunix and Qwix don't have: refused by what they are, wherever the trainer is."""

import pytest

from .porting import port

SCRIPT = """from datasets import load_dataset
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForVision2Seq, AutoProcessor, Idefics3ForConditionalGeneration
from trl import {kind}Config, {kind}Trainer
name = "HuggingFaceTB/Some-Model"
{model}
trainer = {kind}Trainer(
    model=model,
    args={kind}Config("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoProcessor.from_pretrained(name),
)
trainer.train()
"""


@pytest.mark.parametrize("kind", ["SFT", "DPO"])
@pytest.mark.parametrize("name", ["Idefics3ForConditionalGeneration", "AutoModelForVision2Seq"])
def test_vision_and_language_is_refused(kind: str, name: str) -> None:
    load = f"model = {name}.from_pretrained(name)\nmodel = get_peft_model(model, LoraConfig(r=8))"
    ported = port(SCRIPT.format(kind=kind, model=load))
    assert ported.status == "unsupported" and "rt." not in ported.after
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message.startswith(f"{name}: Tunix has no implementation")


def test_unsloth_s_vision_models_are_refused() -> None:
    load = "from unsloth import FastVisionModel\nmodel, tokenizer = FastVisionModel.from_pretrained(name)\n"
    load += "model = FastVisionModel.get_peft_model(model, r=16)"
    ported = port(SCRIPT.format(kind="SFT", model=load))
    assert ported.status == "unsupported"
    assert any(finding.message.startswith("FastVisionModel: Tunix has no") for finding in ported.findings)


def test_by_condition_it_is_for_a_person_to_decide() -> None:
    load = "if len(name) > 9:\n    model = AutoModelForVision2Seq.from_pretrained(name)\nelse:\n"
    load += "    model = AutoModelForCausalLM.from_pretrained(name)"
    assert port(SCRIPT.format(kind="SFT", model=load)).status == "partial"


def test_other_methods_of_peft_are_named() -> None:
    load = "model = AutoModelForCausalLM.from_pretrained(name)\n"
    load += "model = get_peft_model(model, PromptTuningConfig(num_virtual_tokens=8))"
    ported = port(SCRIPT.format(kind="SFT", model=load))
    assert ported.status == "partial"
    assert any(finding.message.startswith("PromptTuningConfig: ") for finding in ported.findings)


@pytest.mark.parametrize(
    ("model", "targets", "status"),
    [
        ("../models/base", ["query_key_value"], "unsupported"),
        ("../models/base", ["query_key_value", "q_proj"], "ported"),
        ("../models/base", ["self_attn.q_proj"], "ported"),
        ("../models/base", ["3.self_attn.q_proj"], "ported"),
        ("../models/glm_4_9b", ["q_proj"], "unsupported"),
        ("glm-edge-1.5b-chat", ["q_proj"], "unsupported"),
    ],
)
def test_layers_that_no_family_has_are_refused(model: str, targets: list[str], status: str) -> None:
    load = f"model = AutoModelForCausalLM.from_pretrained({model!r})\n"
    load += f"model = get_peft_model(model, LoraConfig(r=8, target_modules={targets}))"
    ported = port(SCRIPT.format(kind="SFT", model=load).replace("AutoProcessor", "AutoTokenizer"))
    assert ported.status == status
    errors = [finding.message for finding in ported.findings if finding.severity == "error"]
    assert all("Tunix has no implementation of " in message for message in errors)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "GPTNeoXForCausalLM", "PhiForCausalLM"])
@pytest.mark.parametrize("further", ["", "model.to('cuda')\n", "model = get_peft_model(model, LoraConfig(r=8))\n"])
def test_a_class_of_an_architecture_that_tunix_lacks_is_refused(name: str, further: str) -> None:
    load = f"from transformers import {name}\nmodel = {name}.from_pretrained(name)\n{further}"
    ported = port(SCRIPT.format(kind="SFT", model=load))
    assert ported.status == "unsupported" and "rt." not in ported.after
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message == f"{name}: Tunix has no implementation of this model family."


def test_a_class_of_a_family_that_tunix_has_is_not() -> None:
    load = "from transformers import Qwen3ForCausalLM\nmodel = Qwen3ForCausalLM.from_pretrained(name)\n"
    assert port(SCRIPT.format(kind="SFT", model=load)).status == "ported"


def test_of_another_task_nothing_else_is_said() -> None:
    load = "from transformers import AutoModelForSequenceClassification\n"
    load += "model = AutoModelForSequenceClassification.from_pretrained(name)\n"
    load += "model = get_peft_model(model, LoraConfig(r=8, task_type='SEQ_CLS'))"
    ported = port(SCRIPT.format(kind="SFT", model=load))
    [error] = [finding for finding in ported.findings if finding.severity in ("error", "warning")]
    assert error.message == "AutoModelForSequenceClassification: Tunix has no implementation of this kind of model."
    assert "write the answer as text" in error.fix
