"""Class methods of PEFT that are called on the trained model."""

from __future__ import annotations

from .porting import port, sft_script

IMPORTS = "from peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM"
ADAPTERS = "model = get_peft_model(model, LoraConfig(r=8))"
MERGE = (
    "trainer.train()\nmodel.save_pretrained('out')\n"
    "base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    "merged = model.from_pretrained(base, 'out').merge_and_unload()\nmerged.save_pretrained('whole')\n"
)


def test_an_adapter_is_loaded_by_its_class() -> None:
    found = port(sft_script(imports=IMPORTS, between=ADAPTERS, after=MERGE))
    assert found.status == "ported", found.findings
    assert "merged = PeftModel.from_pretrained(base, 'out').merge_and_unload()" in found.after
    assert "from peft import PeftModel\n" in found.after


def test_a_class_of_that_name_is_another() -> None:
    own = "class PeftModel:\n    pass\n\n\n"
    found = port(sft_script(own, imports=IMPORTS, between=ADAPTERS, after=MERGE))
    assert found.status == "partial" and "model.from_pretrained(base, 'out')" in found.after


def test_a_model_without_adapters_loads_another_whole() -> None:
    found = port(sft_script(imports=IMPORTS, after=MERGE))
    assert found.status == "partial" and "PeftModel" not in found.after
