"""A made-up adapter for a script that starts from one that isn't here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.models.adapter import make_adapter
from porter.validate.stand_ins.models.folders import lacks_adapter
from porter.validate.stand_ins.substitutes import Substitutes
from tests import tiny

pytestmark = pytest.mark.real


def test_it_fits_its_base_and_is_the_same_twice(tmp_path: Path) -> None:
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    base = tiny.save("llama3", tmp_path / "base")
    assert make_adapter(tmp_path / "one", base) and make_adapter(tmp_path / "two", base)
    weights = "adapter_model.safetensors"
    assert (tmp_path / "one" / weights).read_bytes() == (tmp_path / "two" / weights).read_bytes()
    alone = AutoModelForCausalLM.from_pretrained(base)
    plain = {name: value.clone() for name, value in alone.state_dict().items()}
    merged = peft.PeftModel.from_pretrained(alone, tmp_path / "one").merge_and_unload().state_dict()
    changed = {name for name, value in merged.items() if not torch.equal(value, plain[name])}
    assert changed == {name for name in plain if name.endswith(("q_proj.weight", "v_proj.weight"))}


def test_a_model_without_such_layers_has_none(tmp_path: Path) -> None:
    assert not make_adapter(tmp_path / "adapter", tmp_path)
    assert not (tmp_path / "adapter").exists()


SETTINGS = {"r": 2, "lora_alpha": 6, "target_modules": ["o_proj", "up_proj"], "modules_to_save": None}


def test_one_whose_settings_are_there_without_its_weights_has_those(tmp_path: Path) -> None:
    """A repository that keeps no weights has `adapter_config.json` alone, or what Git LFS leaves in their place."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "outputs" / "sft"
    folder.mkdir(parents=True)
    named = SETTINGS | {"base_model_name_or_path": "TinyLlama/TinyLlama-1.1B-Chat-v1.0"}
    (folder / "adapter_config.json").write_text(json.dumps(named))
    assert lacks_adapter(folder)
    (folder / "adapter_model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    assert lacks_adapter(folder)

    substitutes = Substitutes(Settings(work=str(tmp_path / "work"), steps=1, sources=()), "source", [])
    found = Path(substitutes.model(str(folder)))
    assert not lacks_adapter(found)
    model = AutoModelForCausalLM.from_pretrained(found)
    lora = {name: value for name, value in model.named_parameters() if "lora_A" in name}
    assert {name.split(".lora_A")[0].rpartition(".")[2] for name in lora} == {"o_proj", "up_proj"}
    assert {value.shape[0] for value in lora.values()} == {2}
    assert AutoTokenizer.from_pretrained(found).eos_token == "</s>"
    # the same adapter, asked for by itself
    assert substitutes.adapter(str(folder), model.name_or_path) == str(found)


def test_one_that_is_whole_is_used(tmp_path: Path) -> None:
    base = tiny.save("llama3", tmp_path / "base")
    assert make_adapter(tmp_path / "adapter", base)
    assert not lacks_adapter(tmp_path / "adapter")
    assert not lacks_adapter(base)
    substitutes = Substitutes(Settings(work=str(tmp_path / "work"), steps=1, sources=()), "source", [])
    assert substitutes.adapter(str(tmp_path / "adapter"), str(base)) == str(tmp_path / "adapter")


@pytest.mark.parametrize(
    ("targets", "count"),
    [("all-linear", 7), (r".*\.(q|k)_proj", 2), (["q_proj"], 1), (["model.layers.0.mlp.down_proj"], 1)],
)
def test_layers_as_peft_names_them(tmp_path: Path, targets: object, count: int) -> None:
    base = tiny.save("llama3", tmp_path / "base")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"target_modules": targets}))
    assert len(make_adapter(tmp_path / "made", base, tmp_path)) == count
