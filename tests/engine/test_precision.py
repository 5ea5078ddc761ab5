"""The type that weights are loaded in where the script leaves it out, says None, or decides when it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.parsing import parse_module

from .porting import port, sft_script

HEAD = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import {config}Config, {config}Trainer, ModelConfig

"""
TAIL = """\
rows = load_dataset("some/rows", split="train")
trainer = {config}Trainer(model, args={config}Config(output_dir="out"{more}), train_dataset=rows)
trainer.train()
"""
OLDER = "trl==0.15.2\ntransformers==4.48.3\n"
HALF = '{"torch_dtype": torch.bfloat16}'
MIXED = ", dtype=jnp.float32, compute_dtype=jnp.bfloat16)"
NEWER = "trl==1.16.0\ntransformers==5.12.1\n"


def ported(folder: Path, lines: str, pins: str, config: str = "SFT", more: str = "") -> Port:
    (folder / "requirements.txt").write_text(pins)
    text = (HEAD + lines + TAIL).replace("{config}", config).replace("{more}", more)
    found = port_module(parse_module(text.encode(), str(folder / "train.py")), Options())
    assert not [finding for finding in found.findings if finding.severity == "error"], found.findings
    return found


def loaded(port: Port) -> str:
    """What `rt.load_model` is given behind the mesh."""
    line = next(line for line in port.after.splitlines() if "rt.load_model(" in line)
    return line.partition("mesh")[2]


def asked(dtype: str, before: str = "") -> str:
    return f'{before}model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype={dtype})\n'


PARSED = "model_args, = HfArgumentParser(ModelConfig).parse_args_into_dataclasses()\n"
LOOKED_UP = """\
torch_dtype = (
    model_args.torch_dtype if model_args.torch_dtype in ["auto", None] else getattr(torch, model_args.torch_dtype)
)
"""
FLAGS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default={default})
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("lines", "older", "newer"),
    [
        (asked("None"), ", dtype=jnp.float32)", ")"),
        (asked("model_args.torch_dtype", PARSED), ', dtype=model_args.torch_dtype or "float32")', None),
        (asked("torch_dtype", PARSED + LOOKED_UP), ', dtype=torch_dtype or "float32")', None),
        (asked("args.dtype", FLAGS.format(default="None")), ', dtype=args.dtype or "float32")', ", dtype=args.dtype)"),
        (asked("args.dtype", FLAGS.format(default='"bfloat16"')), ", dtype=args.dtype)", ", dtype=args.dtype)"),
        (
            asked('torch.bfloat16 if args.dtype == "bf16" else None', FLAGS.format(default="None")),
            ', dtype=(jnp.bfloat16 if args.dtype == "bf16" else None) or "float32")',
            ', dtype=jnp.bfloat16 if args.dtype == "bf16" else None)',
        ),
        (
            asked('torch.bfloat16 if args.dtype == "bf16" else torch.float32', FLAGS.format(default="None")),
            ', dtype=jnp.bfloat16 if args.dtype == "bf16" else jnp.float32)',
            ', dtype=jnp.bfloat16 if args.dtype == "bf16" else jnp.float32)',
        ),
        (
            asked("TYPES[args.dtype]", FLAGS.format(default="None") + 'TYPES = {"a": torch.bfloat16}\n'),
            ", dtype=TYPES[args.dtype])",
            ", dtype=TYPES[args.dtype])",
        ),
        (
            asked("TYPES.get(args.dtype)", FLAGS.format(default="None") + 'TYPES = {"a": torch.bfloat16}\n'),
            ', dtype=TYPES.get(args.dtype) or "float32")',
            ", dtype=TYPES.get(args.dtype))",
        ),
    ],
)
def test_none_is_float32_before_transformers_5(tmp_path: Path, lines: str, older: str, newer: str | None) -> None:
    assert loaded(ported(tmp_path, lines, OLDER)) == older
    if newer is not None:
        assert loaded(ported(tmp_path, lines, NEWER)) == newer


