"""Bad input, for real: exit code 2, one line on stderr that says what, where and what to do, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.cli import run
from tests.notebooks import saved

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

data = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig(output_dir="out")
lora = LoraConfig(target_modules="all-linear")
trainer = SFTTrainer("google/gemma-3-4b-it", args=args, train_dataset=data, peft_config=lora)
trainer.train()
"""
FSDP = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    before = sorted(Path().rglob("*"))
    assert run([*args, "-o", "out.py"]) == 2
    got = capsys.readouterr()
    assert got.out == ""
    assert got.err.startswith("tpu-port: ") and got.err.count("\n") == 1 and "internal error" not in got.err
    assert sorted(Path().rglob("*")) == before
    run([*args, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "error" and document["findings"][0]["severity"] == "error"
    return got.err


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"cells": []}', "train.ipynb: has no cell of Python"),
        ('{"cells": [', "train.ipynb:1:12: is no notebook: broken JSON"),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = ("}]}',
            "train.ipynb cell 1:1:5: does not parse",
        ),
    ],
)
def test_a_notebook_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], text: str, want: str) -> None:
    (folder / "train.ipynb").write_text(text)
    assert want in refused(capsys, "train.ipynb")


@pytest.mark.parametrize("command", [["validate", "train.py", "a.ipynb"], ["compile", "a.ipynb", "--tpu", "v5e-8"]])
@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x = 1", "a.ipynb:1:1: is no notebook: broken JSON: Expecting value"),
        ('{"cells": [{"cell_type": "markdown", "source": "x"}]}', "a.ipynb: has no cell of Python"),
        ('{"cells": [], "metadata": {"kernelspec": {"language": "julia"}}}', "a.ipynb: is a notebook in julia"),
        ('{"cells": [{"cell_type": "code", "source": "x = ("}]}', "a.ipynb cell 1:1:5: does not parse"),
    ],
)
def test_notebooks_that_nothing_can_run(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str], text: str, want: str
) -> None:
    (folder / "a.ipynb").write_text(text)
    assert run(command) == 2
    got = capsys.readouterr()
    assert want in got.err.splitlines()[-1] and "Traceback" not in got.err and got.out == ""


def test_the_port_of_a_notebook_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(folder / "train.ipynb", SCRIPT)
    assert run(["train.ipynb", "-o", "out.py"]) == 2 and not Path("out.py").exists()
    assert "the port of a notebook is a notebook; -o out.ipynb" in capsys.readouterr().err
    assert run(["train.py", "-o", "out.ipynb"]) == 2 and not Path("out.ipynb").exists()


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"x = (\n", "train.py:1:5: does not parse: '(' was never closed"),
        (b"x = 1\ndef f(:\n", "train.py:2:7: does not parse"),
        (b"", "train.py: is empty"),
        (b"\n \n", "train.py: is empty"),
        (b"\x7fELF\x02\x00\x00", "train.py: is a binary file"),
        (bytes(range(256)) * 8, "train.py: is a binary file"),
        (b"name = '\xe9'\n", "train.py: is not text in its declared encoding"),
        (b"# coding: no-such\nx = 1\n", "train.py: is not text in its declared encoding"),
        (b"# R\xe9sum\xe9\nx = 1\n", "train.py: is not text in its declared encoding"),
        (b"import trl\nprint 'two'\n", "train.py:2:1: does not parse: Missing parentheses in call to 'print'"),
        (b"import trl\n" + b"x = {'a': [1, 2]}\n" * 300_000, "has 5.4 million characters of Python"),
    ],
)
def test_a_file_that_is_no_python(folder: Path, capsys: pytest.CaptureFixture[str], data: bytes, want: str) -> None:
    (folder / "train.py").write_bytes(data)
    assert want in refused(capsys, "train.py")


def test_a_folder_and_a_missing_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "src").mkdir()
    assert "src: has no Python file or notebook" in refused(capsys, "src")
    assert "nowhere.py: does not exist" in refused(capsys, "nowhere.py")


