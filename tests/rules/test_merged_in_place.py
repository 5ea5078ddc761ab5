"""TP216: what is saved by another name behind `merge_and_unload()`, which merges in place."""

from __future__ import annotations

import pytest

from tests.engine.porting import port, sft_script

IMPORTS = "from peft import LoraConfig, get_peft_model"
BY_SCRIPT = "base = model\nmodel = get_peft_model(base, LoraConfig(r=8))"
BY_TRAINER = ", peft_config=LoraConfig(r=8)"
MERGED = "merged = rt.merge_and_unload(model)\n"


def behind(after: str, *, by_trainer: bool = False) -> tuple[str, list[tuple[str, str]]]:
    given = {"trainer": BY_TRAINER} if by_trainer else {"between": BY_SCRIPT}
    found = port(sft_script(imports=IMPORTS, after=f"trainer.train()\n{after}\n", **given))
    said = [(each.severity, each.message) for each in found.findings if each.rule == "TP216"]
    return found.after.partition("    trainer.train(batches)\n")[2].strip(), said


@pytest.mark.parametrize("merge", ["merged = model.merge_and_unload()", "model.merge_and_unload()"])
def test_the_base_is_saved_merged(merge: str) -> None:
    text = f"{merge}\nbase.save_pretrained('out', safe_serialization=True)\nbase.push_to_hub('me/out')"
    saves = "merged.save_pretrained('out', safe_serialization=True)\nmerged.push_to_hub('me/out')"
    assert behind(text) == (MERGED + saves, [])


def test_a_base_that_the_trainer_put_adapters_into() -> None:
    text = "trainer.model.merge_and_unload()\nmodel.save_pretrained('out')"
    assert behind(text, by_trainer=True) == (f"{MERGED}merged.save_pretrained('out')", [])


def test_the_models_own_name_holds_what_is_merged() -> None:
    text = "model = model.merge_and_unload()\nbase.save_pretrained('out')"
    assert behind(text) == ("model = rt.merge_and_unload(model)\nmodel.save_pretrained('out')", [])


def test_what_is_saved_in_front_of_the_merge_is_the_adapter() -> None:
    text = "model.save_pretrained('adapter')\nmodel = model.merge_and_unload()\nmodel.save_pretrained('out')"
    becomes = "rt.save_adapter(model, 'adapter')\nmodel = rt.merge_and_unload(model)\nmodel.save_pretrained('out')"
    assert behind(text) == (becomes, [])


@pytest.mark.parametrize("save", ["model.save_pretrained('out')", "trainer.save_model('out')"])
def test_an_adapter_without_weights_is_said(save: str) -> None:
    """PEFT 0.21 writes adapter_model.safetensors with no tensor in it."""
    after, said = behind(f"merged = model.merge_and_unload()\n{save}")
    assert f"{MERGED}rt.save_adapter(model, 'out'" in after
    ((severity, message),) = said
    assert severity == "warning" and message.startswith(f"{save}: merge_and_unload has merged this model in place")


def test_a_merge_by_condition_is_left_to_a_person() -> None:
    _, ((severity, message),) = behind("if len(IDS):\n    model.merge_and_unload()\nbase.save_pretrained('out')")
    assert severity == "error" and "isn't known at port time" in message
    _, ((severity, message),) = behind("if len(IDS):\n    model.merge_and_unload()\nmodel.save_pretrained('out')")
    assert severity == "warning" and "may have merged" in message
