"""What the port of a module beside the script holds, and what is said of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.front.port_script import port_script

from .projects import MODELS, ported, project


def test_a_model_that_tunix_has_not_in_settings_of_another_module(tmp_path: Path) -> None:
    settings = """\
from dataclasses import dataclass


@dataclass
class ModelSettings:
    model_name: str = "google/gemma-3n-e2b-it"


@dataclass
class Settings:
    model: ModelSettings = None

    def __post_init__(self):
        self.model = ModelSettings()
"""
    models = MODELS.replace("def load_model(name):", "def load_model(settings):").replace(
        "(name", "(settings.model.model_name"
    )
    imports = "from models import load_model\nfrom settings import Settings"
    changed = ('load_model("Qwen/Qwen3-0.6B")', "load_model(Settings())")
    port = ported(tmp_path, imports, "load_model", changed=changed, models=models, settings=settings)
    assert port.status == "partial"
    assert any(
        "google/gemma-3n-e2b-it (ModelSettings.model_name): Tunix doesn't have" in each.message
        for file in (port, *port.modules)
        for each in file.findings
    )


ROWS = """\
from datasets import Dataset, load_dataset


def load_rows(path):
    # Read what others wrote
    return load_dataset("json", data_files=path, split="train")


def with_more(rows: Dataset, more: list) -> Dataset:
    return Dataset.from_dict({"text": rows["text"] + more})
"""
WHOLE_ALONE = """\
from rows import load_rows, with_more
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

name = "Qwen/Qwen3-0.6B"
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained(name),
    args=SFTConfig(output_dir="out"),
    train_dataset=with_more(load_rows("rows.jsonl"), ["Hello"]),
    processing_class=AutoTokenizer.from_pretrained(name),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("loads", "annotation", "changes"),
    [
        ("load_dataset", "", True),
        ("load_dataset", ": Dataset", True),
        ("company.read", ": Dataset", True),
        ("company.read", "", False),
    ],
)
def test_a_module_that_needs_a_change_beside_a_script_that_is_whole_alone(
    tmp_path: Path, loads: str, annotation: str, changes: bool
) -> None:
    rows = ROWS.replace(": Dataset, more", f"{annotation}, more").replace("return load_dataset", f"return {loads}")
    project(tmp_path, {"train.py": WHOLE_ALONE, "rows.py": f"import company\n{rows}"})
    assert port_file(tmp_path / "train.py").status == "ported"
    port = port_script(tmp_path / "train.py")
    assert port.status == "ported"
    assert [('list(rows["text"]) + more' in module.after) for module in port.modules] == [True] * changes
    assert ("from rows_tunix import load_rows, with_more" in port.after) is changes


def test_a_comment_goes_with_its_lines_in_a_module_too(tmp_path: Path) -> None:
    models = MODELS.replace(
        "    model =", "    # Free what an earlier run held\n    torch.cuda.empty_cache()\n\n    model ="
    )
    port = ported(tmp_path, "from models import load_model", "load_model", models=models)
    (module,) = port.modules
    assert "empty_cache" not in module.after and "Free what" not in module.after


def test_what_packs_say_of_names_holds_in_modules(tmp_path: Path) -> None:
    """A name that its library lost, which a module beside the script uses."""
    models = MODELS.replace("import torch\n", "import torch\nfrom datasets import load_metric\n")
    models = models.replace("def load_model", 'rouge = load_metric("rouge")\n\n\ndef load_model')
    port = ported(tmp_path / "p", "from models import load_model", "load_model", models=models)
    found = [(each, finding) for each in (port, *port.modules) for finding in each.findings]
    said = [(Path(each.path).name, finding.fix) for each, finding in found if finding.rule == "TP007"]
    assert said == [("models.py", "evaluate.load() loads the same metrics.")]


def test_a_module_in_the_words_of_a_newer_python(tmp_path: Path) -> None:
    models = MODELS + '\n\ndef show(row):\n    print(f"{row["text"]}", f"""{row["a"]}\n    of {row["b"]}""")\n'
    port = ported(tmp_path, "from models import load_model", "load_model", models=models)
    assert port.status == "ported" and "from models_tunix import load_model" in port.after
    assert 'f"{row["text"]}"' in port.modules[0].after


LOOP = """\
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader

from helpers import collate, load_model, rows

accelerator = Accelerator()
model = load_model("Qwen/Qwen3-0.6B")
loader = DataLoader(rows(), batch_size=4, shuffle=True, collate_fn=collate)
optimizer = AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for batch in loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(loss)
"""
HELPERS = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, default_data_collator as collate


