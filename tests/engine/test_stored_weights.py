"""Models that are named by a checkpoint of quantised weights."""

from __future__ import annotations

import pytest

from .porting import check_becomes, errors, port, sft_script

NAMED = '"Qwen/Qwen3-0.6B", dtype="bfloat16"'
UNSLOTH = """\
import sys
from datasets import load_dataset
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained({name}, load_in_4bit={four})
model = FastLanguageModel.get_peft_model(model)
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


def named(name: str, load: str = "", before: str = "") -> str:
    """A script that trains adapters on the model of that name."""
    imports = "from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    script = sft_script(before, imports=imports, load=load, trainer=", peft_config=LoraConfig()")
    return script.replace(NAMED, name)


@pytest.mark.parametrize(
    "load",
    [
        "",
        ", load_in_4bit=True",
        ', quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
    ],
)
def test_unsloths_mirror_is_loaded_by_the_weights_that_it_was_made_from(load: str) -> None:
    found = check_becomes(
        named('"unsloth/mistral-7b-bnb-4bit"', load),
        'rt.load_model("unsloth/mistral-7b", mesh, dtype=jnp.bfloat16, quantization="nf4")',
    )
    said = {finding.message for finding in found.findings if finding.rule == "TP601"}
    assert said == {
        "unsloth/mistral-7b-bnb-4bit holds 4-bit weights in bitsandbytes' layout: the port loads unsloth/mistral-7b."
    }
    fates = {row.source.rpartition(".")[2]: row.fate for row in found.fields}
    assert fates["pretrained_model_name_or_path"] == "changed"


def test_the_mirror_that_a_trainer_is_given_by_name() -> None:
    script = named("").replace("    model,\n", '    "unsloth/Qwen3-4B-unsloth-bnb-4bit",\n')
    script = script.replace("model = AutoModelForCausalLM.from_pretrained()\n", "")
    check_becomes(script, 'rt.load_model("unsloth/Qwen3-4B", mesh, dtype=jnp.bfloat16, quantization="nf4")')


def test_a_mirror_in_one_branch() -> None:
    load = (
        'if small:\n    model = AutoModelForCausalLM.from_pretrained("unsloth/gemma-2b-bnb-4bit")\nelse:\n    model ='
    )
    script = named('"google/gemma-2b", dtype="bfloat16"', before="small = bool(rows)").replace("model =", load, 1)
    found = port(script.replace("bool(rows)", "bool(__file__)"))
    assert 'rt.load_model("unsloth/gemma-2b", mesh, dtype=jnp.bfloat16, quantization="nf4")' in found.after
    assert 'rt.load_model("google/gemma-2b", mesh, dtype=jnp.bfloat16)' in found.after, found.after


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("TheBloke/Mistral-7B-v0.1-GPTQ", "GPTQ"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "GPTQ"),
        ("TheBloke/Mistral-7B-v0.1-AWQ", "AWQ"),
        ("Qwen/Qwen3-8B-FP8", "FP8"),
        ("somebody/Llama-3-8B-bnb-4bit", "bitsandbytes"),
        ("mlx-community/Mistral-7B-v0.1-hf-4bit", "MLX"),
    ],
)
def test_other_quantised_weights_are_an_error_at_their_line(name: str, held: str) -> None:
    message = f"{name} holds quantised weights ({held}), which rt.load_model doesn't read."
    found = port(named(f'"{name}"'))
    assert errors(found) == [message] and found.status == "partial"
    assert errors(port(UNSLOTH.format(name=f'"{name}"', four=True))) == [message]


@pytest.mark.parametrize("name", ["unsloth/mistral-7b", "me/hawq-model", "Qwen/Qwen3-0.6B", "me/fp16-qwen3"])
def test_a_name_that_says_nothing_of_the_kind_stays(name: str) -> None:
    found = port(named(f'"{name}"'))
    assert f'rt.load_model("{name}", mesh)' in found.after
    assert not [finding for finding in found.findings if finding.rule == "TP601"]


@pytest.mark.parametrize(("four", "held"), [("True", ', quantization="nf4"'), ("False", "")])
def test_unsloth_loads_the_16_bit_weights_where_a_call_says_no_to_4_bits(four: str, held: str) -> None:
    found = port(UNSLOTH.format(name='"unsloth/Qwen3-4B-bnb-4bit"', four=four))
    assert f'rt.load_model("unsloth/Qwen3-4B", mesh, dtype=jnp.bfloat16{held})' in found.after


@pytest.mark.parametrize(("four", "warns"), [("True", False), ("False", True), ("sys.argv[2]", True)])
def test_a_name_that_only_the_run_knows_may_be_a_mirror_where_the_base_is_held_in_4_bits(
    four: str, warns: bool
) -> None:
    found = port(UNSLOTH.format(name="sys.argv[1]", four=four))
    said = [finding for finding in found.findings if "name is not known at port time" in finding.message]
    assert bool(said) == warns


@pytest.mark.parametrize(
    ("default", "said"), [("Qwen/Qwen3-0.6B", []), ("unsloth/Qwen3-4B-bnb-4bit", ["info"]), ("", ["warning"])]
)
def test_a_name_that_a_run_may_change_is_told_where_it_is_a_mirror(default: str, said: list[str]) -> None:
    fields = f"    model: str = {default or None!r}\n    four: bool = True\n"
    held = f"@dataclass\nclass Settings:\n{fields}\n\nsettings = Settings()\n"
    script = UNSLOTH.format(name="settings.model", four="settings.four").replace("model, ", f"{held}model, ", 1)
    found = port(f"from dataclasses import dataclass\n{script}").findings
    assert [each.severity for each in found if "Give the name of 16-bit weights" in each.fix] == said
    assert said != ["info"] or any(default in each.message for each in found)


def test_the_reference_of_a_preference_trainer() -> None:
    script = named(NAMED, before='ref = AutoModelForCausalLM.from_pretrained("TheBloke/Qwen3-AWQ")')
    script = script.replace("SFT", "DPO").replace("    model,\n", "    model,\n    ref_model=ref,\n")
    assert errors(port(script)) == [
        "TheBloke/Qwen3-AWQ holds quantised weights (AWQ), which rt.load_model doesn't read."
    ]
