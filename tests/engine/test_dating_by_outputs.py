"""Which release a notebook ran on, as a library prints it: Unsloth's banner in the outputs it was saved with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Port

LOADS = """from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
"""
TRAINS = """from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=TrainingArguments("out"), train_dataset=rows, tokenizer=tokenizer{more})
trainer.train()
"""
BANNER = "==((====))==  Unsloth {}: Fast Llama patching. Transformers: {}.\n   \\\\   /|    Tesla T4. Num GPUs = 1.\n"


def ported(folder: Path, printed: str, *, first: str = "", trains: str = TRAINS, more: str = "") -> Port:
    """A notebook whose second cell has printed something when its model was loaded."""
    outputs = [{"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}]
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": shown, "source": source}
        for source, shown in ((first, []), (LOADS, outputs), (trains.replace("{more}", more), []))
        if source
    ]
    path = folder / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return port_file(path)


@pytest.mark.parametrize(
    ("printed", "unsloth", "trl", "transformers"),
    [
        (BANNER.format("2024.12.12", "4.47.1"), "2024.12.12", "0.13.0", "4.47.1"),
        (BANNER.format("2025.3.19", "4.50.0. vLLM: 0.8.2"), "2025.3.19", "0.15.2", "4.50.0"),
        (BANNER.format("2025.8.2", "4.56.0.dev0"), "2025.8.2", "0.21.0", "4.56.0"),
        (BANNER.format("2026.4.4", "5.5.0"), "2026.4.4", "0.24.0", "5.5.0"),
        (
            BANNER.format("2024.9.post4", "4.44.2").replace("Transformers:", "Transformers ="),
            "2024.9",
            "0.10.1",
            "4.44.2",
        ),
        ("==((====))==  Unsloth: Fast Llama patching release 2024.4\n", "2024.4", "0.8.6", ""),
        ("Unsloth 2024.10.7 patched 28 layers with 28 QKV layers.\n", "2024.10.7", "0.11.1", ""),
    ],
)
def test_unsloths_banner_dates_a_notebook(
    tmp_path: Path, printed: str, unsloth: str, trl: str, transformers: str
) -> None:
    found = ported(tmp_path, printed)
    versions = found.recipe.versions
    assert versions["trl"].startswith(f"{trl} (")
    assert versions["unsloth"] == f"{unsloth} (what Unsloth printed: unsloth=={unsloth})"
    if transformers:
        assert versions["transformers"] == f"{transformers} (what Unsloth printed: transformers=={transformers})"


def test_of_several_banners_the_last_counts(tmp_path: Path) -> None:
    found = ported(tmp_path, BANNER.format("2025.3.17", "4.49.0") + BANNER.format("2025.3.18", "4.50.0"))
    assert found.recipe.versions["transformers"].startswith("4.50.0 ")


def test_what_the_notebook_pins_is_stronger(tmp_path: Path) -> None:
    """A banner of older cells: they have been edited for other releases since."""
    pinned = "!pip install transformers==4.56.2 trl==0.22.2 unsloth"
    found = ported(tmp_path, BANNER.format("2024.8", "4.44.2"), first=pinned)
    assert found.recipe.versions["trl"].startswith("0.22.2 (the script")
    assert found.recipe.versions["transformers"].startswith("4.56.2 (the script")
    assert 'unsloth="2026.8.19"' in found.after
    assert [each.message for each in found.findings if "printed" in each.message] == [
        "what Unsloth printed: transformers==4.44.2, which goes against what the script installs: "
        "transformers==4.56.2: not read."
    ]


@pytest.mark.parametrize(
    ("printed", "lacks"),
    [
        (BANNER.format("2024.8", "4.44.2"), "SFTConfig(max_length=) (new in 0.16)"),
        ("Unsloth 2024.10.7 patched 28 layers with 28 QKV layers.\n", "SFTConfig(max_length=) (new in 0.16)"),
    ],
)
def test_a_banner_of_older_cells_is_not_read(tmp_path: Path, printed: str, lacks: str) -> None:
    trains = TRAINS.replace("transformers import TrainingArguments", "trl import SFTConfig")
    trains = trains.replace('TrainingArguments("out")', 'SFTConfig("out", max_length=256)')
    found = ported(tmp_path, printed, trains=trains)
    assert found.recipe.versions["trl"].startswith("0.24.0 (the newest release beside unsloth)")
    said = [each.message for each in found.findings if "printed" in each.message]
    assert len(said) == 1 and "goes against what its cells use" in said[0] and lacks in said[0]


def test_unsloths_own_logging_steps_of_its_day_win(tmp_path: Path) -> None:
    """It made one config of the arguments and of what the trainer got, before 2025.5.8."""
    found = ported(tmp_path, BANNER.format("2024.12.12", "4.47.1"), more=", logging_steps=200")
    assert found.status == "ported" and "rt.log_every(200" in "".join(found.after.split())
    fates = {field.source: field.fate for field in found.recipe.fields}
    assert fates["SFTTrainer.logging_steps"] == "exact"
