"""What only replaced code used: functions of DeepSpeed and torch, device maps, gathered weights."""

import pytest

from .porting import port

SCRIPT = """import os
import torch
from datasets import load_dataset
from deepspeed import zero
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def gathered(param):
    if hasattr(param, "ds_id"):
        with zero.GatheredParameters([param]):
            return param.data.detach().cpu().clone()
    return param


def weights_of(named):
    return {{name: gathered(value) for name, value in named}}


def mine():
    return torch.zeros(3)


world_size = int(os.environ.get("WORLD_SIZE", 1))
ddp = world_size != 1
{place}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map=device_map)
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"]))
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
{save}
"""
PLACE = 'device_map = "auto"\nif ddp:\n    device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}'
SAVE = 'weights = weights_of(model.named_parameters())\nmodel.save_pretrained("out", state_dict=weights)'


def test_what_gathers_weights_goes_with_its_functions() -> None:
    ported = port(SCRIPT.format(place=PLACE, save=SAVE))
    assert ported.status == "ported", ported.findings
    assert "def gathered" not in ported.after and "weights_of" not in ported.after and "deepspeed" not in ported.after
    assert "def mine" in ported.after, "the source never called it: it is the user's"
    assert 'rt.save_adapter(model, "out")' in ported.after


def test_a_device_map_goes_with_what_was_calculated_for_it() -> None:
    after = port(SCRIPT.format(place=PLACE, save=SAVE)).after
    assert "device_map" not in after and "ddp" not in after and "world_size" not in after


@pytest.mark.parametrize("also", ["print(device_map)", "place = device_map\nprint(place)"])
def test_one_that_is_read_elsewhere_stays(also: str) -> None:
    after = port(SCRIPT.format(place=f"{PLACE}\n{also}", save=SAVE)).after
    assert 'device_map = "auto"' in after and "ddp = world_size != 1" in after


def test_one_that_does_more_than_answer_stays() -> None:
    after = port(SCRIPT.format(place="device_map = place_layers()", save=SAVE)).after
    assert "device_map = place_layers()" in after


def test_weights_that_are_used_elsewhere_stay() -> None:
    ported = port(SCRIPT.format(place=PLACE, save=f"{SAVE}\nprint(len(weights))"))
    assert "weights = weights_of(" in ported.after and "def gathered" in ported.after


def test_a_function_that_a_person_has_to_carry_over_stays() -> None:
    text = SCRIPT.format(place=PLACE, save=SAVE).replace("def mine():", "def mine(model):")
    ported = port(text.replace("    args=SFTConfig(", "    optimizers=(mine(model), None),\n    args=SFTConfig("))
    assert ported.status == "partial"
    assert "def mine(model):" in ported.after and "def gathered" not in ported.after
