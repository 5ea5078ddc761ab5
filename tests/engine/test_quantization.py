"""Configs of bitsandbytes that stay objects: what transformers ignores in them goes."""

from __future__ import annotations

import re

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("load_in_8bit=True, bnb_x=1, bnb_y=2", "load_in_8bit=True"),
        ("load_in_8bit=True, bnb_x=1, bnb_y=2,", "load_in_8bit=True,"),
        ("\n    load_in_8bit=True,\n    bnb_x=1,\n    bnb_y=2,\n    bnb_z=3,\n", "\n    load_in_8bit=True,\n"),
        ("bnb_x=1, load_in_8bit=True, bnb_y=2,", "load_in_8bit=True,"),
        ("bnb_w=1, bnb_x=1, load_in_8bit=True", "load_in_8bit=True"),
        ("load_in_8bit=True,  # why\n    bnb_x=1,\n    bnb_y=2,\n", "load_in_8bit=True,  # why\n"),
    ],
)
def test_neighbouring_keywords_go_with_their_commas(given: str, kept: str) -> None:
    made = f"more = sys.argv[1:]\nconfig = BitsAndBytesConfig({given}) if more else None"
    imports = "import sys\nfrom peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    script = sft_script(
        made, imports=imports, load=", quantization_config=config", trainer=", peft_config=LoraConfig()"
    )
    found = port(script)
    assert f"BitsAndBytesConfig({kept}) if more else None" in found.after, found.after
    said = [finding.message for finding in found.findings if "transformers ignores" in finding.message]
    assert len(said) == given.count("bnb_")


@pytest.mark.parametrize(
    ("four", "puts", "severities"),
    [
        ("True", "", ["error"]),
        ("config.four", "", ["warning"]),
        ("False", "", []),
        ("config.four", "model = FastLanguageModel.get_peft_model(model, r=8)\n", []),
    ],
)
def test_a_base_in_4_bits_without_adapters_is_a_finding_also_when_the_run_decides_it(
    four: str, puts: str, severities: list[str]
) -> None:
    found = port(
        "from project import config\nfrom unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n"
        f"model, tokenizer = FastLanguageModel.from_pretrained(config.folder, load_in_4bit={four})\n{puts}"
        "trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=config.rows, processing_class=tokenizer)\n"
        "trainer.train()\n"
    )
    said = [finding for finding in found.findings if "puts no adapters in" in finding.message]
    assert [finding.severity for finding in said] == severities


def test_the_config_of_a_model_that_another_function_loads_stays_as_it_is() -> None:
    """`infer` of a script that trains: its keywords are where they were, and none of them is called lost."""
    held = """def infer():
    held = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="fp4")
    return AutoModelForCausalLM.from_pretrained("out", quantization_config=held)
"""
    text = sft_script(
        held,
        imports="from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig",
        load=', quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
        trainer=", peft_config=LoraConfig(r=8)",
    )
    found = port(text)
    assert 'bnb_4bit_quant_type="fp4")' in found.after and 'quantization="nf4"' in found.after
    assert not [each for each in found.findings if "no line of the port" in each.message]


def test_float16_weights_are_told_beside_what_int8_differs_in() -> None:
    script = sft_script(load=", load_in_8bit=True, torch_dtype='float16'", trainer=", peft_config=LoraConfig()")
    found = port(f"from peft import LoraConfig\n{script}")
    (row,) = [field for field in found.fields if field.source.endswith(".load_in_8bit")]
    assert row.fate == "changed"
    assert "LLM.int8() rounds" in row.reason and row.reason.count("0.4 % of which") == 1


def test_checkpointing_that_another_method_asks_of_the_same_object_is_turned_on() -> None:
    text = """from datasets import load_dataset
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer


class Run:
    def load(self):
        config = BitsAndBytesConfig(load_in_4bit=True)
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=config)
        self.model = prepare_model_for_kbit_training(self.model, use_gradient_checkpointing=self.saves_memory)

    def train(self):
        self.load()
        rows = load_dataset("a/b", split="train")
        trainer = SFTTrainer(self.model, args=SFTConfig("out", gradient_checkpointing=False),
                             train_dataset=rows, peft_config=LoraConfig())
        trainer.train()


Run().train()
"""
    found = port(text)
    assert "if self.saves_memory:\n            self.model = rt.remat(self.model)" in found.after
    assert not [finding for finding in found.findings if "gradient_checkpointing" in finding.message]


