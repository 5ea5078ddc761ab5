"""A folder as input: what is ported, what is kept, what is followed across files, and that bad files stop nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from porter.cli import run
from porter.files import LARGEST_FILE
from porter.front.output_tree import write_tree
from porter.front.tree import TreePort, _port_here, port_tree
from porter.port import Options, Port
from tests.engine.porting import sft_script

CONFIG = '''\
"""All settings."""
from peft import LoraConfig
from trl import SFTConfig

MODEL = "Qwen/Qwen3-0.6B"
LR = 2e-4
SAVE = "epoch"

lora_config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
training_args = SFTConfig(output_dir="out", learning_rate=LR, num_train_epochs=2, save_strategy=SAVE)
'''
MODELS = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load_model(name):
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")
    return model, tokenizer
"""
TRAIN = """\
from config import MODEL, lora_config, training_args
from datasets import load_dataset
from models import load_model
from trl import SFTTrainer

model, tokenizer = load_model(MODEL)
rows = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = SFTTrainer(
    model=model, args=training_args, train_dataset=rows, processing_class=tokenizer, peft_config=lora_config
)
trainer.train()
"""
LITERAL = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

from .config import LR, MODEL, SAVE

rows = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig(output_dir="out", learning_rate=LR, save_strategy=SAVE)
trainer = SFTTrainer(MODEL, args=args, train_dataset=rows)
trainer.train()
"""
BUILD = """\
from trl import SFTConfig, SFTTrainer


def build_trainer(rows):
    return SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(output_dir="out"), train_dataset=rows)
"""
MAIN = """\
from build import build_trainer
from datasets import load_dataset

trainer = build_trainer(load_dataset("json", data_files="rows.jsonl", split="train"))
trainer.train()
"""


def tree(folder: Path, **files: str) -> Path:
    root = folder / "src"
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def ported(root: Path, **options: object) -> TreePort:
    return port_tree(root, Options(processes=1, **options), jobs=1)  # type: ignore[arg-type]


def statuses(result: TreePort) -> dict[str, str]:
    return {path.as_posix(): port.status for path, port in sorted(result.ports.items())}


def test_configs_and_helpers_in_modules_of_the_project(tmp_path: Path) -> None:
    result = ported(tree(tmp_path, config=CONFIG, models=MODELS, train=TRAIN))
    assert statuses(result) == dict.fromkeys(["config.py", "models.py", "train.py"], "ported"), result.ports
    after = {path.name: port.after for path, port in result.ports.items()}
    old, new = CONFIG.split("\n\n", 1), after["config.py"].split("\n\n", 1)
    assert new == ['"""All settings."""\nfrom porter.runtime.arguments import LoraConfig, SFTConfig', old[1]]
    assert "mesh = jax.make_mesh(" in after["models.py"] and "import jax\n" in after["models.py"]
    assert "rt.load_model(name, mesh, dtype=jnp.bfloat16)" in after["models.py"] and "torch" not in after["models.py"]
    assert "from config import MODEL, lora_config, training_args\n" in after["train.py"]
    assert "rt.apply_peft(model, lora_config, mesh" in after["train.py"]
    sources = {path.name: {row.source for row in port.fields} for path, port in result.ports.items()}
    assert "LoraConfig.r" in sources["config.py"] and "SFTTrainer.args" in sources["train.py"]
    lines = [row.line for row in result.ports[Path("config.py")].fields]
    assert max(lines) <= CONFIG.count("\n")


def test_values_are_followed_and_stay_names(tmp_path: Path) -> None:
    config = 'MODEL = "Qwen/Qwen3-0.6B"\nLR = 2e-4\nSAVE = "epoch"\n'
    result = ported(tree(tmp_path, pack__config=config, pack__train=LITERAL, pack____init=""))
    port = result.ports[Path("pack/train.py")]
    assert port.status == "ported" and port.recipe.known("save.strategy") == "epoch"
    assert (
        "optax.linear_schedule(LR, 0.0" in port.after and "FixedIntervalPolicy(batches.steps_per_epoch)" in port.after
    )
    assert "from .config import LR, MODEL\n" in port.after or "from .config import LR, MODEL, SAVE\n" in port.after
    assert Path("pack/config.py") not in result.changed


def test_a_trainer_made_in_another_file(tmp_path: Path) -> None:
    result = ported(tree(tmp_path, build=BUILD, main=MAIN))
    assert set(statuses(result)) == {"build.py", "main.py"}
    assert "PeftTrainer(" in result.ports[Path("build.py")].after
    assert "with mesh:" in result.ports[Path("main.py")].after or statuses(result)["main.py"] == "partial"


TRAINING = """\
from trl import SFTTrainer


