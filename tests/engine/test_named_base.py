"""A model that TRL was given beside `peft_config=`, saved and uploaded by its own name."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

WRAPPED = ", peft_config=LoraConfig(r=8)"
TRAINED = "trainer.train()\n"


@pytest.mark.parametrize(
    ("between", "trainer", "after", "says"),
    [
        ("", WRAPPED, "model.save_pretrained('out')", 1),
        ("", WRAPPED, "model.push_to_hub('me/out')\nmodel.save_pretrained('out')", 2),
        ("", WRAPPED, "trainer.model.save_pretrained('out')", 0),
        ("", WRAPPED, "trainer.save_model('out')\ntrainer.push_to_hub()", 0),
        ("", WRAPPED, "model = trainer.model\nmodel.save_pretrained('out')", 0),
        ("model = prepare_model_for_kbit_training(model)", WRAPPED, "model.save_pretrained('out')", 1),
        ("model = get_peft_model(model, LoraConfig(r=8))", "", "model.save_pretrained('out')", 0),
        ("base = model\nmodel = get_peft_model(base, LoraConfig(r=8))", "", "base.save_pretrained('out')", 1),
        ("base = model\nmodel = get_peft_model(base, LoraConfig(r=8))", "", "model.save_pretrained('out')", 0),
        ("", "", "model.save_pretrained('out')", 0),
        ("", ", peft_config=None", "model.save_pretrained('out')", 0),
    ],
)
def test_what_the_source_writes_is_said(between: str, trainer: str, after: str, says: int) -> None:
    imports = "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training"
    found = port(sft_script(imports=imports, between=between, trainer=trainer, after=TRAINED + after))
    said = [finding for finding in found.findings if "by its own name" in finding.message]
    assert [finding.severity for finding in said] == ["info"] * says, found.after
    assert not [finding for finding in found.findings if finding.severity == "error"]
