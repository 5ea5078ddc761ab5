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
        ('ranks = [os.environ["LOCAL_RANK"], "1"]', 'ranks = [os.environ.get("LOCAL_RANK", "0"), "1"]'),
        ('rank = os.environ["LOCAL_RANK"]\nos.environ["LOCAL_RANK"] = "1"', 'rank = os.environ.get("LOCAL_RANK", "0")'),
        (
            'try:\n    rank = os.environ["LOCAL_RANK"]\nexcept ValueError:\n    rank = "1"',
            'rank = os.environ.get("LOCAL_RANK", "0")',
        ),
        (
            'try:\n    rank = os.environ["LOCAL_RANK"]\nexcept KeyError:\n    raise SystemExit("use torchrun")',
            'rank = os.environ.get("LOCAL_RANK", "0")',
        ),
        (
            'try:\n    print()\nexcept KeyError:\n    rank = os.environ["LOCAL_RANK"]',
            'rank = os.environ.get("LOCAL_RANK", "0")',
        ),
        (
            'if "LOCAL_RANK" not in os.environ:\n    rank = os.environ["LOCAL_RANK"]',
            'rank = os.environ.get("LOCAL_RANK", "0")',
        ),
        (
            'if "WORLD_SIZE" in os.environ:\n    rank = os.environ["LOCAL_RANK"]',
            'rank = os.environ.get("LOCAL_RANK", "0")',
        ),
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
        'os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"',
        '[os.environ["RANK"], (*os.environ["WORLD_SIZE"], last)] = "0", "12"',
        'for os.environ["RANK"] in "01":\n    print("a rank")',
        'os.environ["RANK"]: str = "0"',
        'if "CUDA_VISIBLE_DEVICES" in os.environ:\n    os.environ["CUDA_VISIBLE_DEVICES"] += ",1"',
        'for k in ("RANK", "LOCAL_RANK"):\n    if k in os.environ:\n        del os.environ[k]',
        'try:\n    rank = int(os.environ["LOCAL_RANK"])\nexcept KeyError:\n    rank = -1',
        'try:\n    rank = os.environ["LOCAL_RANK"]\nexcept (ValueError, LookupError) as problem:\n    rank = None',
        'try:\n    rank = int(os.getenv("LOCAL_RANK"))\nexcept TypeError:\n    rank = -1',
        'try:\n    rank = int(os.getenv("LOCAL_RANK"))\nexcept:\n    rank = -1',
        'from contextlib import suppress\nwith suppress(KeyError):\n    rank = os.environ["RANK"]',
        'try:\n    found = [os.environ[k] for k in ("RANK", "WORLD_SIZE")]\nexcept Exception:\n    found = []',
        'os.environ["RANK"] = "0"\nassert "RANK" in os.environ',
        'os.environ.update({"RANK": "0"})\nassert "RANK" in os.environ',
        'os.environ.setdefault("RANK", "0")\nif "RANK" not in os.environ:\n    raise RuntimeError("no")',
        'try:\n    assert "RANK" in os.environ\nexcept AssertionError:\n    print("alone")',
        'print({k: os.environ[k] for k in ("RANK", "LOCAL_RANK") if k in os.environ})',
        'for k in ("RANK", "LOCAL_RANK"):\n    if k in os.environ:\n        print(k, os.environ[k])',
        'for k in ("RANK", "LOCAL_RANK"):\n    if k not in os.environ:\n        continue\n    print(os.environ[k])',
        'rank = os.environ["RANK"] if os.environ.get("RANK") is not None else "0"',
        'ddp = "RANK" in os.environ\nrank = ddp and int(os.environ["RANK"])',
        'ddp = "RANK" in os.environ\nif ddp:\n    assert "MASTER_ADDR" in os.environ',
        'if "RANK" in os.environ or len(rows) < 3:\n    raise ValueError("no torchrun")',
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
        ('if not "RANK" in os.environ:\n    raise ValueError("use torchrun")', '"RANK" in os.environ: RANK'),
        ('ddp = "RANK" in os.environ\nif not ddp:\n    exit("use torchrun")', "not ddp: RANK"),
        ('assert "RANK" in os.environ\nos.environ["RANK"] = "0"', '"RANK" in os.environ'),
        (
            'if __name__ == "__main__":\n    if "RANK" not in os.environ:\n        raise ValueError("use torchrun")',
            '"RANK" not in os.environ: RANK',
        ),
        ('os.environ["CUDA_VISIBLE_DEVICES"] += ",1"', "CUDA_VISIBLE_DEVICES is set"),
        ('del os.environ["RANK"], os.environ["HF_TOKEN"]', "RANK is set"),
    ],
)
def test_what_ends_the_port_is_named(line: str, named: str) -> None:
    found = ported(line)
    assert len(errors(found, "TP425")) == 1 and named in errors(found, "TP425")[0]
    assert found.status == "partial"