def test_checkpointing_that_a_function_is_asked_for_is_said() -> None:
    text = """from datasets import load_dataset
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer


def load(saves_memory):
    config = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=config)
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=saves_memory)


def main(args):
    rows = load_dataset("a/b", split="train")
    trainer = SFTTrainer(load(args.saves), args=SFTConfig("out", gradient_checkpointing=False),
                         train_dataset=rows, peft_config=LoraConfig())
    trainer.train()
"""
    assert [finding.rule for finding in port(text).findings if "gradient_checkpointing" in finding.message] == ["TP602"]


@pytest.mark.parametrize(
    ("release", "trainer", "more", "said"),
    [
        ("1.16.0", "SFT", "", "trains and saves the adapters"),
        ("0.26.0", "SFT", "", "trains and saves the adapters"),
        ("0.25.1", "SFT", ", bf16=True", ""),
        ("0.12.2", "SFT", ", bf16=True", ""),
        ("0.8.6", "SFT", ", bf16=True", "of a base of 4 bits in bfloat16"),
        ("0.8.6", "SFT", "", ""),
        ("0.28.0", "DPO", "", ""),
        ("0.29.1", "DPO", "", "trains and saves the adapters"),
    ],
)
def test_adapters_that_trl_makes_bfloat16_are_said(release: str, trainer: str, more: str, said: str) -> None:
    """Only by the releases that cast them: those between let PEFT's float32 adapters be."""
    text = CAST.format(release=release, trainer=trainer, more=more, config="BitsAndBytesConfig(load_in_4bit=True)")
    if release == "0.8.6":  # SFTConfig came with 0.9
        text = text.replace("import SFTConfig, SFT", "import SFT").replace("SFTConfig(", "TrainingArguments(")
        text = text.replace("BitsAndBytesConfig\n", "BitsAndBytesConfig, TrainingArguments\n").replace(
            "processing_class", "tokenizer"
        )
    found = [finding for finding in port(text).findings if "saves the adapters" in finding.message]
    assert len(found) == bool(said) and all(said in each.message and each.severity == "info" for each in found)


def test_under_fp16_that_release_ends_and_an_older_one_is_meant() -> None:
    text = CAST.format(
        release="1.16.0", trainer="SFT", more=", fp16=True", config="BitsAndBytesConfig(load_in_4bit=True)"
    )
    said = str(port(text).findings)
    assert "fp16=True's loss scaling can't take" in said and "saves the adapters" not in said


def of_0_8(more: str) -> str:
    text = CAST.format(release="0.8.6", trainer="SFT", more=more, config="BitsAndBytesConfig(load_in_4bit=True)")
    text = text.replace("import SFTConfig, SFT", "import SFT").replace("SFTConfig(", "TrainingArguments(")
    return text.replace("BitsAndBytesConfig\n", "BitsAndBytesConfig, TrainingArguments\n")


def test_adapters_that_the_script_put_in_are_not_cast_by_the_trainer() -> None:
    text = of_0_8(", bf16=True").replace("processing_class", "tokenizer")
    own = text.replace(
        "\ntrainer =", "\nfrom peft import get_peft_model\nmodel = get_peft_model(model, LoraConfig())\ntrainer ="
    )
    assert "saves the adapters" in str(port(text).findings) and "saves the adapters" not in str(port(own).findings)


def test_also_where_the_arguments_stay_an_object() -> None:
    text = of_0_8(", bf16=True")
    call = re.search(r"args=(TrainingArguments\([^)]*\))", text)
    assert call is not None
    made = f"\nsettings = {call[1]}\nsettings.logging_steps = settings.save_steps\nprint(settings.to_dict())\ntrainer ="
    text = text.replace(call[1], "settings").replace("\ntrainer =", made, 1).replace("processing_class", "tokenizer")
    assert "of a base of 4 bits in bfloat16" in str(port(text).findings)


