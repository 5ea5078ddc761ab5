"""accelerate's launch YAML: FSDP 1 and 2, plain data parallel, and what is none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.errors import InputError
from porter.source.launch.launch_config import read_launch_config


def settings(tmp_path: Path, text: str) -> dict[str, tuple[object, int]]:
    file = tmp_path / "launch.yaml"
    file.write_text(text)
    return {setting.name: (setting.value, setting.line) for setting in read_launch_config(file)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b\n", "is no accelerate launch config"),
        ("model: x\n", "is no accelerate launch config"),
        ("a: [1\n", "is no YAML"),
        ("distributed_type: MEGATRON_LM\nnum_processes: 2\n", "distributed_type is MEGATRON_LM"),
        ("distributed_type: FSDP\nnum_processes:\t2\n\tx: 1\n", "is no YAML: found character"),
        ("distributed_type: *kind\n", "is no YAML: found undefined alias"),
        ("distributed_type: FSDP\nnum_processes: many\n", "not a count"),
        ("distributed_type: FSDP\nnum_processes: true\n", "not a count"),
        ("distributed_type: FSDP\nnum_processes: 0\n", "not a count"),
        ("", "is no accelerate launch config"),
    ],
)
def test_what_is_no_launch_config(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_launch_config(tmp_path / "none.yaml")


def test_fsdp_1(tmp_path: Path) -> None:
    text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\nnum_processes: 8\n"
    assert settings(tmp_path, text) == {
        "distributed_type": ("FSDP", 1),
        "fsdp_sharding_strategy": ("FULL_SHARD", 3),
        "num_processes": (8, 4),
    }


def test_fsdp_2(tmp_path: Path) -> None:
    found = settings(tmp_path, "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n")
    assert found == {"fsdp_version": (2, 2), "fsdp_reshard_after_forward": (True, 3)}


def test_data_parallel(tmp_path: Path) -> None:
    assert settings(tmp_path, "distributed_type: 'NO'\nfsdp_config:\n") == {"distributed_type": ("NO", 1)}


def test_deepspeed(tmp_path: Path) -> None:
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n"
    assert settings(tmp_path, text) == {
        "distributed_type": ("DEEPSPEED", 1),
        "zero_stage": (3, 3),
        "num_processes": (8, 4),
    }


def test_deepspeed_with_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{\n  "zero_optimization": {\n    "stage": 2}}')
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\nnum_processes: 8\n"
    assert settings(tmp_path, text)["zero_optimization.stage"] == (2, 3)
    (tmp_path / "ds.json").unlink()
    with pytest.raises(InputError, match=r"names ds.json, which is not there"):
        settings(tmp_path, text)