@pytest.mark.parametrize(
    ("trainer", "pins", "more", "given"),
    [
        ("ORPO", OLDER, "", ", dtype=jnp.float32)"),
        ("ORPO", "trl==0.26.2\ntransformers==5.0.0\n", "", ")"),
        ("SFT", "trl==0.26.2\ntransformers==5.0.0\n", "", ")"),
        ("SFT", "trl==0.27.2\ntransformers==5.0.0\n", ", bf16=False", ", dtype=jnp.float32)"),
        ("SFT", OLDER, ', model_init_kwargs={"torch_dtype": None}', ", dtype=jnp.float32)"),
        ("SFT", NEWER, ', model_init_kwargs={"dtype": None}', ")"),
        ("SFT", NEWER, ', model_init_kwargs={"dtype": torch.bfloat16}', ", dtype=jnp.bfloat16)"),
        ("SFT", NEWER, f", model_init_kwargs={HALF}", MIXED),
        ("SFT", "trl==0.27.2\ntransformers==4.57.1\n", f", model_init_kwargs={HALF}", MIXED),
        ("SFT", "trl==0.26.2\ntransformers==5.0.0\n", f", model_init_kwargs={HALF}", ", dtype=jnp.bfloat16)"),
        ("SFT", NEWER, ', model_init_kwargs={"torch_dtype": torch.bfloat16, "dtype": "float32"}', MIXED),
        ("SFT", NEWER, ', model_init_kwargs={"torch_dtype": torch.bfloat16, "dtype": None}', ", dtype=jnp.bfloat16)"),
        ("ORPO", NEWER, f", model_init_kwargs={HALF}", ")"),
        ("ORPO", "trl==0.24.0\ntransformers==4.57.1\n", f", model_init_kwargs={HALF}", ", dtype=jnp.bfloat16)"),
    ],
)
def test_a_models_name_is_loaded_as_its_releases_did(
    tmp_path: Path, trainer: str, pins: str, more: str, given: str
) -> None:
    assert loaded(ported(tmp_path, 'model = "Qwen/Qwen2.5-0.5B"\n', pins, trainer, more)) == given


def test_the_config_object_is_told_another_transformers(tmp_path: Path) -> None:
    lines = 'model = "Qwen/Qwen2.5-0.5B"\nargs, = HfArgumentParser({config}Config).parse_args_into_dataclasses()\n'
    script = 'args={config}Config(output_dir="out"{more})', "args=args"
    for pins, said in ((OLDER, "(args))"), ("trl==1.0.0\ntransformers==4.57.1\n", '(args, transformers="4.57.1"))')):
        (tmp_path / "requirements.txt").write_text(pins)
        text = (HEAD + lines + TAIL).replace(*script).replace("{config}", "SFT")
        found = port_module(parse_module(text.encode(), str(tmp_path / "train.py")), Options())
        assert loaded(found) == f", **rt.load_arguments{said}", found.after


@pytest.mark.parametrize(("pins", "said"), [(NEWER, 1), ("trl==0.26.2\ntransformers==5.0.0\n", 0)])
def test_a_torch_dtype_that_trl_overrules_is_told(tmp_path: Path, pins: str, said: int) -> None:
    port = ported(tmp_path, 'model = "Qwen/Qwen2.5-0.5B"\n', pins, more=f", model_init_kwargs={HALF}")
    found = [finding for finding in port.findings if "torch_dtype='bfloat16' has no effect" in finding.message]
    assert [finding.severity for finding in found] == ["warning"] * said
    assert [row for row in port.fields if "torch_dtype loses" in row.reason] == [
        row for row in port.fields if row.source == "SFTConfig.model_init_kwargs" and said
    ]


def test_a_config_object_of_before_the_other_transformers_is_told_it(tmp_path: Path) -> None:
    lines = 'model = "Qwen/Qwen2.5-0.5B"\nargs, = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()\n'
    (tmp_path / "requirements.txt").write_text("trl==0.26.2\ntransformers==5.0.0\n")
    text = (HEAD + lines + TAIL).replace('args={config}Config(output_dir="out"{more})', "args=args")
    found = port_module(parse_module(text.replace("{config}", "SFT").encode(), str(tmp_path / "train.py")), Options())
    assert 'rt.load_arguments(args, transformers="5.0.0")' in found.after, found.after