def rows():
    return load_dataset("some/rows", split="train")


def load_model(name):
    return AutoModelForCausalLM.from_pretrained(name)
"""


def test_a_line_that_a_message_names_is_that_of_its_file(tmp_path: Path) -> None:
    project(tmp_path, {"helpers.py": HELPERS, "train.py": LOOP})
    port = port_script(tmp_path / "train.py")
    said = [finding.message for finding in port.findings if "What the loop prints and logs" in finding.message]
    assert len(said) == 1 and "(line 18)" in said[0], [str(finding) for finding in port.findings]


ROWS_OF_A_SCRIPT = """\
from datasets import load_dataset


def load_rows():
    return load_dataset("samsum", split="train")


def load_others():
    return load_dataset("json", data_files="others.jsonl", split="train")
"""
OWN_ROWS = 'load_dataset("json", data_files="rows.jsonl", split="train")'


@pytest.mark.parametrize(
    ("taken", "module", "ends"),
    [
        ("load_rows", ROWS_OF_A_SCRIPT, True),
        ("load_others", ROWS_OF_A_SCRIPT, False),
        ("load_rows", ROWS_OF_A_SCRIPT.replace('"samsum"', '"imdb"'), False),
        ("load_rows", ROWS_OF_A_SCRIPT.replace('"samsum"', '"imdb"') + "\n\nprint(load_dataset('samsum'))\n", True),
    ],
    ids=["reached", "not reached", "no script", "at its top"],
)
def test_a_load_that_ends_in_a_module_that_the_run_comes_to(
    taken: str, module: str, ends: bool, tmp_path: Path
) -> None:
    imports = f"from rows import {taken}\nfrom transformers import AutoTokenizer"
    load = '"Qwen/Qwen3-0.6B", AutoTokenizer.from_pretrained'
    port = ported(tmp_path, imports, load, changed=(OWN_ROWS, f"{taken}()"), rows=module)
    assert port.status == ("partial" if ends else "ported")
    assert any("rows.py:" in each.message and "samsum" in each.message for each in port.findings) is ends


def test_what_ends_in_a_module_that_cant_be_written_beside(tmp_path: Path) -> None:
    rows = """\
import os

import torch
from datasets import load_dataset

ROOT = os.path.dirname(__file__)


def load_rows():
    load_dataset("samsum")
    print(torch.zeros(2).to("cuda"))
    return load_dataset("json", data_files="rows.jsonl", split="train")
"""
    imports = "from transformers import AutoTokenizer\nfrom inner.rows import load_rows"
    load = '"Qwen/Qwen3-0.6B", AutoTokenizer.from_pretrained'
    port = ported(tmp_path, imports, load, changed=(OWN_ROWS, "load_rows()"), inner__rows=rows)
    assert (port.status, port.modules) == ("partial", ())
    said = sorted(each.message for each in port.findings if each.message.startswith("inner/rows.py:"))
    for line, (each, end) in enumerate(zip(said, ("gone from the Hub", "the port ends here"), strict=True), 10):
        assert each.startswith(f"inner/rows.py:{line}: ") and end in each


def test_a_trainer_that_no_rule_reads_stays_said_beside_one_of_a_module(tmp_path: Path) -> None:
    text = "from trl import SFTConfig, SFTTrainer\nfrom rows import load_rows\nfrom models import load_model\n\n\n"
    trains = 'def train(name):\n    model, tokenizer = load_model(name)\n    args = SFTConfig("out", max_steps=4)\n'
    trains += (
        "    rows = load_rows()\n    SFTTrainer(model, args, train_dataset=rows, processing_class=tokenizer).train()\n"
    )
    rows = 'from datasets import load_dataset\n\n\ndef load_rows():\n    return load_dataset("a/b", split="train")\n'
    script = (
        "import sys\n\nfrom trl import DPOConfig\n\nfrom steps import train\n\n\ndef main():\n    if sys.argv[1:]:\n"
    )
    script += '        from ours.trainers import OwnTrainer\n\n        OwnTrainer(args=DPOConfig("out")).train()\n'
    script += '    else:\n        train("Qwen/Qwen3-0.6B")\n\n\nmain()\n'
    project(tmp_path, {"train.py": script, "steps.py": text + trains, "rows.py": rows, "models.py": MODELS})
    port = port_script(tmp_path / "train.py")
    assert port.status == "partial" and port.modules
    assert [each.rule for each in port.findings if each.severity == "error"] == ["TP004"]
