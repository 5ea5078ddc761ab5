"""Projects of a script and its modules, and the script's port."""

from __future__ import annotations

from pathlib import Path

from porter.front.port_script import port_script
from porter.port import Port

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

{imports}

model, tokenizer = {load}("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", learning_rate=1e-4),
    train_dataset=load_dataset("json", data_files="rows.jsonl", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8),
)
trainer.train()
"""
MODELS = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load_model(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")
    return model, AutoTokenizer.from_pretrained(name)
"""


def project(folder: Path, files: dict[str, str]) -> None:
    """Writes the files, below a folder that is the root of a project."""
    for name, text in {"LICENSE": "free\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def ported(
    folder: Path,
    imports: str,
    load: str,
    script: str = "train.py",
    changed: tuple[str, str] = ("", ""),
    **modules: str,
) -> Port:
    """The port of `script` in a project of the modules: `src__models` is `src/models.py`. `changed` is a part of the
    script and what stands there instead.
    """
    text = SCRIPT.format(imports=imports, load=load)
    assert changed[0] in text
    files = {f"{name.replace('__', '/')}.py": each for name, each in modules.items()}
    project(folder, {script: text.replace(*changed), **files})
    return port_script(folder / script)