def fit(rows, args):
    trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
    trainer.train()


def start(args):
    fit(["a"], args)
"""
STARTER = """\
from training import start
from trl import SFTConfig

{}start(SFTConfig(output_dir="out", learning_rate=1e-4))
"""


def test_the_file_that_starts_a_training_is_the_script(tmp_path: Path) -> None:
    """What it gives the function that trains is followed; alone, the function's file has but a parameter."""
    root = tree(tmp_path, training=TRAINING, run=STARTER.format("args = "))
    result = ported(root)
    assert statuses(result) == {"run.py": "ported", "training.py": "ported"}
    assert "porter.runtime.arguments import SFTConfig" in result.ports[Path("run.py")].after
    write_tree(result, tmp_path / "out")
    assert (tmp_path / "out" / "run.recipe.json").is_file()


@pytest.mark.parametrize(
    ("training", "files"),
    [
        (f'{TRAINING}\n\nif __name__ == "__main__":\n    start(None)\n', {"run": STARTER.format("")}),
        (TRAINING, {"run": STARTER.format(""), "other": STARTER.format("")}),
        (TRAINING, {"run": STARTER.format("def main():\n    ")}),
        (TRAINING, {"tests__test_run": STARTER.format("")}),
        (TRAINING, {"run": STARTER.format("print(1)\nstart = None  # ").replace("start(", "begin(")}),
    ],
)
def test_a_file_that_several_or_none_start_is_a_script_itself(
    tmp_path: Path, training: str, files: dict[str, str]
) -> None:
    result = ported(tree(tmp_path, training=training, **files))
    assert list(statuses(result)) == ["training.py"]


def test_a_test_of_what_makes_a_trainer_is_no_script(tmp_path: Path) -> None:
    result = ported(tree(tmp_path, build=BUILD, main=MAIN, tests__test_build=MAIN))
    assert set(statuses(result)) == {"build.py", "main.py"}


def test_files_that_train_nothing_stay_as_they_are(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        train=LITERAL.replace(
            "from .config import LR, MODEL, SAVE", CONFIG[CONFIG.index("MODEL") : CONFIG.index("lora")]
        ),
        infer="import torch\n",
    )
    (root / "README.md").write_text("# Hello\n")
    (root / "data").mkdir()
    (root / "data" / "rows.jsonl").write_bytes(b"\x00\xff")
    run_in = tmp_path / "out"
    assert run([str(root), "-o", str(run_in), "--processes", "1"]) == 0
    same = ("infer.py", "README.md", "data/rows.jsonl")
    assert all((run_in / name).read_bytes() == (root / name).read_bytes() for name in same)
    assert (run_in / "train.recipe.json").is_file()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "src"]  # nothing half written is left


