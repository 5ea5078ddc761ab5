"""What prepare_model_for_kbit_training makes of the type of a base: of which load, and without autocast."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port, sft_script

IMPORTS = """\
import argparse
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig
"""
ASKED = """\
parser = argparse.ArgumentParser()
parser.add_argument("--four", action="store_true")
parser.add_argument("--dtype", default="bfloat16")
args = parser.parse_args()
"""
NF4 = ', quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")'
PREPARED = "model = prepare_model_for_kbit_training(model)\n"
ADAPTED = "model = get_peft_model(model, LoraConfig(r=8, target_modules='all-linear'))"
BETWEEN = "hands float32 from layer to layer"


def script(load: str, between: str = PREPARED, bf16: str = "False", **more: str) -> str:
    text = sft_script(ASKED, imports=IMPORTS, load=load, between=between + ADAPTED, config=f", bf16={bf16}", **more)
    return text.replace(', dtype="bfloat16"', "") if "dtype=" in load else text


def said(found: Port, keyword: str) -> str:
    return " ".join(row.reason for row in found.fields if row.source.endswith(keyword))


@pytest.mark.parametrize(("bf16", "expected"), [("False", "dtype=jnp.float32"), ("True", "dtype=args.dtype")])
def test_a_base_of_a_type_that_only_the_run_knows_is_float32(bf16: str, expected: str) -> None:
    found = port(script(", dtype=getattr(torch, args.dtype)", bf16=bf16))
    assert expected in " ".join(found.after.split()), found.after
    assert "a base that isn't quantised float32, all of it" in said(found, "training.model")


@pytest.mark.parametrize(
    ("load", "between", "expected"),
    [
        (", load_in_4bit=args.four", PREPARED, "dtype=jnp.bfloat16 if args.four else jnp.float32"),
        (", load_in_4bit=args.four", f"if args.four:\n    {PREPARED}", "dtype=jnp.bfloat16,"),
        (", dtype=getattr(torch, args.dtype), load_in_4bit=args.four", PREPARED, "if args.four else jnp.float32"),
        (", dtype=torch.float32, load_in_4bit=args.four", PREPARED, "dtype=jnp.float32,"),
    ],
)
def test_a_base_that_only_the_run_quantises(load: str, between: str, expected: str) -> None:
    found = port(script(load, between))
    assert expected in " ".join(found.after.split()), found.after
    assert ("doesn't quantise it PEFT makes it float32" in said(found, "training.model")) == (between == PREPARED)


BRANCHES = """\
if args.four:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"{nf4})
{inside}else:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
{behind}"""


@pytest.mark.parametrize(
    ("inside", "behind", "other"),
    [
        (f"    {PREPARED}", "", "bfloat16"),
        ("", f"if args.four:\n    {PREPARED}", "bfloat16"),
        ("", f"if not args.four:\n    {PREPARED}", "float32"),
        ("", PREPARED, "float32"),
    ],
)
def test_a_preparation_in_the_quantised_branch_is_not_the_other_loads(inside: str, behind: str, other: str) -> None:
    text = script("", BRANCHES.format(nf4=NF4, inside=inside, behind=behind))
    own = '\nmodel = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")\n'
    assert own in text
    found = port(text.replace(own, "\n"))
    assert f'\nelse:\n    model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.{other})' in found.after


@pytest.mark.parametrize(
    ("bf16", "between", "says"), [("False", PREPARED, True), ("True", PREPARED, False), ("False", "", False)]
)
def test_without_autocast_a_prepared_base_computes_in_float32_on_the_gpu(bf16: str, between: str, says: bool) -> None:
    found = port(script(NF4, between, bf16))
    messages = [finding.message for finding in found.findings if "no fp16" in finding.message]
    assert len(messages) == says and (BETWEEN in said(found, ".bf16")) == says


@pytest.mark.parametrize(("release", "says"), [("0.24.0", True), ("1.16.0", False)])
def test_trl_prepares_the_base_itself_before_0_26(release: str, says: bool) -> None:
    text = sft_script(imports=IMPORTS, load=NF4, trainer=", peft_config=LoraConfig(r=8)", config=", bf16=False")
    found = port(text, source_trl=release)
    assert (BETWEEN in said(found, ".bf16")) == says


@pytest.mark.parametrize(("release", "says"), [("0.15.2", True), ("1.16.0", False)])
def test_codes_of_the_type_that_transformers_4_chose(release: str, says: bool) -> None:
    text = sft_script(imports=IMPORTS, load=NF4, trainer=", peft_config=LoraConfig(r=8)")
    found = port(text.replace(', dtype="bfloat16"', ""), source_trl=release)
    assert ("0.4 % of which are others" in said(found, ".load_in_4bit")) == says


def test_where_only_the_run_knows_of_autocast_the_base_keeps_its_type() -> None:
    found = port(script(", dtype=torch.bfloat16, load_in_4bit=args.four", bf16="args.four"))
    assert "dtype=jnp.bfloat16," in " ".join(found.after.split())
    assert "here it keeps the type that it is loaded in" in said(found, "training.model")


def test_codes_are_said_of_the_flag_that_asks_for_them() -> None:
    """Not of `load_in_8bit=False`; and Unsloth has a type of its own where none is said, bfloat16 if it can."""
    text = sft_script(imports=IMPORTS, load=NF4, trainer=", peft_config=LoraConfig(r=8)")
    text = text.replace(', dtype="bfloat16"', "").replace("load_in_4bit=True", "load_in_4bit=True, load_in_8bit=False")
    found = port(text, source_trl="0.15.2")
    assert "0.4 % of which" in said(found, ".load_in_4bit") and "0.4 % of which" not in said(found, ".load_in_8bit")
    unsloth = """from unsloth import FastModel
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastModel.from_pretrained(model_name="unsloth/gemma-3-1b-it", load_in_4bit=True)
model = FastModel.get_peft_model(model, r=8)
SFTTrainer(model=model, args=SFTConfig("out"), train_dataset=rows).train()
"""
    assert "0.4 % of which" not in said(port(unsloth, source_trl="0.24.0"), ".load_in_4bit")


FOOTPRINT = "print(model.get_memory_footprint())\n"


@pytest.mark.parametrize(
    ("load", "between", "expected"),
    [
        (NF4, PREPARED + FOOTPRINT, "The GPU run's figure is larger here: prepare_model"),
        (", load_in_4bit=args.four", PREPARED + FOOTPRINT, "larger here where it quantises the base: prepare_model"),
        (NF4, FOOTPRINT + PREPARED, ""),
        ("", PREPARED + FOOTPRINT, ""),
    ],
)
def test_a_footprint_behind_the_preparation_counts_what_it_makes_float32(
    load: str, between: str, expected: str
) -> None:
    found = port(script(load, between))
    assert "print(rt.memory_footprint(model))" in found.after
    said = [finding for finding in found.findings if "figure is larger" in finding.message]
    assert [expected in finding.message for finding in said] == [True] * bool(expected)