@pytest.mark.parametrize(
    ("keywords", "more", "expected"),
    [
        ("load_in_4bit=args.four", "", ", dtype=jnp.bfloat16 if args.four else jnp.float32, "),
        ("load_in_4bit=args.four", ", bf16=True", ", dtype=jnp.bfloat16, "),
        ("load_in_4bit=True", "", ", dtype=jnp.bfloat16, "),
        ("quantization_config=config", "", ", dtype=jnp.bfloat16 if config is not None else jnp.float32, "),
        (
            "quantization_config=args.four and BitsAndBytesConfig(load_in_4bit=True)",
            "",
            ", dtype=jnp.bfloat16 if args.four else jnp.float32, ",
        ),
    ],
)
def test_what_is_quantised_when_it_runs_is_float32_where_it_is_not(
    tmp_path: Path, keywords: str, more: str, expected: str
) -> None:
    lines = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--four", action="store_true")\n'
    lines += "args = parser.parse_args()\nfrom peft import LoraConfig, get_peft_model\n"
    lines += "from transformers import BitsAndBytesConfig\n"
    lines += "config = BitsAndBytesConfig(load_in_4bit=True) if args.four else None\n"
    lines += f'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", {keywords})\n'
    lines += 'model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))\n'
    found = ported(tmp_path, lines, "trl==0.15.2\ntransformers==4.48.3\n", more=more)
    assert f'"Qwen/Qwen2.5-0.5B", mesh{expected}' in " ".join(found.after.split())


IF_QUANTISED = ', dtype=kw.get("torch_dtype", "bfloat16" if kw.get("quantization_config") is not None else "float32"), '


@pytest.mark.parametrize(
    ("quantised", "pins", "expected"),
    [
        ('    kw["quantization_config"] = config', OLDER, IF_QUANTISED),
        ("    kw.update(quantization_config=config)", OLDER, IF_QUANTISED),
        ('    kw["quantization_config"] = config', NEWER, ', dtype=kw.get("torch_dtype"), '),
    ],
)
def test_a_dictionary_that_may_lack_a_type_has_the_one_of_what_it_quantises(
    tmp_path: Path, quantised: str, pins: str, expected: str
) -> None:
    """It was float32 for the quantised base, too: other numbers, in twice the memory."""
    lines = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--four", action="store_true")\n'
    lines += "args = parser.parse_args()\nfrom peft import LoraConfig, get_peft_model\n"
    lines += "from transformers import BitsAndBytesConfig\n"
    lines += 'config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")\n'
    lines += f"kw = {{}}\nif args.four:\n{quantised}\n"
    lines += "else:\n    kw['torch_dtype'] = torch.float32\n"
    lines += 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", **kw)\n'
    lines += 'model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))\n'
    found = ported(tmp_path, lines, pins)
    assert f'"Qwen/Qwen2.5-0.5B", mesh{expected}' in " ".join(found.after.split())


