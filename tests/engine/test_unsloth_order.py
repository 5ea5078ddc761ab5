"""Which imports run first, across the files of a project: what is taken from TRL before unsloth stays TRL's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.tree import port_tree
from porter.port import Options

PINS = "trl==0.15.2\ntransformers==4.49.0\nunsloth==2025.3.3\n"
LOADS = """\
from unsloth import FastLanguageModel


def load():
    model, tokenizer = FastLanguageModel.from_pretrained(
        "unsloth/Qwen2.5-0.5B-Instruct", load_in_4bit=False{engine}
    )
    return FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"]), tokenizer
"""
PASSES_ON = "from loading import *\n"
CLASSES = "from trl import {kind}Config, {kind}Trainer\n"
TRAINS = """\
from datasets import load_dataset
{imports}
rows = load_dataset("some/rows", split="train")
model, tokenizer = load()
trainer = {kind}Trainer(
    model, {rewards}args={kind}Config("out"), train_dataset=rows, processing_class=tokenizer
)
trainer.train()
"""


def trained(folder: Path, imports: str, kind: str, engine: str = "") -> str:
    rewards = "reward_funcs=[len], " if kind == "GRPO" else ""
    files = {
        "requirements.txt": PINS,
        "loading.py": LOADS.format(engine=engine),
        "passing.py": PASSES_ON,
        "train.py": TRAINS.format(imports=imports, kind=kind, rewards=rewards),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return port_tree(folder, Options(), jobs=1).ports[Path("train.py")].after


@pytest.mark.parametrize("kind", ["SFT", "GRPO", "DPO", "ORPO", "KTO"])
@pytest.mark.parametrize("module", ["loading", "passing"])
def test_a_modules_import_of_unsloth_counts_where_the_script_imports_it(tmp_path: Path, kind: str, module: str) -> None:
    classes, loads = CLASSES.format(kind=kind), f"from {module} import load\n"
    assert "seed=42," in trained(tmp_path, classes + loads, kind)
    assert "seed=3407," in trained(tmp_path, loads + classes, kind)


def test_trls_own_class_samples_as_its_config_says(tmp_path: Path) -> None:
    """Beside a model of `fast_inference=True`, too: only Unsloth's class sets use_vllm itself."""
    classes, loads = CLASSES.format(kind="GRPO"), "from loading import load\n"
    engine = ", fast_inference=True"
    after = trained(tmp_path, classes + loads, "GRPO", engine)
    assert "top_k=50," in after
    after = trained(tmp_path, loads + classes, "GRPO", engine)
    assert "top_k=" not in after and "only_eos_token" not in after
