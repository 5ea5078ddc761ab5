"""Casts of the whole model in front of its training: the port says what they make of the GPU run."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

IMPORTS = "import torch\nfrom peft import LoraConfig, get_peft_model"
CONFIG = 'LoraConfig(r=8, target_modules=["q_proj"])'
BY_TRAINER = f", peft_config={CONFIG}"
BEHIND = "trains and saves these in {}, with the optimizer's state; the port's adapters"


def casts(text: str) -> list[tuple[str, str]]:
    found = port(text)
    assert found.status == "ported", found.findings
    return [(each.severity, each.message) for each in found.findings if each.rule == "TP310"]


@pytest.mark.parametrize(
    ("cast", "to"),
    [
        ("trainer.model = trainer.model.to(torch.bfloat16)", "bfloat16"),
        ("trainer.model.to(dtype=torch.float16)", "float16"),
        ("model.to('cuda', torch.half)", "float16"),
        ("kind = torch.bfloat16\nmodel = model.to(kind)", "bfloat16"),
    ],
)
def test_adapters_that_the_trainer_put_in_are_cast(cast: str, to: str) -> None:
    found = casts(sft_script(imports=IMPORTS, trainer=BY_TRAINER, after=f"{cast}\ntrainer.train()"))
    assert [severity for severity, _ in found] == ["warning"] and BEHIND.format(to) in found[0][1]


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (f"model = get_peft_model(model, {CONFIG})\nmodel.to(torch.bfloat16)", True),
        (f"model = get_peft_model(model, {CONFIG}).to(torch.bfloat16)", True),
        (f"model = get_peft_model(model.to(torch.bfloat16), {CONFIG})", False),
        (f"model.to(torch.bfloat16)\nmodel = get_peft_model(model, {CONFIG})", False),
        (f"model = get_peft_model(model, {CONFIG}).to('cuda')", False),
        (f"model = get_peft_model(model, {CONFIG})\nif False:\n    model.to(torch.bfloat16)", False),
    ],
)
def test_adapters_are_cast_by_what_stands_behind_them(between: str, said: bool) -> None:
    assert bool(casts(sft_script(imports=IMPORTS, between=between))) is said


def test_a_base_that_is_cast_is_named() -> None:
    found = casts(sft_script(imports=IMPORTS, between="model.to(torch.float32)", trainer=BY_TRAINER))
    assert found == [
        ("warning", "The GPU run casts the base here and holds it in float32; the port holds it in bfloat16.")
    ]


@pytest.mark.parametrize(
    ("loaded", "cast", "said"),
    [
        ("float32", "model.to(torch.bfloat16)", ""),
        ("bfloat16", "model.to(torch.float32)", "trains it in float32; the port trains it in bfloat16."),
        ("bfloat16", "model.to(torch.bfloat16)", ""),
        ("float16", "model.to(torch.bfloat16)", ""),
        ("float16", "model.to(torch.float16)", ""),
        ("float32", "model.to('cuda')", ""),
        ("float32", "model.to(device=0)", ""),
    ],
)
def test_a_model_that_is_trained_whole(loaded: str, cast: str, said: str) -> None:
    text = sft_script(imports=IMPORTS, between=cast).replace('dtype="bfloat16"', f'dtype="{loaded}"')
    found = casts(text)
    assert len(found) == bool(said) and (not said or said in found[0][1])
    chained = sft_script(imports=IMPORTS).replace('dtype="bfloat16")', f'dtype="{loaded}"){cast.removeprefix("model")}')
    assert casts(chained) == found


@pytest.mark.parametrize(
    ("cast", "written", "said"),
    [
        (".to(torch.bfloat16)", "jnp.bfloat16", ""),
        (".half().cuda()", "jnp.bfloat16", "float16 here, the port's bfloat16"),
        (".cuda().bfloat16()", "jnp.bfloat16", ""),
        (".to(device='cuda', dtype=torch.bfloat16).train()", "jnp.bfloat16", ""),
        (".float()", "jnp.float32", ""),
        (".cuda()", "jnp.float32", ""),
        ("\nmodel.to('cuda')\nmodel = model.bfloat16()", "jnp.bfloat16", ""),
        ("\nif 1 > torch.get_num_threads():\n    model.half()", "jnp.float32", "trains it in float16; the port"),
        ("\nmodel.to(dtype=getattr(torch, str(load_dataset)))", "jnp.float32", "trains it in the type of"),
    ],
)
def test_a_load_takes_the_type_of_the_cast_behind_it(cast: str, written: str, said: str) -> None:
    found = port(sft_script(imports=IMPORTS).replace(', dtype="bfloat16")', f"){cast}"), source_trl="0.19.1")
    assert found.status == "ported" and f"mesh, dtype={written}" in found.after, found.findings
    messages = [each.message for each in found.findings if each.rule == "TP310"]
    assert len(messages) == bool(said) and (not said or said in messages[0])


@pytest.mark.parametrize(
    ("made", "taken", "said"),
    [
        ("    model.bfloat16()\n", "made()", False),
        ("", f"get_peft_model(made(), {CONFIG}).bfloat16()", True),
        ("", f"get_peft_model(made().bfloat16(), {CONFIG})", False),
    ],
)
def test_a_cast_counts_in_front_of_the_adapters_alone(made: str, taken: str, said: bool) -> None:
    load = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')"
    text = sft_script(f"def made():\n    model = {load}\n{made}    return model\n", imports=IMPORTS)
    start = text.index("model = AutoModel", text.index("return model"))
    text = text[:start] + f"model = {taken}\n" + text[text.index("\n", start) + 1 :]
    found = port(text, source_trl="0.19.1")
    assert found.status == "ported" and "mesh, dtype=jnp.bfloat16)" in found.after
    assert (BEHIND.format("bfloat16") in str(found.findings)) is said


def test_a_type_that_only_the_run_knows() -> None:
    asked = "import os\nkind = getattr(torch, os.environ['KIND'])"
    found = casts(sft_script(asked, imports=IMPORTS, between="model.to(dtype=kind)"))
    assert found[0][0] == "warning" and "trains it in the type of `kind`" in found[0][1]
    text = sft_script(asked, imports=IMPORTS, between="model.to(dtype=kind)")
    assert casts(text.replace('dtype="bfloat16"', "dtype=kind")) == []


def test_a_cast_behind_training_is_no_part_of_it() -> None:
    assert casts(sft_script(imports=IMPORTS, after="trainer.train()\nmodel.to(torch.float16)")) == []


@pytest.mark.parametrize(
    ("call", "release", "to"),
    [
        ("torch.set_default_dtype(torch.bfloat16)", "0.19.1", "bfloat16"),
        ("torch.set_default_dtype(torch.half)", "0.19.1", "float16"),
        ("torch.set_default_dtype(getattr(torch, kind))", "0.19.1", "the type of `getattr(torch, kind)`"),
        ("torch.set_default_tensor_type(torch.cuda.HalfTensor)", "0.19.1", "float16"),
        ("torch.set_default_tensor_type(torch.FloatTensor)", "0.19.1", ""),
        ("torch.set_default_dtype(torch.float32)", "0.19.1", ""),
        ("if False:\n    torch.set_default_dtype(torch.bfloat16)", "0.19.1", ""),
        ("torch.set_default_dtype(torch.bfloat16)", "1.16.0", ""),  # transformers 5 asks the checkpoint
    ],
)
def test_torchs_default_type_is_that_of_a_load_that_names_none(call: str, release: str, to: str) -> None:
    text = sft_script(before=f"kind = str(load_dataset)\n{call}", imports="import torch")
    bare = text.replace(', dtype="bfloat16"', "")
    said = [each.message for each in port(bare, source_trl=release).findings if each.rule == "TP310"]
    assert len(said) == bool(to) and all(f"The GPU run loads the model in {to} by this" in each for each in said)
    assert not [each for each in port(text, source_trl=release).findings if each.rule == "TP310"]
    behind = bare.replace(f"{call}\n", "").replace("trainer = SFT", f"{call}\ntrainer = SFT", 1)
    assert not [each for each in port(behind, source_trl=release).findings if each.rule == "TP310"]
