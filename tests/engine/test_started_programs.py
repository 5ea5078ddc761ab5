"""Programs that train on a GPU and that a script starts: the port starts them as they are, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..notebooks import saved
from .porting import port, sft_script

FLAGS = """\
import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--method", default="factory")
parser.add_argument("--again", action="store_true")
args = parser.parse_args()
"""


def said(text: str) -> list[tuple[str, str]]:
    found = port(sft_script(before=FLAGS + text))
    return [(each.severity, each.message.partition(":")[0]) for each in found.findings if each.rule == "TP009"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("subprocess.run(['llamafactory-cli', 'train', 'sft.yaml'], check=True)", "llamafactory-cli train"),
        ("subprocess.Popen([sys.executable, '-m', 'llamafactory.cli', 'train'])", "python -m llamafactory.cli"),
        ("os.system(f'accelerate launch --num_processes {len(sys.argv)} a.py')", "accelerate launch ... a.py"),
        ("subprocess.call('CUDA_VISIBLE_DEVICES=0 torchrun run.py --x 1', shell=True)", "torchrun ... run.py"),
        ("subprocess.run('cd work && deepspeed train.py', shell=True)", "deepspeed ... train.py"),
        ("command = ['axolotl', 'train']\nsubprocess.check_call(command + ['x.yaml'])", "axolotl train"),
        ("subprocess.run([sys.executable, 'src/train_dpo.py'])", "python src/train_dpo.py"),
        ("command = ['torchrun', __file__]\nos.execvp(command[0], command)", "torchrun"),
        ("os.system(' '.join(['torchrun', 'train.py']))", "torchrun ... train.py"),
        ("import shlex\nsubprocess.run(shlex.split('torchrun train.py'))", "torchrun ... train.py"),
        ("os.system('torch' 'run train.py')", "torchrun ... train.py"),
        ("os.system('torchrun ' + args.method + ' train.py')", "torchrun ... train.py"),
        ("subprocess.run([sys.executable, os.path.join('src', 'train.py')])", "python src/train.py"),
    ],
)
def test_what_starts_by_default_is_an_error(line: str, name: str) -> None:
    assert said(f"{line}\n") == [("error", name)]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("if args.method == 'factory':\n    start()", "error"),
        ("if args.again:\n    start()", "warning"),
        ("if os.path.exists('x'):\n    start()", "warning"),
    ],
)
def test_what_a_flag_starts_is_a_warning(line: str, severity: str) -> None:
    start = "def start():\n    subprocess.run(['torchrun', 'train.py'])\n\n"
    assert said(f"{start}{line}\n") == [(severity, "torchrun ... train.py")]


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(['llamafactory-cli', 'webui'])",
        "subprocess.run([sys.executable, 'evaluate.py'])",
        "subprocess.run([sys.executable, 'train_tokenizer.py'])",
        "subprocess.run([sys.executable, '-m', 'pip', 'install', 'accelerate'])",
        "subprocess.run(['accelerate', 'env'])",
        "os.system('accelerate launch main.py --tasks humaneval')",
        "print('torchrun train.py')",
        "for one in os.listdir('.'):\n    subprocess.run(['python', one])",
        "subprocess.run(**{'args': 'torchrun train.py'})",
        "subprocess.run(['bash', 'missing.sh'])",
        "if False:\n    os.system('torchrun train.py')",
    ],
)
def test_other_programs_are_nobodys(line: str) -> None:
    assert said(f"{line}\n") == []


def test_a_line_of_a_notebook_starts_one(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in (sft_script(), "!nvidia-smi\n!accelerate launch train.py --epochs 1")
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    [found] = [each for each in port_file(path).findings if each.rule == "TP009"]
    assert found.severity == "error" and found.message.startswith("accelerate launch ... train.py:")


TRAINS = "from trl import SFTTrainer\nSFTTrainer('m', train_dataset=rows).train()\n"


@pytest.mark.parametrize(
    ("text", "name", "fix"),
    [
        ("import subprocess\nsubprocess.run(['torchrun', 'main.py'])", "torchrun ... main.py", "Port main.py"),
        ("import os\nos.system('cd src && python run.py --x 1')", "", ""),
        ("import os\nos.system('python src/run.py')", "python src/run.py", "Port src/run.py"),
        ("import runpy\nrunpy.run_path('src/run.py')", "python src/run.py", "Port src/run.py"),
        ("import subprocess\nsubprocess.run(['python', '-m', 'src.run'])", "python -m src.run", "src/run.py"),
        ("import subprocess\nsubprocess.call(['bash', 'go.sh'])", "go.sh with python src/run.py", "Port src/run.py"),
        ("get_ipython().system('accelerate launch main.py')", "accelerate launch ... main.py", "Port main.py"),
        ("import subprocess\nsubprocess.run('llamafactory-cli train x.yaml', shell=True)", "llamafactory", "or leave"),
        (
            "import os, subprocess, sys\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
            "subprocess.run([sys.executable, str(HERE / 'src' / 'run.py')])",
            "python src/run.py",
            "Port src/run.py",
        ),
        (
            "import subprocess\nfor one in ['data.py', 'src/run.py']:\n    subprocess.run(['python', one])",
            "python src/run.py",
            "Port src/run.py",
        ),
        ("import subprocess\nsubprocess.run(['python', 'src/train_tunix.py'])", "", ""),
        ("import subprocess\nsubprocess.run(['python', 'data.py'])", "", ""),
        ("import subprocess\nsubprocess.call(['bash', 'idle.sh'])", "", ""),
    ],
)
def test_a_file_that_only_starts_one_is_unsupported(tmp_path: Path, text: str, name: str, fix: str) -> None:
    (tmp_path / "src").mkdir()
    held = {"main.py": TRAINS, "src/run.py": TRAINS, "src/train_tunix.py": "import tunix\n", "data.py": "import json\n"}
    for path, code in {
        **held,
        "go.sh": "export A=1\npython \\\n  src/run.py\n",
        "idle.sh": "ls\n",
        "start.py": f"{text}\n",
    }.items():
        (tmp_path / path).write_text(code)
    found = port_file(tmp_path / "start.py")
    said = [each for each in found.findings if each.rule == "TP009"]
    assert found.status == ("unsupported" if name else "unchanged") and len(said) == bool(name)
    assert all(each.message.startswith(name) and fix in each.fix and each.severity == "error" for each in said)


@pytest.mark.parametrize(
    "line",
    [
        "!python main.py",
        "!accelerate launch \\\n  main.py",
        "%run main.py",
        "%%bash\nset -e\naccelerate launch main.py",
    ],
)
def test_a_notebook_that_only_starts_one_is_unsupported(tmp_path: Path, line: str) -> None:
    (tmp_path / "main.py").write_text(TRAINS)
    found = port_file(saved(tmp_path / "start.ipynb", "print(1)", line))
    assert found.status == "unsupported" and [each.fix[:12] for each in found.findings] == ["Port main.py"]


LOADS = 'def load():\n    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")'
AGAIN = """import subprocess, sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTTrainer


def train():
    {load}trainer = SFTTrainer({model}, train_dataset=load_dataset("json", data_files="a.jsonl", split="train"))
    trainer.train()


if len(sys.argv) > 1:
    train()
else:
    subprocess.run([sys.executable, __file__, "--train"])
"""


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_script_that_starts_itself_is_named_where_it_holds_the_tpu(everywhere: bool) -> None:
    """A mesh that the function makes is the child's alone; one below the imports is the parent's, too."""
    text = AGAIN.format(load="", model='"Qwen/Qwen3-0.6B"')
    if everywhere:
        text = AGAIN.format(load="model = load()\n    ", model="model").replace("def train", f"{LOADS}\n\n\ndef train")
    said = [each.message for each in port(text).findings if each.rule == "TP010"]
    assert len(said) == everywhere