def test_bad_files_have_a_line_each_and_stop_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, config=CONFIG, models=MODELS, train=TRAIN, a="import b\nimport config\n", b="import a\n")
    (root / "latin.py").write_bytes("# R\xe9sum\xe9\nfrom trl import SFTTrainer\nx = 1\n".encode("latin-1"))
    (root / "declared.py").write_bytes("# coding: latin-1\n# R\xe9sum\xe9\nx = 1\n".encode("latin-1"))
    (root / "old.py").write_text("from trl import SFTTrainer\nprint 'Python 2'\n")
    (root / "old_plain.py").write_text("print 'Python 2'\n")
    (root / "broken.ipynb").write_text(
        '{"cells": [ from trl import SFTTrainer; trainer = SFTTrainer(); trainer.train()'
    )
    (root / "huge.py").write_text("from trl import SFTTrainer\nSFTTrainer()\n" + "x = [1, 2, 3, 4]\n" * 300_000)
    (root / "table.py").write_text("x = [1, 2, 3, 4]\n" * 300_000)
    os.symlink("loop", root / "loop")
    assert run([str(root), "-o", str(tmp_path / "out"), "--processes", "1"]) == 2
    said = capsys.readouterr().err.splitlines()
    for name, what in (
        ("latin.py", "is not text in its declared encoding"),
        ("old.py:2:1", "does not parse: Missing parentheses in call to 'print'"),
        ("old_plain.py:1:1", "does not parse: Missing parentheses in call to 'print'"),
        ("broken.ipynb:1:13", "is no notebook: broken JSON"),
        ("huge.py", "has 5.1 million characters of Python"),
        ("loop", "is a symbolic link that leads back to itself"),
    ):
        lines = [line for line in said if f"{name}: " in line]
        assert len(lines) == 1 and what in lines[0], said
    assert len(said) == 6
    assert "PeftTrainer(" in (tmp_path / "out" / "train.py").read_text()
    assert (tmp_path / "out" / "old.py").read_bytes() == (root / "old.py").read_bytes()


def test_circular_imports_have_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, config="import models\n" + CONFIG, models="import config\n" + MODELS, train=TRAIN)
    assert run([str(root), "--processes", "1"]) in (0, 1)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "a circle, in which names are followed once" in said[0]


def test_an_unreadable_file_has_a_line(tmp_path: Path) -> None:
    root = tree(tmp_path, train=MAIN)
    (root / "secret.py").write_text("x = 1\n")
    (root / "secret.py").chmod(0)
    if os.access(root / "secret.py", os.R_OK):
        pytest.skip("this user reads everything")
    result = ported(root)
    assert "can't be read: Permission denied" in str(result.errors[Path("secret.py")])


def test_two_scripts_that_need_a_module_otherwise(tmp_path: Path) -> None:
    call = TRAIN[TRAIN.index("trainer = ") : TRAIN.index("trainer.train()")]
    base = TRAIN.replace("import SFTTrainer", "import SFTConfig, SFTTrainer")
    half, whole = (
        base.replace(call, f"trainer = SFTTrainer(model, args=SFTConfig('o', bf16={bf16}), train_dataset=rows)\n")
        for bf16 in (True, False)
    )
    models = MODELS.replace("torch.bfloat16", "torch.float32")
    result = ported(tree(tmp_path, config=CONFIG, models=models, half=half, whole=whole))
    assert len({port.after for path, port in result.ports.items() if path.name == "models.py"}) == 1
    said = [finding.message for finding in result.ports[Path("whole.py")].findings]
    assert any("models.py: this script needs other code there" in message for message in said)
    assert result.code == 1


