"""What a GPU's launcher sets in the environment, and checkpoints that are read as transformers writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
import os
from datasets import load_dataset
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

{before}
rows = load_dataset("some/rows", split="train")
args = SFTConfig(output_dir="out")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows, peft_config=LoraConfig(r=4))
trainer.train()
{after}
"""


def ported(before: str = "", after: str = "", **options: object) -> Port:
    return port(SCRIPT.format(before=before, after=after), **options)


def errors(found: Port, rule: str) -> list[str]:
    return [each.message for each in found.findings if each.rule == rule and each.severity == "error"]


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ('rank = int(os.environ["LOCAL_RANK"])', 'rank = int(os.environ.get("LOCAL_RANK", "0"))'),
        ('rank = int(os.getenv("LOCAL_RANK"))', 'rank = int(os.getenv("LOCAL_RANK", "0"))'),
        ('rank = os.environ["RANK"]', 'rank = os.environ.get("RANK", str(jax.process_index()))'),
        ('KEY = "LOCAL_RANK"\nrank = os.environ[KEY]', 'rank = os.environ.get(KEY, "0")'),
        ('n = int(os.environ["WORLD_SIZE"])', 'n = int(os.environ.get("WORLD_SIZE", "1"))'),
    ],
)
def test_a_read_has_what_one_process_has(line: str, becomes: str) -> None:
    found = ported(line)
    assert becomes in found.after and found.status == "ported", found.findings
    assert port(found.data).edits == ()


@pytest.mark.parametrize(
    "line",
    [
        'rank = os.environ.get("LOCAL_RANK", 0)',
        'rank = os.getenv("LOCAL_RANK")',
        'os.environ["MASTER_PORT"] = "29500"\nport = os.environ["MASTER_PORT"]',
        'os.environ.setdefault("LOCAL_RANK", "0")\nrank = os.environ["LOCAL_RANK"]',
        'token = os.environ["HF_TOKEN"]',
        'for name in ("HF_TOKEN", "WANDB_PROJECT"):\n    print(os.environ[name])',
        'distributed = "LOCAL_RANK" in os.environ',
        'if "LOCAL_RANK" not in os.environ:\n    print("alone")',
    ],
)
def test_what_does_not_end_the_port_stays(line: str) -> None:
    found = ported(line)
    assert line in found.after and errors(found, "TP425") == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('for name in ("RANK", "WORLD_SIZE"):\n    print(os.environ[name])', "os.environ[name]: RANK, WORLD_SIZE"),
        ('found = {k: os.environ[k] for k in ["RANK", "HF_TOKEN"]}', "os.environ[k]: RANK"),
        ('assert "LOCAL_RANK" in os.environ and rank', 'LOCAL_RANK" in os.environ'),
        ('if "RANK" not in os.environ:\n    raise ValueError("use torchrun")', '"RANK" not in os.environ: RANK'),
    ],
)
def test_what_ends_the_port_is_named(line: str, named: str) -> None:
    found = ported(line)
    assert len(errors(found, "TP425")) == 1 and named in errors(found, "TP425")[0]
    assert found.status == "partial"


def test_the_number_of_processes_that_is_told_comes_first() -> None:
    assert 'n = int("4")' in ported('n = int(os.environ["WORLD_SIZE"])', processes=4).after


@pytest.mark.parametrize(
    "line",
    [
        'model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("m"), "out/checkpoint-300")',
        'model = AutoPeftModelForCausalLM.from_pretrained("./out/checkpoint-300")',
        'tokenizer = AutoTokenizer.from_pretrained(f"{args.output_dir}/checkpoint-300")',
        'config = PeftConfig.from_pretrained(os.path.join(args.output_dir, "x", "a/checkpoint-3"))',
        'last = get_last_checkpoint("out")\nconfig = PeftConfig.from_pretrained(last)',
    ],
)
def test_a_checkpoint_of_the_run_is_no_folder_of_transformers(line: str) -> None:
    found = ported(after=line)
    assert len(errors(found, "TP314")) == 1 and "Orbax's" in errors(found, "TP314")[0], found.findings
    assert found.status == "partial"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('tokenizer = AutoTokenizer.from_pretrained("out/checkpoint-300")', ""),
        ("", 'tokenizer = AutoTokenizer.from_pretrained("others/checkpoint-300")'),
        ("", 'tokenizer = AutoTokenizer.from_pretrained("out")'),
    ],
)
def test_other_folders_are(before: str, after: str) -> None:
    assert errors(ported(before, after), "TP314") == []


@pytest.mark.parametrize(
    ("launch", "processes", "fate"),
    [
        ("N=${1:-1}\ntorchrun --nproc_per_node $N train.py\n", None, "changed"),
        ("N=${1:-1}\ntorchrun --nproc_per_node $N train.py\n", 4, "changed"),
        ("N=1\ntorchrun --nproc_per_node ${N:-4} train.py\n", None, "exact"),
    ],
)
def test_a_number_of_processes_that_the_shell_may_change(
    tmp_path: Path, launch: str, processes: int | None, fate: str
) -> None:
    (tmp_path / "run.sh").write_text(launch)
    found = ported(launch_config=tmp_path / "run.sh", processes=processes)
    fates = {row.source: row.fate for row in found.recipe.fields}
    assert fates["run.sh: num_processes"] == fate
    said = [each.severity for each in found.findings if "only the shell knows" in each.message]
    assert said == (["warning"] if fate == "changed" and processes is None else [])