OFF = "where that is False, transformers holds the base in 4 bits all the same, and so does the port"
MADE = "BitsAndBytesConfig(load_in_4bit=args.four)"


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize(
    ("made", "condition", "newer"),
    [
        (f"config = {MADE}", "config.load_in_4bit", ""),
        (
            f"config = {MADE} if args.four else None",
            "config is not None and config.load_in_4bit",
            "config is not None",
        ),
        (
            "config = BitsAndBytesConfig(load_in_4bit=args.four, load_in_8bit=not args.four)",
            "config.load_in_4bit or config.load_in_8bit",
            "",
        ),
        ("config = BitsAndBytesConfig(load_in_4bit=True)\nprint(config)", "", ""),
        (
            "config = BitsAndBytesConfig(load_in_4bit=True)\nconfig.load_in_4bit = args.four",
            "config.load_in_4bit",
            "",
        ),
    ],
)
def test_a_config_quantises_by_its_flags_before_4_38_and_by_being_there_from_then_on(
    tmp_path: Path, made: str, condition: str, newer: str, older: bool
) -> None:
    lines = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--four", action="store_true")\n'
    lines += "args = parser.parse_args()\nfrom peft import LoraConfig, get_peft_model\n"
    lines += f"from transformers import BitsAndBytesConfig\n{made}\n"
    lines += 'model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", quantization_config=config)\n'
    lines += 'model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))\n'
    pins = ("0.7.4", "4.36.2", "0.7.1") if older else ("0.9.6", "4.42.0", "0.11.0")
    text = (HEAD + lines + TAIL).replace("{more}", "").replace(", ModelConfig", "")
    if older:  # which has no SFTConfig yet
        text = text.replace("import {config}Config, ", "import ").replace("{config}Config", "TrainingArguments")
        text = text.replace("HfArgumentParser", "TrainingArguments", 1)
        text = text.replace("=rows)", '=rows, dataset_text_field="text")')
    text = text.replace("{config}", "SFT")
    (tmp_path / "requirements.txt").write_text("trl=={}\ntransformers=={}\npeft=={}\n".format(*pins))
    found = port_module(parse_module(text.encode(), str(tmp_path / "train.py")), Options())
    test = condition if older else newer
    dtype = f"jnp.bfloat16 if {test} else jnp.float32" if test else "jnp.bfloat16"
    assert f"mesh, dtype={dtype}, quantization=config" in " ".join(found.after.split()), found.after
    assert older is (', "BitsAndBytesConfig", transformers="4.36.2")' in found.after), found.after
    said = [finding.message for finding in found.findings]
    assert any(OFF in each for each in said) is (not older and "args.four" in made), said
    assert any("trains the adapters in" in each for each in said) is False


@pytest.mark.parametrize(
    ("given", "form"),
    [("load_in_4bit=False", '"fp4"'), ('bnb_4bit_quant_type="nf4"', '"nf4"'), ("load_in_8bit=False", '"fp4"')],
)
def test_a_config_without_a_flag_is_of_4_bits_from_4_38_on(tmp_path: Path, given: str, form: str) -> None:
    """As transformers 4.57.1 and 5.12.1 hold a model with bitsandbytes 0.50.2."""
    lines = "from peft import LoraConfig, get_peft_model\nfrom transformers import BitsAndBytesConfig\n"
    lines += f"config = BitsAndBytesConfig({given})\n"
    lines += 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=config)\n'
    lines += 'model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))\n'
    found = ported(tmp_path, lines, OLDER)
    assert f", dtype=jnp.bfloat16, quantization={form})" in found.after, found.after
    said = [finding for finding in found.findings if "with neither flag" in finding.message]
    assert [finding.severity for finding in said] == ["warning"]


BITS, RAISES = "BitsAndBytesConfig with neither flag, transformers holds", "of its flags is True the GPU run raises"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("BitsAndBytesConfig(bnb_4bit_quant_type='nf4')\nprint(config)", BITS),
        ("BitsAndBytesConfig(**json.load(open('bits.json')))\nprint(config)", ""),
        ("BitsAndBytesConfig(load_in_4bit=True)\nprint(config)", ""),
        ("{'load_in_4bit': len(sys.argv) > 1}", RAISES),
        ("{'load_in_4bit': len(sys.argv) > 1, 'quant_method': 'bitsandbytes'}", ""),
    ],
)
def test_what_a_config_is_taken_for_where_no_flag_is_on(tmp_path: Path, made: str, said: str) -> None:
    lines = f"import json, sys\nfrom transformers import BitsAndBytesConfig\nconfig = {made}\n"
    lines += 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=config)\n'
    found = ported(tmp_path, lines, OLDER)
    told = [each for each in found.findings if BITS in each.message or RAISES in each.message]
    assert [each.severity for each in told] == ["info"] * bool(said) and said in str(told), found.findings
    assert "quantization=config" in found.after


