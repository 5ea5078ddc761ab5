"""A launch that a script's words or its project's shell scripts name, where none was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options
from porter.source.launch.usual_launch import usual_launch

from .porting import PLAIN

TWO = "distributed_type: MULTI_GPU\nnum_processes: 2\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('"""accelerate launch --config_file conf/two.yaml train.py \\\n    --out x"""\n', "(conf/two.yaml) starts 2 "),
        ('"""CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_processes 4 train.py"""\n', "docstring starts 4 "),
        ("# Usage: torchrun --nproc_per_node=8 train.py\n", "comments starts 8 "),
        ("# torchrun --nproc_per_node=8 train.py\n# or python train.py on one GPU\n", ""),
        ("# torchrun --nproc_per_node=8 ./scripts/train.py\n", "comments starts 8 "),  # it lay there once
        ("# torchrun --nproc_per_node=8 conf/train.py\n", ""),  # another one lies there
        ("# torchrun --nproc_per_node=8 other.py\n", ""),
        ("# accelerate launch --config_file conf/one.yaml train.py\n", ""),
        ("# accelerate launch --config_file conf/none.yaml train.py\n", ""),
        ("# torchrun --nproc_per_node=$GPUS train.py\n", ""),
        ("", ""),
    ],
)
def test_what_the_script_says_of_its_launch(words: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "two.yaml").write_text(TWO)
    (tmp_path / "conf" / "train.py").write_text("")
    (tmp_path / "conf" / "one.yaml").write_text(TWO.replace("2", "1"))
    script = tmp_path / "train.py"
    script.write_text(words + PLAIN)
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert finding.severity == ("warning" if said else "info")
    assert said in finding.message
    assert not [each for each in port_file(script, Options(processes=1)).findings if each.rule == "TP401"]


def test_what_a_shell_script_says(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    (tmp_path / "run.sh").write_text("#!/bin/bash\ntorchrun --nproc_per_node 4 train.py --lr 1e-4\n")
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert "run.sh starts 4 processes" in finding.message and "--launch-config run.sh" in finding.fix
    assert finding.message.endswith("the port takes one, with a batch 4 times smaller.")


def test_a_script_that_reads_the_number_of_processes_makes_its_batch_of_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\n\nworld = int(os.environ.get('WORLD_SIZE', 1))\n{PLAIN}")
    (tmp_path / "run.sh").write_text("#!/bin/bash\ntorchrun --nproc_per_node 4 train.py --lr 1e-4\n")
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert finding.message.endswith("takes one, for which what the script makes of WORLD_SIZE is calculated.")


def test_one_process_that_a_shell_script_starts_is_told_as_such(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    (tmp_path / "run.sh").write_text("#!/bin/bash\nsrun python train.py\n")
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert finding.severity == "info" and finding.message.startswith("run.sh starts one process: so is the GPU run")


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        ("sft", "torchrun --nproc_per_node=8 train.py --lr 1e-4", "README.md starts 8 processes"),
        ("sft", "torchrun --nproc_per_node=8 \\\n  train.py", "README.md starts 8 processes"),
        ("sft", "torchrun --nproc_per_node=8 train.py\npython train.py", ""),
        (".", "accelerate launch --num_processes 2 sft/train.py", "README.md starts 2 processes"),
        (".", "torchrun --nproc_per_node=8 train.py", ""),  # of which folder?
    ],
)
def test_what_a_readme_says(folder: str, words: str, said: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sft").mkdir()
    script = tmp_path / "sft" / "train.py"
    script.write_text(PLAIN)
    (tmp_path / folder / "README.md").write_text(f"Train:\n```\n{words}\n```\n")
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert finding.severity == ("warning" if said else "info") and said in finding.message
    assert not said or "--processes" in finding.fix


JOB = """\
import sagemaker
from sagemaker.huggingface import HuggingFace

KIND = "ml.g5.12xlarge"
WAYS = {"torch_distributed": {"enabled": True}}
HuggingFace(entry_point="train.py", source_dir="src", instance_type=KIND, instance_count=2, distribution=WAYS).fit()
HuggingFace(entry_point="test.py", source_dir="src", instance_type=KIND, instance_count=1, distribution=WAYS).fit()
"""
TRAINER = """\
ModelTrainer(
    source_code=SourceCode(source_dir="src", entry_script="train.py"),
    compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=1),
    distributed=Torchrun(),
)
"""
POD = """\
    command: ["accelerate", "launch", "--num_processes", "4", "src/train.py"]
    resources: {limits: {nvidia.com/gpu: 4}}
"""
LINES = "    args:\n      - torchrun\n      - --nproc_per_node=4\n      - src/train.py\n"
SHELL = "    args:\n      - |\n        accelerate launch \\\n          --num_processes 4 \\\n          src/train.py\n"


@pytest.mark.parametrize(
    ("file", "text", "processes"),
    [
        ("launch.py", JOB, 8),
        ("scripts/launch.py", JOB, 8),
        ("launch.py", JOB.replace(", distribution=WAYS", ""), 1),
        ("launch.py", JOB.replace('"ml.g5.12xlarge"', "sagemaker.session.kind()"), 1),
        ("launch.py", JOB.replace('"torch_distributed": {', '"mpi": {"processes_per_host": 3, '), 6),
        ("launch.py", JOB.replace('"enabled": True', '"enabled": False'), 1),
        ("launch.py", JOB.replace('{"torch_distributed": {"enabled": True}}', '{"a": {"b": {"enabled": True}}}'), 8),
        ("launch.py", JOB.replace("g5.12xlarge", "g5.2xlarge"), 2),
        ("launch.py", TRAINER, 8),
        ("run.ipynb", json.dumps({"cells": [{"source": "!pip install x"}, {"source": JOB.splitlines(True)}]}), 8),
        ("k8s/job.yaml", POD, 4),
        ("job.yml", LINES, 4),
        ("job.yml", SHELL, 4),
        ("Dockerfile", 'CMD ["torchrun", "--nproc_per_node=4", "src/train.py"]\n', 4),
    ],
)
def test_what_a_job_of_the_project_says(file: str, text: str, processes: int, tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_text("free\n")
    for place in (tmp_path / file, script := tmp_path / "src" / "train.py"):
        place.parent.mkdir(exist_ok=True)
    script.write_text(PLAIN)
    (tmp_path / file).write_text(text)
    usual = usual_launch(script, PLAIN)
    assert (usual.processes if usual is not None else 1) == processes


def test_fsdp_needs_several_processes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN.replace("SFTConfig('out'", "SFTConfig('out', fsdp='full_shard auto_wrap'"))
    [finding] = [finding for finding in port_file(script).findings if finding.rule == "TP401"]
    assert finding.severity == "warning" and "fsdp='full_shard auto_wrap'" in finding.message