def test_a_command_with_a_slip_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean `tpu-port doctor`" in refused(capsys, "docter")


@pytest.mark.parametrize(
    "mesh", ["x", "fsdp=0", "fsdp=-1", "fsdp=2,dp=2", "fsdp=2,fsdp=2", "fsdp", "fsdp=2;tp=2", "tp=1.5"]
)
def test_a_mesh_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], mesh: str) -> None:
    assert "fsdp=4,tp=1" in refused(capsys, "train.py", "--mesh", mesh)


def test_a_mesh_that_does_not_fit_names_the_tensor_and_meshes_that_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "train.py", "--mesh", "fsdp=1,tp=8")
    assert "kv_einsum" in line and "kv_heads = 4 does not divide by tp = 8" in line
    assert "fsdp=2,tp=4" in line.split("meshes of 8 devices that fit", 1)[1]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: [\n", "is no YAML"),
        ("- a\n", "is no accelerate launch config"),
        ("a: 1\n", "is no accelerate launch config"),
        ("", "is no accelerate launch config"),
        ("distributed_type: MEGATRON_LM\nnum_processes: 2\n", "is no FSDP, DeepSpeed or data-parallel launch config"),
        ("distributed_type: FSDP\n\tnum_processes: 2\n", "is no YAML"),
        ("distributed_type: *nowhere\n", "is no YAML"),
        ('{\n"bf16": 1 // why\n}\n', "is no JSON: it has a comment"),
        ("#!/bin/bash\ntorchrun --nproc_per_node $N train.py\n", "which only the shell knows; give --processes N"),
        (FSDP.replace("2\nfsdp", "many\nfsdp"), "num_processes"),
    ],
)
def test_a_launch_config_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], text: str, want: str) -> None:
    (folder / "launch.yaml").write_text(text)
    assert want in refused(capsys, "train.py", "--launch-config", "launch.yaml")


def test_a_launch_config_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.yaml" in refused(capsys, "train.py", "--launch-config", "nowhere.yaml")


def test_a_version_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'latest' is no version" in refused(capsys, "train.py", "--source-trl", "latest")


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_a_rule_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert "there is no rule 'TP999'" in refused(capsys, "train.py", option, "TP999")


def test_a_pack_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere: has no pack.toml" in refused(capsys, "train.py", "--rules", "nowhere")


def test_outputs_that_must_not_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "there.py").write_text("mine")
    for output, want in (
        ("there.py", "--force"),
        ("no/out.py", "mkdir"),
        ("train.py", "the source itself"),
        (".", "folder"),
    ):
        assert run(["train.py", "-o", output]) == 2
        assert want in capsys.readouterr().err
    assert (folder / "there.py").read_text() == "mine" and (folder / "train.py").read_text() == SCRIPT


def test_an_unknown_model_family_is_a_finding_and_exit_code_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(SCRIPT.replace("google/gemma-3-4b-it", "mistralai/Mixtral-8x7B-v0.1"))
    assert run(["train.py", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "unsupported"
    assert any("gemma3" in finding["fix"] for finding in document["findings"])


@pytest.mark.parametrize(
    "data",
    [
        b"print('no trainer')\n",
        b"a = 1\r\n\tb = 2\r\n".replace(b"\t", b""),
        b"\xef\xbb\xbfif True:\r\n\tx = 1\x0c\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'  \n\n\n",
        b"class SFTTrainer:\n    pass\n\n\nSFTTrainer()",
        b"from sklearn import svm\r\r\n",
    ],
)
def test_a_file_without_a_trainer_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (folder / "train.py").write_bytes(data)
    assert run(["train.py", "-o", "out.py"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert (folder / "out.py").read_bytes() == data


def test_porting_a_port_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_bytes(SCRIPT.replace("\n", "\r\n").encode("utf-8-sig"))
    assert run(["train.py", "-o", "out.py"]) == 0
    data = (folder / "out.py").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") and data.count(b"\n") == data.count(b"\r\n") > 20
    assert run(["out.py", "-o", "again.py"]) == 0
    assert (folder / "again.py").read_bytes() == data