def test_the_json_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, config=CONFIG, models=MODELS, train=TRAIN, other="x = 1\n")
    assert run([str(root), "--json", "--processes", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "ported" and document["errors"] == [] and document["unchanged"] == ["other.py"]
    assert [Path(file["source"]).name for file in document["files"]] == ["config.py", "models.py", "train.py"]


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    files = {f"train{i}": TRAIN for i in range(4)}
    root = tree(tmp_path, config=CONFIG, models=MODELS, **files)
    one, many = ported(root), port_tree(root, Options(processes=1), jobs=2)
    assert {path: port.after for path, port in one.ports.items()} == {
        path: port.after for path, port in many.ports.items()
    }


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("file", "the output is a file, and the source a folder"),
        ("full", "the output exists and is not empty; --force writes into it"),
        ("same", "the output is the source itself"),
        ("around", "the output is a folder around the source"),
        ("nowhere", "the output's folder doesn't exist"),
    ],
)
def test_outputs_that_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], prepare: str, said: str) -> None:
    root = tree(tmp_path, build=BUILD, main=MAIN)
    output = {"same": root, "around": tmp_path, "nowhere": tmp_path / "no" / "out"}.get(prepare, tmp_path / "out")
    if prepare == "file":
        output.write_text("")
    elif prepare == "full":
        output.mkdir()
        (output / "mine.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run([str(root), "-o", str(output)]) == 2
    assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_output_inside_the_source_is_not_read_again(tmp_path: Path) -> None:
    root = tree(tmp_path, build=BUILD, main=MAIN)
    for _ in range(2):
        run([str(root), "-o", str(root / "out"), "--force"])
    assert not (root / "out" / "out").exists() and (root / "out" / "build.py").is_file()


def test_a_folder_without_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert run([str(tmp_path)]) == 2
    assert "has no Python file or notebook" in capsys.readouterr().err


def test_a_wrong_option_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tree(tmp_path, a=BUILD, b=BUILD, c=BUILD)
    assert run([str(root), "--mesh", "nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_trainer_of_another_file_that_trains_otherwise_is_refused_at_its_call(tmp_path: Path) -> None:
    own = "from trl import SFTTrainer\n\n\nclass OwnTrainer(SFTTrainer):\n"
    own += "    def compute_loss(self, *args):\n        return 0\n"
    train = "from own import OwnTrainer\n\ntrainer = OwnTrainer('Qwen/Qwen3-0.6B')\ntrainer.train()\n"
    root = tree(tmp_path, own=own, train=train)
    found = ported(root).ports[Path("train.py")]
    (said,) = found.findings
    assert found.status == "unsupported" and said.line == 3 and "compute_loss" in said.message


SFT = sft_script()


def test_one_file_too_long_to_read_ends_no_folders_port(tmp_path: Path) -> None:
    root = tree(tmp_path, train=SFT)
    with (root / "data.py").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    result = ported(root)
    assert "are read at most" in str(result.errors[Path("data.py")])
    assert result.ports[Path("train.py")].status == "ported"


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root reads everything")
def test_what_may_not_be_read_has_a_line_each(tmp_path: Path) -> None:
    root = tree(tmp_path, train=SFT)
    for folder in (root / "closed", root / "closed_too"):
        folder.mkdir()
        (folder / "a.py").write_text(SFT)
    (root / "requirements.sh").write_text("pip install -r closed/requirements.txt\n")
    (root / "secret.py").write_text("x = 1\n")
    for path in (root / "closed", root / "closed_too", root / "secret.py"):
        path.chmod(0)
    others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    words = [*others, sys.executable, "-m", "porter.cli", str(root)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    finally:
        for path in (root / "closed", root / "closed_too"):
            path.chmod(0o700)
    assert done.returncode == 2 and "internal error" not in done.stderr
    assert done.stderr.count("can't be read: Permission denied") == 3 and "ported  train.py" in done.stdout


def _ends(path: Path) -> Port | tuple[str, ...]:
    """What the pool calls in the test below, in place of `_port_here`."""
    if path.name == "bad.py":
        os._exit(1)
    return _port_here(path)


def test_a_script_that_ends_its_process_ends_no_folders_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, a=SFT, b=SFT, bad=SFT)
    monkeypatch.setattr("porter.front.tree._port_here", _ends)
    result = port_tree(root, Options(processes=1), jobs=2)
    assert [path.name for path, found in result.ports.items() if found.status == "ported"] == ["a.py", "b.py"]
    assert "ends the process that ports it" in str(result.errors[Path("bad.py")])