@pytest.mark.parametrize(("precision", "given"), [("fp16=True", ", dtype=jnp.bfloat16"), ("bf16=False", "")])
def test_a_quantised_base_of_no_given_type_computes_as_autocast_does(precision: str, given: str) -> None:
    load = ', quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")'
    text = sft_script(
        imports="from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig",
        load=load,
        config=f", {precision}",
        trainer=', peft_config=LoraConfig(target_modules=["q_proj"])',
    ).replace(', dtype="bfloat16"', "")
    assert f'mesh{given}, quantization="nf4")' in port(text).after


@pytest.mark.parametrize(
    ("more", "given", "says"),
    [
        (", bf16=False", ", dtype=jnp.float32)", "PEFT makes a base that isn't quantised float32, all of it"),
        (", bf16=True", ", dtype=jnp.bfloat16)", "autocast multiplies it in bfloat16: it is kept so"),
    ],
)
def test_a_base_that_is_prepared_for_bits_which_it_has_not(tmp_path: Path, more: str, given: str, says: str) -> None:
    """Its norms, embeddings and head alone are float32 where bitsandbytes holds the rest."""
    prepared = """from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
"""
    found = ported(tmp_path, asked("torch.bfloat16") + prepared, NEWER, more=more)
    assert loaded(found) == given
    assert says in next(row.reason for row in found.recipe.fields if row.source.endswith("kbit_training.model"))
    held = asked(
        "torch.bfloat16, quantization_config=BitsAndBytesConfig(load_in_4bit=True)",
        "from transformers import BitsAndBytesConfig\n",
    )
    quantised = ported(tmp_path, held + prepared, NEWER, more=more)
    assert "dtype=jnp.bfloat16" in quantised.after and says not in str(quantised.recipe.fields)


def row(text: str, keyword: str) -> tuple[str, str]:
    (found,) = [field for field in port(text).fields if field.source.endswith(keyword)]
    return found.fate, found.reason


def test_codes_of_float16_weights_are_others() -> None:
    imports = "import torch\nfrom peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    for kind, fate in (("float16", "changed"), ("bfloat16", "exact")):
        load = f", torch_dtype=torch.{kind}, quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
        text = sft_script(imports=imports, load=load, trainer=", peft_config=LoraConfig(r=8)")
        assert row(text.replace(', dtype="bfloat16"', ""), ".load_in_4bit")[0] == fate


def test_the_state_of_bitsandbytes_optimizers_over_bfloat16_weights() -> None:
    optim = ', optim="paged_adamw_32bit"'
    assert row(sft_script(config=optim), ".optim")[0] == "changed"
    lora = {"imports": "from peft import LoraConfig", "trainer": ", peft_config=LoraConfig(r=8)"}
    assert row(sft_script(config=optim, **lora), ".optim") == ("exact", "")


@pytest.mark.parametrize(
    ("prepared", "bf16", "merges", "load", "unrounded"),
    [
        (True, "True", True, "", True),
        (True, "True", False, "", False),
        (False, "True", True, "", False),
        (True, "False", True, "", False),
        (True, "True", True, ", load_in_8bit=True", False),
    ],
)
def test_a_merge_of_a_base_that_peft_has_made_float32(
    prepared: bool, bf16: str, merges: bool, load: str, unrounded: bool
) -> None:
    script = sft_script(
        imports="from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training",
        load=load,
        between="model = prepare_model_for_kbit_training(model)\n" * prepared
        + "model = get_peft_model(model, LoraConfig())",
        config=f", bf16={bf16}",
        after="trainer.train()" + "\nmodel.merge_and_unload().save_pretrained('merged')" * merges,
    )
    found = port(script)
    merge = f"rt.merge_and_unload(model{', dtype=jnp.float32' * unrounded}).save_pretrained('merged')"
    assert (merge in found.after) is merges
    assert ("mesh, dtype=jnp.float32" in found.after) == (prepared and bf16 == "False" and not load)
