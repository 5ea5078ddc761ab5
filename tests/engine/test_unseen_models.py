"""What a model's name leaves open: whether Tunix has its family, and whether it is a model or adapters alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import port

DPO = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer
{before}
trainer = DPOTrainer(
    model=AutoModelForCausalLM.from_pretrained({name}),
    args=DPOConfig(output_dir="out/dpo"),
    train_dataset=load_dataset("a/b", split="train"),
    processing_class=AutoTokenizer.from_pretrained({name}),
)
trainer.train()
"""
SFT = """from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(output_dir="out/sft"), peft_config=LoraConfig())
trainer.save_model("out/sft"){behind}
"""


def said(folder: Path, name: str = '"out/sft"', before: str = "") -> list[tuple[str, str]]:
    """(level, message) of what is said of the model's name."""
    script = folder / "dpo.py"
    script.write_text(DPO.format(name=name, before=before))
    port = port_file(script)
    return [(each.severity, each.message) for each in port.findings if each.rule == "TP302"]


@pytest.mark.parametrize("name", ["h2oai/h2o-danube3-4b-base", "sarvamai/sarvam-1", "out/sft"])
def test_a_name_that_tells_no_family(name: str, tmp_path: Path) -> None:
    [(level, message)] = said(tmp_path, f'"{name}"')

    assert level == "info"
    assert message.startswith(f"{name}: the name doesn't tell whether Tunix has")


@pytest.mark.parametrize(
    ("name", "layers", "expected"),
    [
        ("me/Tiny-0.5B", "'q_proj', 'Wqkv', 'c_attn'", "warning"),
        ("me/Tiny-0.5B", "'q_proj', 'v_proj'", "info"),
        ("me/Tiny-0.5B", "'Wqkv', 'c_attn', 'c_attn'", "error"),
        ("me/TinyDeepSeek-0.5B-base", "'q_proj', 'kv_b_proj'", "error"),
        ("me/TinyDeepSeek-0.5B-base", "'q_proj', 'v_proj'", "info"),
        ("Qwen/Qwen3-0.6B", "'q_proj', 'Wqkv'", ""),
    ],
)
def test_layers_that_no_family_has_are_said(name: str, layers: str, expected: str) -> None:
    script = f"""\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
rows = load_dataset("x", split="train")
lora = LoraConfig(target_modules=[{layers}])
trainer = SFTTrainer("{name}", args=SFTConfig(output_dir="out"), train_dataset=rows, peft_config=lora)
trainer.train()
"""
    found = [each for each in port(script).findings if each.rule == "TP302"]

    assert [each.severity for each in found] == [expected][: bool(expected)]
    assert [" layers" in each.message for each in found] == [expected != "info"][: len(found)]


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B"])
def test_a_name_that_tells_one_needs_no_word(name: str, tmp_path: Path) -> None:
    assert said(tmp_path, f'"{name}"') == []


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ('"out/sft"', ""),
        ('CONFIG["policy"]', 'import yaml\nCONFIG = yaml.safe_load(open("dpo.yaml"))'),
        ("args.policy", "import argparse\np = argparse.ArgumentParser()\n"
         "p.add_argument('--policy', default='out/sft')\nargs = p.parse_args()"),
    ],
)  # fmt: skip
def test_a_folder_of_adapters_ends_the_port(name: str, before: str, tmp_path: Path) -> None:
    (tmp_path / "dpo.yaml").write_text("policy: out/sft\n")
    (tmp_path / "out/sft").mkdir(parents=True)
    (tmp_path / "out/sft/adapter_config.json").write_text("{}")

    [(level, message)] = said(tmp_path, name, before)

    assert level == "error"
    assert message.startswith("out/sft") and "holds adapters and no model" in message
    assert "nothing is trained" in message


def test_a_folder_with_a_model_beside_its_adapters(tmp_path: Path) -> None:
    (tmp_path / "out/sft").mkdir(parents=True)
    (tmp_path / "out/sft/adapter_config.json").write_text("{}")
    (tmp_path / "out/sft/config.json").write_text('{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}')

    assert said(tmp_path) == []


def test_a_folder_that_a_script_of_adapters_saves(tmp_path: Path) -> None:
    (tmp_path / "sft.py").write_text(SFT.format(behind=""))

    [(level, message)] = said(tmp_path)

    assert level == "warning"
    assert message.startswith("out/sft: sft.py, which trains adapters, saves into this folder")


@pytest.mark.parametrize("long", ["A" * 900_000, "out" * 300_000])
def test_a_notebook_with_pictures_is_read_at_once(long: str, tmp_path: Path) -> None:
    (tmp_path / "sft.py").write_text(SFT.replace("out/sft", "out/2").format(behind=f"\nPICTURE = '{long}'"))
    begun = time.monotonic()

    assert [level for level, _ in said(tmp_path)] == ["info"]
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "text",
    [
        SFT.format(behind="\ntrainer.model.merge_and_unload().save_pretrained('out/sft')"),
        SFT.replace("LoraConfig", "Nothing").replace("peft_config", "callbacks").format(behind=""),
        SFT.replace("out/sft", "out/sft2").format(behind=""),
        SFT.replace("out/sft", "out/2").replace("Qwen/Qwen3-0.6B", "out/sft").format(behind=""),
    ],
)
def test_one_that_saves_a_whole_model_or_another(text: str, tmp_path: Path) -> None:
    (tmp_path / "sft.py").write_text(text)

    assert [level for level, _ in said(tmp_path)] == ["info"]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("me/qwen2.5-7b-lora", "warning"),
        ("me/legal-adapter", "warning"),
        ("out/lora/checkpoint", "warning"),
        ("me/qwen2.5-7b-lora-merged", None),
        ("me/qwen2.5-7b-florabert", None),
        ("me/Qwen2.5-7B-explora", None),
    ],
)
def test_names_of_adapters(name: str, level: str | None, tmp_path: Path) -> None:
    assert [each for each, _ in said(tmp_path, f'"{name}"')] == ([level] if level else [])


def test_adapters_that_unsloth_loads_are_not_said_to_be_frozen(tmp_path: Path) -> None:
    script = tmp_path / "unsloth.py"
    script.write_text(
        "from unsloth import FastLanguageModel\nfrom datasets import load_dataset\n"
        "from trl import SFTConfig, SFTTrainer\n"
        'model, tokenizer = FastLanguageModel.from_pretrained("lora_model", load_in_4bit=True)\n'
        'trainer = SFTTrainer(model=model, processing_class=tokenizer, args=SFTConfig(output_dir="out"), '
        'train_dataset=load_dataset("a/b", split="train"))\ntrainer.train()\n'
    )

    [finding] = [each for each in port_file(script).findings if each.rule == "TP302"]

    assert "it is called adapters" in finding.message and "frozen" not in finding.message
