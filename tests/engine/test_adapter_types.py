"""Adapters of an older PEFT: in the base's type, which the port says."""

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import port, sft_script


def said(folder: Path, pins: str, text: str, launch: str = "") -> list[str]:
    (folder / "requirements.txt").write_text(pins)
    (folder / "launch.yaml").write_text(launch)
    options = Options(launch_config=folder / "launch.yaml" if launch else None)
    ported = port_module(parse_module(text.encode(), str(folder / "train.py")), options)
    return [finding.message for finding in ported.findings if "trains the adapters in" in finding.message]


PEFT = sft_script(imports="import torch\nfrom peft import LoraConfig", trainer=", peft_config=LoraConfig(r=4)")
HALF = PEFT.replace('dtype="bfloat16"', "torch_dtype=torch.bfloat16").replace("SFTConfig", "TrainingArguments")
OLD = (
    HALF.replace("processing_class", "tokenizer")
    .replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B")
    .replace("from trl import TrainingArguments, ", "from transformers import TrainingArguments\nfrom trl import ")
)


@pytest.mark.parametrize(
    ("pins", "release"),
    [
        ("transformers==4.37.2\npeft==0.10.0\n", "0.10.0"),
        ("transformers==4.37.2\n", "0.8.2"),
        ("transformers==4.44.0\npeft==0.12.0\n", None),
        ("", None),
    ],
)
def test_older_adapters_have_the_type_of_a_half_base(tmp_path: Path, pins: str, release: str | None) -> None:
    found = said(tmp_path, pins, OLD)
    assert [message.split()[1] for message in found] == ([release] if release else [])
    assert all("base's bfloat16; here they are float32" in message for message in found)


@pytest.mark.parametrize(
    "line",
    [
        "def scores(logits):\n    return logits.float().mean()",
        "for row in rows:\n    print(torch.tensor(row).to(torch.float32))",
        "for p in model.parameters():\n    p.data = p.data.to(torch.float16)",
    ],
)
def test_what_is_cast_besides_leaves_the_adapters_as_they_are(tmp_path: Path, line: str) -> None:
    text = OLD.replace("trainer.train()", f"rows = []\n{line}\ntrainer.train()")
    assert len(said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", text)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.bfloat16", "torch.float32"),
        ("torch_dtype=torch.bfloat16", "load_in_8bit=True, torch_dtype=torch.bfloat16"),
        ("trainer.train()", "for p in model.parameters():\n    p.data = p.data.float()\ntrainer.train()"),
        ("trainer.train()", "for _, m in model.named_modules():\n    m.to(dtype=torch.float32)\ntrainer.train()"),
        ("trainer.train()", "model.to(torch.float)\ntrainer.train()"),
        (", peft_config=LoraConfig(r=4)", ""),
    ],
)
def test_other_adapters_are_float32_there_too(tmp_path: Path, old: str, new: str) -> None:
    assert said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", OLD.replace(old, new)) == []


OF_0_10 = "transformers==4.40.0\npeft==0.10.0\naccelerate==0.29.3\n"
LAUNCHED = "distributed_type: {way}\nnum_processes: 2\nmixed_precision: bf16\n"


@pytest.mark.parametrize(
    ("storage", "pins", "way", "expected"),
    [
        (
            "torch.bfloat16",
            OF_0_10,
            "",
            "PEFT 0.10.0 trains the adapters in bnb_4bit_quant_storage's bfloat16",
        ),
        ("'float16'", OF_0_10, "FSDP", "PEFT 0.10.0 trains the adapters in bnb_4bit_quant_storage's float16"),
        ("torch.uint8", OF_0_10, "", ""),
        ("torch.float32", OF_0_10, "", ""),
        ("torch.bfloat16", OF_0_10.replace("0.29.3", "0.30.0"), "FSDP", ""),  # accelerate trains float32 copies
        ("torch.bfloat16", OF_0_10, "DEEPSPEED", ""),
        ("torch.bfloat16", "transformers==4.44.0\npeft==0.12.0\n", "", ""),
    ],
)
def test_adapters_over_4_bits_have_the_type_that_stores_these(
    tmp_path: Path, storage: str, pins: str, way: str, expected: str
) -> None:
    """As PEFT 0.10.0 and 0.15.2 made them over bitsandbytes 0.45.5."""
    held = f"quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage={storage})"
    text = OLD.replace("torch_dtype", f"{held}, torch_dtype").replace('"out"', '"out", bf16=True')
    text = f"from transformers import BitsAndBytesConfig\n{text}"
    found = said(tmp_path, pins, text, LAUNCHED.format(way=way) if way else "")
    assert len(found) == bool(expected) and all(message.startswith(expected) for message in found), found