@pytest.mark.parametrize(
    "line",
    [
        'if len(rows) > 3:\n    if "RANK" not in os.environ:\n        raise ValueError("use torchrun")',
        'if len(rows) > 3 and "RANK" not in os.environ:\n    raise ValueError("use torchrun")',
        'assert len(rows) > 3 or "RANK" in os.environ',
    ],
)
def test_a_test_that_is_not_always_come_to_is_a_warning(line: str) -> None:
    found = ported(line)
    said = [each for each in found.findings if each.rule == "TP425"]
    assert [each.severity for each in said] == ["warning"] and "if it comes to this" in said[0].message


def test_the_number_of_processes_has_no_place_where_it_is_written() -> None:
    line = 'os.environ["WORLD_SIZE"], os.environ["RANK"] = "1", "0"'
    assert line in ported(line, processes=4).after


def test_the_number_of_processes_that_is_told_comes_first() -> None:
    assert 'n = int("4")' in ported('n = int(os.environ["WORLD_SIZE"])', processes=4).after


@pytest.mark.parametrize(
    "line",
    [
        'model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("m"), "out/checkpoint-300")',
        'model = AutoPeftModelForCausalLM.from_pretrained("./out/checkpoint-300")',
        'tokenizer = AutoTokenizer.from_pretrained(f"{args.output_dir}/checkpoint-300")',
        'config = PeftConfig.from_pretrained(os.path.join(args.output_dir, "x", "a/checkpoint-3"))',
        'config = PeftConfig.from_pretrained(trainer.args.output_dir + "/checkpoint-300")',
        'folder = args.output_dir\nconfig = PeftConfig.from_pretrained(f"{folder}/checkpoint-300")',
        "config = PeftConfig.from_pretrained(os.path.join('./out/', 'checkpoint-300'))",
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
        ("", 'tokenizer = AutoTokenizer.from_pretrained(os.path.join("baseline", "out", "checkpoint-300"))'),
        ("", 'tokenizer = AutoTokenizer.from_pretrained("my-out/checkpoint-300")'),
        (
            'other = SFTConfig(output_dir="elsewhere")',
            'tokenizer = AutoTokenizer.from_pretrained(other.output_dir + "/checkpoint-300")',
        ),
        ("", 'tokenizer = AutoTokenizer.from_pretrained(cli.output_dir + "/checkpoint-300")'),
    ],
)
def test_other_folders_are(before: str, after: str) -> None:
    assert errors(ported(before, after), "TP314") == []


@pytest.mark.parametrize(
    ("launch", "processes", "fate"),
    [
        ("N=${1:-1}\ntorchrun --nproc_per_node $N train.py\n", None, "changed"),
        ("N=${1:-1}\ntorchrun --nproc_per_node $N train.py\n", 4, "dropped"),
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


@pytest.mark.parametrize(
    ("folder", "path", "named"),
    [
        ("out_dir", 'out_dir + "/checkpoint-100"', True),
        ("out_dir", 'f"{out_dir}/checkpoint-100"', True),
        ("out_dir", 'os.path.join(out_dir, "checkpoint-100")', True),
        ("out_dir", '"out/checkpoint-100"', True),
        ("out_dir", 'baseline_out_dir + "/checkpoint-100"', False),
        ("out_dir", 'f"{out_dir_2}/checkpoint-100"', False),
        ("out_dir", '"mine/out_dir/checkpoint-100"', False),
        ("cli.output_dir", 'cli.output_dir + "/checkpoint-100"', True),
        ("cli.output_dir", 'other.output_dir + "/checkpoint-100"', False),
        ("cli.output_dir", 'args.output_dir + "/checkpoint-100"', True),
    ],
)
def test_folders_are_told_by_their_whole_names(folder: str, path: str, named: bool) -> None:
    before = "from mine import baseline_out_dir, cli, other, out_dir_2\nout_dir = 'out'"
    text = SCRIPT.format(before=before, after=f"model = PeftModel.from_pretrained(base, {path})")
    found = port(text.replace('SFTConfig(output_dir="out")', f"SFTConfig(output_dir={folder})"))
    assert bool(errors(found, "TP314")) is named, found.findings
