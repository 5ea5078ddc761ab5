"""What only replaced code used: functions of DeepSpeed and torch, device maps, gathered weights."""

import re
from pathlib import Path

import pytest

from porter.front.beside.with_modules import port_with_modules
from porter.port import Options

from .porting import port, sft_script

FUNCTIONS = """def gathered(param):
    if hasattr(param, "ds_id"):
        with zero.GatheredParameters([param]):
            return param.data.detach().cpu().clone()
    return param


def weights_of(named):
    return {name: gathered(value) for name, value in named}


def mine(model):
    return torch.zeros(3)


world_size = int(os.environ.get("WORLD_SIZE", 1))
ddp = world_size != 1
"""
PLACE = 'device_map = "auto"\nif ddp:\n    device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}'
SAVE = 'weights = weights_of(model.named_parameters())\nmodel.save_pretrained("out", state_dict=weights)'


def script(place: str = PLACE, save: str = SAVE, trainer: str = "") -> str:
    return sft_script(
        FUNCTIONS + place,
        imports="import os\nimport torch\nfrom deepspeed import zero\nfrom peft import LoraConfig, get_peft_model",
        load=", device_map=device_map",
        between='model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"]))',
        trainer=trainer,
        after=f"trainer.train()\n{save}",
    )


def test_what_gathers_weights_goes_with_its_functions() -> None:
    ported = port(script())
    assert ported.status == "ported", ported.findings
    assert "def gathered" not in ported.after and "weights_of" not in ported.after and "deepspeed" not in ported.after
    assert "def mine" in ported.after, "the source never called it: it is the user's"
    assert 'rt.save_adapter(model, "out")' in ported.after


def test_a_device_map_goes_with_what_was_calculated_for_it() -> None:
    after = port(script()).after
    assert "device_map" not in after and "ddp" not in after and "world_size" not in after


@pytest.mark.parametrize("also", ["print(device_map)", "place = device_map\nprint(place)"])
def test_one_that_is_read_elsewhere_stays(also: str) -> None:
    after = port(script(f"{PLACE}\n{also}")).after
    assert 'device_map = "auto"' in after and "ddp = world_size != 1" in after


def test_one_that_does_more_than_answer_stays() -> None:
    after = port(script("device_map = place_layers()")).after
    assert "device_map = place_layers()" in after


def test_weights_that_are_used_elsewhere_stay() -> None:
    ported = port(script(save=f"{SAVE}\nprint(len(weights))"))
    assert "weights = weights_of(" in ported.after and "def gathered" in ported.after


def test_a_function_that_a_person_has_to_carry_over_stays() -> None:
    ported = port(script(trainer=",\n    optimizers=(mine(model), None)"))
    assert ported.status == "partial"
    assert "def mine(model):" in ported.after and "def gathered" not in ported.after


def test_a_device_map_that_is_placed_by_a_call_in_one_branch_stays() -> None:
    after = port(script('device_map = "auto"\nif ddp:\n    device_map = place_layers()')).after
    assert 'device_map = "auto"' in after and "device_map = place_layers()" in after


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("low = True  # of the GPU", True),
        ("# As it is loaded\nlow = True", True),
        ("low = bool(1)", False),  # it calls
        ("low, other = True, 1\nprint(other)", False),
        ("low = True\nprint(low)", False),
        ("low = True\nprint('low')", False),  # by its name, for all that is known
        ("low = True\nprint(globals())", False),
        ("half = 2\nlow = half * 2 == 4", False),  # it compares
        ("half = 2\nlow = -half + 2", True),
    ],
)
def test_a_setting_goes_with_the_last_that_read_it(line: str, gone: bool) -> None:
    text = sft_script(f"{line}\n\nlast = 1", load=", low_cpu_mem_usage=low")
    after = port(text).after
    kept = [name for name in ("low", "half") if re.search(rf"(?m)^{name}\b", after)]
    assert kept == [name for name in ("low", "half") if name in line and not gone] and "As it is" not in after
    assert "\nlast = 1\n" in after, "the source never read it: it is the user's"


HELPER = """\
def memory():
    if torch.cuda.is_available():
        return {"allocated": torch.cuda.memory_allocated()}
"""


def test_a_helper_of_the_gpu_goes_where_the_script_is_ported_with_its_modules(tmp_path: Path) -> None:
    """That of the script; a module may have other callers, and nothing is said of what the port calls no more."""
    load = 'return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")'
    told = 'print(memory()["allocated"])'
    head = "import torch\nfrom transformers import AutoModelForCausalLM"
    module = f"{head}\n\n\n{HELPER}\n\ndef load():\n    {told}\n    {load}\n"
    (tmp_path / "loading.py").write_text(module)
    text = sft_script(f"{HELPER}\n{told}", imports="import torch\nfrom loading import load")
    text = text.replace('AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")', "load()")
    (tmp_path / "train.py").write_text(text)
    ported = port_with_modules(tmp_path / "train.py", Options())
    assert ported.status == "ported", ported.findings
    assert "torch" not in ported.after and "memory" not in ported.after
    (other,) = ported.modules
    assert "def memory():" in other.after and "print(" not in other.after
    assert not [each for each in (*ported.findings, *other.findings) if each.rule == "TP526"]


@pytest.mark.parametrize(
    ("load", "config", "gone"),
    [
        ("", "", True),
        (", no_such_keyword=low", "", False),  # which a person has to look at
        ("", ", packing=low", False),  # which the port's batches are given
    ],
)
def test_a_setting_that_is_still_needed_stays(load: str, config: str, gone: bool) -> None:
    after = port(sft_script("low = True\n", load=f", low_cpu_mem_usage=low{load}", config=config)).after
    assert ("low = True" not in after) is gone