def test_also_where_the_run_decides_that_it_is_quantised() -> None:
    text = CAST.format(release="1.16.0", trainer="SFT", more="", config="CONFIG if sys.argv[1:] else None")
    text = text.replace("\nmodel =", "\nimport sys\nCONFIG = BitsAndBytesConfig(load_in_8bit=True)\nmodel =", 1)
    assert "where the script quantises it" in str(port(text).findings)


CAST = """\
# /// script
# dependencies = ["trl=={release}"]
# ///
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import {trainer}Config, {trainer}Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config={config})
trainer = {trainer}Trainer(
    model,
    args={trainer}Config("out"{more}),
    train_dataset=load_dataset("x", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("load", "given", "remat"),
    [
        (", load_in_4bit=True", "", True),
        ("", "", False),
        ("", ", use_gradient_checkpointing=True", False),
        (", quantization_config=None", "", False),
        (", load_in_4bit=FOUR", "", True),
    ],
)
def test_only_a_quantised_base_is_recomputed_by_its_preparation(load: str, given: str, remat: bool) -> None:
    text = sft_script(
        "FOUR = len(open('x').read()) > 3",
        imports="from peft import LoraConfig, prepare_model_for_kbit_training",
        load=load,
        between=f"model = prepare_model_for_kbit_training(model{given})",
        trainer=", peft_config=LoraConfig()",
        config=", gradient_checkpointing=False",
    )
    found = port(text)
    assert ("rt.remat(" in found.after) is remat, found.after
    assert found.status == "ported", found.findings


def test_keywords_that_only_the_run_knows_stay_in_the_object() -> None:
    made = "import yaml\nwith open('c.yaml') as file:\n    c = yaml.safe_load(file)\n"
    made += "config = BitsAndBytesConfig(**c['quantization'])"
    imports = "from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    found = port(
        sft_script(made, imports=imports, load=", quantization_config=config", trainer=", peft_config=LoraConfig()")
    )
    assert found.status == "ported", found.findings
    assert "BitsAndBytesConfig(**c['quantization'])\n" in found.after and "quantization=config" in found.after
    assert "arguments import BitsAndBytesConfig" in found.after


def test_also_where_only_the_arguments_object_knows_its_precision() -> None:
    """A dictionary that can't be read: the adapters' type is said with where it holds."""
    text = CAST.format(release="0.8.6", trainer="SFT", more="", config="BitsAndBytesConfig(load_in_4bit=True)")
    text = text.replace("import SFTConfig, SFT", "import SFT").replace('SFTConfig("out")', "made(seed=1)")
    text = text.replace("BitsAndBytesConfig\n", "BitsAndBytesConfig, TrainingArguments\n").replace(
        "processing_class", "tokenizer"
    )
    made = """

def made(**more):
    settings = {"output_dir": "out", "bf16": True}
    settings.update(more)
    return TrainingArguments(**settings)


tokenizer ="""
    found = str(port(text.replace("\ntokenizer =", made, 1)).findings)
    assert "of a base of 4 bits in bfloat16 where it trains under bf16=True" in found


@pytest.mark.parametrize("given", ["ARGS.bf16", "len(sys.argv) > 1", "torch.cuda.is_bf16_supported()", "False"])
def test_also_where_the_run_decides_its_precision(given: str) -> None:
    """What a flag says is neither yes nor no; what is known is said without a condition, or not at all."""
    text = CAST.format(
        release="0.8.6", trainer="DPO", more=f", bf16={given}", config="BitsAndBytesConfig(load_in_4bit=True)"
    )
    text = text.replace("import DPOConfig, DPO", "import DPO").replace("DPOConfig(", "TrainingArguments(")
    text = text.replace("BitsAndBytesConfig\n", "BitsAndBytesConfig, TrainingArguments\n")
    before = (
        "\nimport argparse, sys, torch\nPARSER = argparse.ArgumentParser()\nPARSER.add_argument('--bf16', type=bool)\n"
    )
    text = text.replace("\ntokenizer =", f"{before}ARGS = PARSER.parse_args()\ntokenizer =", 1)
    said = "of a base of 4 bits in bfloat16"
    said += "" if "torch" in given else " where it trains under bf16=True"
    assert (said in str(port(text.replace("processing_class", "tokenizer")).findings)) is (given != "False")
