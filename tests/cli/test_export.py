"""`tpu-port export` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.cli import run as tpu_port
from tests.export import made


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    run, base = made.run(tmp_path / "run"), made.base(tmp_path / "base")
    return ["export", str(run), "--base", str(base), "-o", str(tmp_path / "out")]


def test_an_adapter_is_the_default(words: list[str], tmp_path: Path, capsys: Any) -> None:
    assert tpu_port(words) == 0
    said = capsys.readouterr().out
    assert "PEFT adapter: 14 linears, rank 3, alpha 6; gemma3, step 5" in said
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def test_merged_as_json(words: list[str], tmp_path: Path, capsys: Any) -> None:
    assert tpu_port([*words, "--merged", "--max-shard-size", "60KB", "--dtype", "float32", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["kind"], document["linears"]) == ("exported", "merged", 14)
    assert len(document["retained"]) == 14 and all(0 < r["kept"] <= 1 for r in document["retained"].values())
    assert "model.safetensors.index.json" in document["files"]


def test_bad_usage_and_bad_input(words: list[str], tmp_path: Path, capsys: Any) -> None:
    assert tpu_port(words[:-2]) == 2
    assert "give -o OUT, or --check" in capsys.readouterr().err
    assert tpu_port([*words, "--merged", "--max-shard-size", "big"]) == 2
    assert tpu_port([*words, "--dtype", "float32"]) == 2
    assert "--dtype and --max-shard-size are for whole models" in capsys.readouterr().err
    assert tpu_port([*words, "--alpha", "99", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["findings"][0]["message"].startswith("--alpha 99")
    assert not (tmp_path / "out").exists()


def test_what_rounding_kept_is_said(tmp_path: Path, capsys: Any) -> None:
    run, base = made.run(tmp_path / "run", made.arrays(scale=0.004)), made.base(tmp_path / "base")
    assert tpu_port(["export", str(run), "--base", str(base), "-o", str(tmp_path / "out"), "--merged"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "merged model: 14 linears" in said and "Rounding kept" in said
    assert "14 tensors kept less than 80%" in said and "--dtype float32" in said
    assert "model.layers.0.mlp.down_proj.weight" in said
