"""Launch scripts in shell: which script they start, with how many processes, and what they set."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.errors import InputError
from porter.source.launch.launch_config import read_launch_config
from porter.source.launch.shell import read_launches

YAML = "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
DS = '{"zero_optimization": {"stage": 2}, "gradient_clipping": "auto"}'


def settings(folder: Path, text: str, name: str = "train.py") -> dict[str, object]:
    file = folder / "run.sh"
    file.write_text(text)
    return {setting.name: setting.value for setting in read_launch_config(file, folder / name)}


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ("python train.py", 1),
        ("torchrun --nproc_per_node=8 train.py", 8),
        ("torchrun --nnodes 2 --nproc-per-node 4 --standalone train.py", 8),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", 2),
        ("python3 -m torch.distributed.launch --nproc_per_node=3 --use_env train.py", 3),
        ("deepspeed --num_gpus 4 train.py", 4),
        ("deepspeed --num_gpus=4 --num_nodes=2 train.py", 8),
        ("deepspeed --include localhost:0,2,3 train.py", 3),
        ("accelerate launch --multi_gpu --num_processes 6 train.py", 6),
        ("CUDA_VISIBLE_DEVICES=0,1 WANDB_DISABLED=true torchrun --nproc_per_node 2 train.py", 2),
        ("srun --ntasks=1 torchrun --nproc_per_node 2 train.py", 2),
        ("nohup torchrun --nproc_per_node 2 train.py > log.txt 2>&1 &", 2),
        ("GPUS=5\nexport N=$GPUS\ntorchrun --nproc_per_node ${N} train.py", 5),
        ("torchrun --nproc_per_node ${GPUS:-7} train.py", 7),
        ("GPUS=8\nif [ $1 ]; then\n  GPUS=$1\nfi\ntorchrun --nproc_per_node $GPUS train.py", 8),
        ("ARGS='\n --nproc_per_node 2 \\\n --nnodes 3\n'\ntorchrun $ARGS train.py", 6),
        ("cd src && torchrun --nproc_per_node 2 train.py", 2),
        ("# torchrun --nproc_per_node 9 train.py\ntorchrun --nproc_per_node 2 train.py # --nproc_per_node 3", 2),
        ("torchrun --nproc_per_node 2 -m train", 2),
    ],
)
def test_the_number_of_processes(tmp_path: Path, command: str, processes: int) -> None:
    assert settings(tmp_path, f"#!/bin/bash\nset -e\n{command}\n")["num_processes"] == processes


def test_flags_of_the_launcher_and_of_the_script(tmp_path: Path) -> None:
    launcher = "accelerate launch --num_processes 2 --mixed_precision bf16 \\\n"
    found = settings(tmp_path, launcher + "  train.py --lr 1e-5 \\\n  --bf16 --name='a b'\n")
    assert found == {"num_processes": 2, "mixed_precision": "bf16", "--lr": "1e-5", "--bf16": "true", "--name": "a b"}


@pytest.mark.parametrize(
    ("assigned", "name"),
    [
        ('HERE=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )', "conf/fsdp.yaml"),
        ('export HERE="$(dirname "$0")"', "conf/fsdp.yaml"),
        ('HERE="$(cd "$(dirname "$0")/.." && pwd)"', "scripts/conf/fsdp.yaml"),
        ('HERE=$(dirname "$(dirname "$(readlink -f "$0")")")', "scripts/conf/fsdp.yaml"),
        ('HERE="$(dirname "$0")/conf"', "fsdp.yaml"),
    ],
)
def test_a_scripts_own_folder_is_known(tmp_path: Path, assigned: str, name: str) -> None:
    (tmp_path / "scripts" / "conf").mkdir(parents=True)
    (tmp_path / "scripts" / "conf" / "fsdp.yaml").write_text(YAML)
    text = f"{assigned}\naccelerate launch --config_file $HERE/{name} $HERE/train.py\n"
    assert settings(tmp_path / "scripts", text)["num_processes"] == 4


def test_the_launchers_config_file_is_read_and_its_flags_win(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "fsdp.yaml").write_text(YAML)
    found = settings(tmp_path, "accelerate launch --config_file conf/fsdp.yaml --num_processes 2 train.py\n")
    assert (found["distributed_type"], found["num_processes"], found["mixed_precision"]) == ("FSDP", 2, "bf16")


def test_a_deepspeed_file_of_the_launcher_or_of_the_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(DS)
    for command in (
        "deepspeed --num_gpus 2 train.py --deepspeed ds.json",
        "accelerate launch --num_processes 2 --use_deepspeed --deepspeed_config_file ds.json train.py",
    ):
        found = settings(tmp_path, command)
        assert found["zero_optimization.stage"] == 2 and found["distributed_type"] == "DEEPSPEED", command


def test_of_several_launches_the_scripts_own_counts(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node 2 sft.py\ntorchrun --nproc_per_node 4 train.py\n"
    assert settings(tmp_path, text)["num_processes"] == 4
    with pytest.raises(InputError, match=r"has no launch that runs dpo.py; it launches sft.py, train.py"):
        settings(tmp_path, text, "dpo.py")


def test_of_launches_of_one_name_the_one_of_the_scripts_folder_counts(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node 2 dpo/train.py\ntorchrun --nproc_per_node 4 sft/train.py\n"
    assert settings(tmp_path, text, "sft/train.py")["num_processes"] == 4
    assert settings(tmp_path, text, "dpo/train.py")["num_processes"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo hello\n", "launches no Python script"),
        ("torchrun --nproc_per_node $GPUS train.py\n", r"run.sh:1: --nproc_per_node is \$GPUS, which only the shell"),
        ("torchrun --nproc_per_node gpu train.py\n", "--nproc_per_node is gpu, which only the shell knows"),
        ("deepspeed --include localhost:$G train.py\n", r"--include is localhost:\$G, which only the shell knows"),
        ("deepspeed train.py\n", "every GPU of its machine"),
        ("accelerate launch --config_file none.yaml train.py\n", "names none.yaml, which is not there"),
    ],
)
def test_what_a_launch_does_not_say(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("N=${1:-4}\ntorchrun --nproc_per_node $N train.py", {"num_processes"}),
        ("torchrun --nproc_per_node ${GPUS:-4} train.py", {"num_processes"}),
        ("GPUS=8\nif [ $1 ]; then\n  GPUS=$1\nfi\ntorchrun --nproc_per_node $GPUS train.py", {"num_processes"}),
        ("GPUS=8\ntorchrun --nproc_per_node ${GPUS:-4} train.py", set()),
        ("torchrun --nnodes ${NODES:-1} --nproc_per_node 8 train.py --lr 1", {"num_processes"}),
        ("torchrun --nproc_per_node 8 train.py --lr ${LR:-1} --seed 2", {"--lr"}),
        ("deepspeed --include localhost:${G:-0,1} train.py", {"num_processes"}),
        ("accelerate launch --num_processes 2 --mixed_precision ${P:-bf16} train.py", {"mixed_precision"}),
        ("python ${SCRIPT:-train.py}", set()),
    ],
)
def test_what_is_a_default_of_the_shells(tmp_path: Path, text: str, usual: set[str]) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{text}\n")
    assert {each.name for each in read_launch_config(file) if each.usual} == usual


def test_processes_from_elsewhere_will_do(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("torchrun --nproc_per_node $GPUS train.py --lr 1\n")
    assert [setting.name for setting in read_launch_config(file, counted=True)] == ["--lr"]


def test_strange_scripts_are_read_to_the_end() -> None:
    text = "if [ x ]; then\n  echo 'open\nfi\ncat <<EOF\n$(\nEOF\nfor f in *; do python $f; done\n\\\n"
    with pytest.raises(InputError, match="launches no Python script"):
        read_launches(text, Path("run.sh"))
