"""Differences between source and port that a library makes by itself, said where the script shows them."""

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.parsing import parse_module

from .porting import sft_script

ADAPTERS = "import torch\nfrom peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
QUANTISED = ", quantization_config=BitsAndBytesConfig(load_in_{bits}bit=True)"
NAMED = "autocast multiplies the frozen weights in bfloat16"
PREPARED = "prepares a quantised base itself"


def ported(folder: Path, text: str, pins: str = "") -> Port:
    (folder / "requirements.txt").write_text(pins)
    return port_module(parse_module(text.encode(), str(folder / "train.py")), Options())


@pytest.mark.parametrize(
    ("config", "load", "sources"),
    [
        ("", "float32", ["AutoModelForCausalLM.dtype"]),
        (", bf16=True", "float32", ["AutoModelForCausalLM.dtype", "SFTConfig.bf16"]),
        (", bf16=False", "float32", []),
        ("", "bfloat16", []),
    ],
)
def test_float32_weights_that_are_kept_in_bfloat16_are_said(
    tmp_path: Path, config: str, load: str, sources: list[str]
) -> None:
    text = sft_script(imports=ADAPTERS, config=config, trainer=", peft_config=LoraConfig(r=4)")
    found = ported(tmp_path, text.replace('dtype="bfloat16"', f'dtype="{load}"'))
    assert sorted(row.source for row in found.fields if NAMED in row.reason) == sources
    assert ("dtype=jnp.float32" in found.after) == (config == ", bf16=False")


def test_where_nothing_writes_either_type_the_model_says_it(tmp_path: Path) -> None:
    text = sft_script(imports=ADAPTERS, trainer=", peft_config=LoraConfig(r=4)").replace("    model,", '    "Qwen/Q",')
    config = 'SFTConfig(model_init_kwargs={"torch_dtype": torch.bfloat16}, '
    found = ported(tmp_path, text.replace("SFTConfig(out", f"{config}out"))
    assert [row.source for row in found.fields if NAMED in row.reason] == ["SFTTrainer.model"]
    (finding,) = (each.message for each in found.findings if "has no effect" in each.message)
    assert finding.endswith("the source loads float32 weights.")


@pytest.mark.parametrize(
    ("pins", "bits", "config", "prepared"),
    [
        ("trl==0.19.1", 4, ", fp16=True", True),
        ("trl==0.19.1", 4, ", bf16=True", False),
        ("trl==0.19.1", 8, ", bf16=True", True),
        ("trl==0.26.0", 4, ", fp16=True, bf16=False", False),
    ],
)
def test_trls_own_preparation_of_a_quantised_base_is_said(
    tmp_path: Path, pins: str, bits: int, config: str, prepared: bool
) -> None:
    load = QUANTISED.format(bits=bits)
    text = sft_script(imports=ADAPTERS, load=load, config=config, trainer=", peft_config=LoraConfig(r=4)")
    found = ported(tmp_path, text.replace('dtype="bfloat16"', "torch_dtype=torch.float16"), pins)
    assert [row.source for row in found.fields if PREPARED in row.reason] == ["SFTTrainer.peft_config"] * prepared


RESUMING = """
import os
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments


def train(resume_from_checkpoint: str = None, out: str = "out"):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
    model = get_peft_model(model, LoraConfig(r=4))
    rows = load_dataset("some/rows", split="train")
    if resume_from_checkpoint:
        name = os.path.join(resume_from_checkpoint, "pytorch_model.bin")
        if not os.path.exists(name):
            name = os.path.join({looked_in}, "adapter_model.bin")
            resume_from_checkpoint = False
        set_peft_model_state_dict(model, torch.load(name))
    args = TrainingArguments("out", report_to="none")
    collator = DataCollatorForSeq2Seq(AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"))
    trainer = Trainer(model=model, args=args, train_dataset=rows, data_collator=collator)
    trainer.train(resume_from_checkpoint=resume_from_checkpoint)
    model.save_pretrained(out)


train()
"""


def test_the_files_that_a_resumed_checkpoint_lacks_are_said(tmp_path: Path) -> None:
    found = ported(tmp_path, RESUMING.replace("{looked_in}", "resume_from_checkpoint"))
    said = {finding.line: finding.message for finding in found.findings if finding.rule == "TP314"}
    assert said[14].startswith("pytorch_model.bin: the port's checkpoints are Orbax's and hold none")