FLAG = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--four', action='store_true')\n"
FLAG += "args = parser.parse_args()\nfrom transformers import BitsAndBytesConfig\n"
BNB = "BitsAndBytesConfig(load_in_4bit=True)"
LOAD = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.bfloat16)\n'
QUANTISED = LOAD.replace("bfloat16)", f"bfloat16, quantization_config={BNB})")
PREPARED = "from peft import prepare_model_for_kbit_training\nif args.four:\n"
PREPARED += "    model = prepare_model_for_kbit_training(model)\n"
UNLESS = "in the base's bfloat16 where the script doesn't quantise it; here they are float32"


def by_flag(load: str, behind: str = "") -> str:
    return OLD.replace(LOAD, f"{FLAG}{load}{behind}")


@pytest.mark.parametrize(
    ("load", "behind"),
    [
        (LOAD.replace("16)", f"16, quantization_config={BNB} if args.four else None)"), ""),
        (LOAD.replace("16)", "16, load_in_4bit=args.four)"), PREPARED),
        (f"if args.four:\n    {QUANTISED}else:\n    {LOAD}", ""),
    ],
)
def test_where_the_run_quantises_the_base_the_other_adapters_are_said(tmp_path: Path, load: str, behind: str) -> None:
    (message,) = said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", by_flag(load, behind))
    assert UNLESS in message
    assert said(tmp_path, "transformers==4.44.0\npeft==0.12.0\n", by_flag(load, behind)) == []


def test_a_type_that_the_run_knows_is_said_too(tmp_path: Path) -> None:
    chosen = LOAD.replace("torch.bfloat16)", "torch.bfloat16 if args.four else torch.float16)")
    (message,) = said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", by_flag(chosen))
    assert "in the base's own type; here they are float32" in message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("autocast_adapter_dtype=False", "autocast_adapter_dtype=False trains the adapters in the base's bfloat16;"),
        ("autocast_adapter_dtype=True", ""),
        ("autocast_adapter_dtype=args.four", "autocast_adapter_dtype=args.four trains the adapters in the base's"),
    ],
)
def test_adapters_that_keep_the_type_of_the_base_are_said(tmp_path: Path, given: str, expected: str) -> None:
    put_in = f"from peft import get_peft_model\nmodel = get_peft_model(model, LoraConfig(r=4), {given})\n"
    text = by_flag(LOAD, put_in).replace(", peft_config=LoraConfig(r=4)", "")
    found = said(tmp_path, "transformers==4.51.0\npeft==0.15.0\n", text)
    assert len(found) == bool(expected) and all(message.startswith(expected) for message in found)


def test_of_several_bases_the_half_one_is_said(tmp_path: Path) -> None:
    whole = f"if args.four:\n    {LOAD.replace('bfloat16', 'float32')}else:\n    {LOAD}"
    (message,) = said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", by_flag(whole))
    assert "trains the adapters in the base's bfloat16" in message
    both = whole.replace("torch.bfloat16", "torch.float32")
    assert said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", by_flag(both)) == []


def test_a_keyword_that_the_release_has_not_is_no_reason(tmp_path: Path) -> None:
    given = "LoraConfig(r=4), autocast_adapter_dtype=False"
    put_in = f"from peft import get_peft_model\nmodel = get_peft_model(model, {given})\n"
    text = by_flag(LOAD, put_in).replace(", peft_config=LoraConfig(r=4)", "")
    (message,) = said(tmp_path, "transformers==4.37.2\npeft==0.10.0\n", text)
    assert message.startswith("PEFT 0.") and "trains the adapters in the base's bfloat16" in message


def test_a_cast_of_some_branches_is_said_as_such() -> None:
    text = sft_script(f"import torch\nfrom peft import LoraConfig\n{FLAG}", trainer=", peft_config=LoraConfig(r=4)")
    load = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")\n'
    both = f"if args.four:\n    {load.replace(')', f', quantization_config={BNB})')}else:\n    {load}"
    messages = [each.message for each in port(text.replace(load, both), source_trl="0.29.0").findings]
    assert any("adapters of a quantised base in bfloat16 where the script quantises it" in each for each in messages)


@pytest.mark.parametrize("bf16", [True, False])
def test_a_base_that_is_trained_whole_where_it_isnt_quantised_is_float32(bf16: bool) -> None:
    flag = f"import torch\nfrom peft import LoraConfig\n{FLAG}"
    text = sft_script(flag, config=f", bf16={bf16}", trainer=", peft_config=LoraConfig(r=4) if args.four else None")
    load = f", quantization_config={BNB} if args.four else None"
    after = port(text.replace(', dtype="bfloat16"', load), source_trl="0.12.0").after
    assert "is not None else jnp.float32," in after and ("compute_dtype=jnp.bfloat16" in after) is bf16
