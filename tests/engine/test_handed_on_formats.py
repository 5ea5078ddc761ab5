"""Keywords of BitsAndBytesConfig at from_pretrained, which makes one of them beside a flag, before transformers 5."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port, sft_script

IMPORTS = "import torch\nfrom peft import LoraConfig"


def loaded(keywords: str) -> Port:
    text = sft_script(imports=IMPORTS, load=f", {keywords}", trainer=", peft_config=LoraConfig()")
    return port(text, source_trl="0.12.0")


@pytest.mark.parametrize(
    ("keywords", "written"),
    [
        ('load_in_4bit=True, bnb_4bit_quant_type="nf4"', 'quantization="nf4"'),
        (
            'load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, '
            "bnb_4bit_compute_dtype=torch.float16",
            'quantization="nf4"',
        ),
        ("load_in_8bit=True, llm_int8_threshold=6.0", 'quantization="int8"'),
        (
            'load_in_8bit=True, llm_int8_skip_modules=["q_proj"]',
            'quantization={"load_in_8bit": True, "llm_int8_skip_modules": ["q_proj"]}',
        ),
        (
            "load_in_4bit=four, bnb_4bit_quant_type=form",
            'quantization={"load_in_4bit": four, "bnb_4bit_quant_type": form}',
        ),
    ],
)
def test_they_make_its_format(keywords: str, written: str) -> None:
    found = loaded(keywords)
    assert found.status == "ported" and written in found.after
    assert "manual" not in {row.fate for row in found.fields}
    fp4 = [each for each in found.findings if "fp4" in each.message]
    assert not fp4


@pytest.mark.parametrize("flag", ["", "load_in_4bit=False, "])
def test_without_a_flag_the_models_class_gets_them_and_raises(flag: str) -> None:
    found = loaded(f'{flag}bnb_4bit_quant_type="nf4"')
    assert found.status == "partial"
    assert any("bnb_4bit_quant_type is not a keyword" in each.message for each in found.findings)


BESIDE = """kwargs = {}
if len(sys.argv) > 1:
    kwargs["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
"""


@pytest.mark.parametrize(
    ("before", "keywords", "written"),
    [
        (
            BESIDE,
            'load_in_4bit=True, bnb_4bit_quant_type="nf4", **kwargs',
            'kwargs.get("quantization_config") or "nf4"',
        ),
        (
            BESIDE,
            "load_in_4bit=len(sys.argv) > 2, **kwargs",
            'kwargs.get("quantization_config") or {"load_in_4bit": len(sys.argv) > 2}',
        ),
        (
            "config = None\nif len(sys.argv) > 1:\n    config = BitsAndBytesConfig(load_in_8bit=True)\n",
            "load_in_4bit=True, quantization_config=config",
            'config or "fp4"',
        ),
    ],
)
def test_beside_a_config_that_the_run_may_give_they_are_read_without_one(
    before: str, keywords: str, written: str
) -> None:
    imports = f"import sys\n{IMPORTS}\nfrom transformers import BitsAndBytesConfig"
    text = sft_script(before, imports=imports, load=f", {keywords}", trainer=", peft_config=LoraConfig()")
    found = port(text, source_trl="0.12.0")
    assert found.status == "ported", found.findings
    assert f"quantization={written}" in " ".join(found.after.split())
    assert any("beside a quantization_config" in each.message for each in found.findings)


def test_so_they_are_of_a_reference() -> None:
    imports = "import sys\nfrom transformers import BitsAndBytesConfig\nfrom trl import DPOConfig, DPOTrainer"
    load = 'ref = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", load_in_4bit=True, **kwargs)'
    text = sft_script(BESIDE + load, imports=imports, trainer=", ref_model=ref")
    text = text.replace("= SFTTrainer", "= DPOTrainer").replace("=SFTConfig", "=DPOConfig")
    found = port(text, source_trl="0.12.0")
    written = 'quantization=kwargs.get("quantization_config") or {"load_in_4bit": True}'
    assert written in " ".join(found.after.split()), found.after
