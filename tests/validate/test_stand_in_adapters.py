"""A made-up adapter for a script that starts from one that isn't here."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.validate.stand_ins.models.adapter import make_adapter
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
