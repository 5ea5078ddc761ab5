"""Settings of a parser's classes that a project's files have and the port refuses at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Port

SCRIPT = """from datasets import load_dataset
from trl import {classes}, SFTTrainer, TrlParser, get_peft_config
{more}
args, model = TrlParser(({first}, {second})).parse_args_and_config()
trainer = SFTTrainer(
    model.model_name_or_path, args=args, train_dataset=load_dataset("x")["train"], peft_config=get_peft_config(model)
)
trainer.train()
"""
PLAIN = "model_name_or_path: Qwen/Qwen3-0.6B\noutput_dir: out\nuse_peft: true\n"
HEAD = PLAIN + "lora_modules_to_save: [lm_head]\n"


def project(tmp_path: Path, files: dict[str, str], readme: str, *, own: bool = False) -> Port:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "README.md").write_text(readme)
    more = "class Model(ModelConfig):\n    pass" if own else ""
    second = "Model" if own else "ModelConfig"
    text = SCRIPT.format(classes="ModelConfig, SFTConfig", first="SFTConfig", second=second, more=more)
    (tmp_path / "train.py").write_text(text)
    return port_file(tmp_path / "train.py")


def refused(found: Port) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in found.findings if "refuses it at its start" in one.message]


@pytest.mark.parametrize("own", [False, True])
def test_what_the_project_starts_the_script_with_is_judged(tmp_path: Path, own: bool) -> None:
    found = project(tmp_path, {"sft.yaml": HEAD}, "    python train.py --config sft.yaml\n", own=own)
    [(severity, message)] = refused(found)
    assert (severity, found.status) == ("error", "partial")
    assert message.startswith(f"{'Model' if own else 'ModelConfig'}.lora_modules_to_save=['lm_head'] of sft.yaml")
    found = project(tmp_path, {"sft.yaml": PLAIN}, "    python train.py --config sft.yaml\n", own=own)
    assert not refused(found) and found.status == "ported"


def test_one_of_several_files_is_a_warning(tmp_path: Path) -> None:
    readme = "    python train.py --config sft.yaml\n    python train.py --config head.yaml\n"
    found = project(tmp_path, {"sft.yaml": PLAIN, "head.yaml": HEAD}, readme)
    [(severity, message)] = refused(found)
    assert severity == "warning" and "of head.yaml" in message and found.status == "ported"


def test_a_file_that_nothing_starts_the_script_with_says_nothing(tmp_path: Path) -> None:
    assert not refused(project(tmp_path, {"sft.yaml": HEAD}, "    python other.py --config sft.yaml\n"))


def test_a_deepspeed_file_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    files = {"sft.yaml": PLAIN + "deepspeed: zero.json\n", "zero.json": '{"zero_optimization": {"stage": 2}}'}
    assert not refused(project(tmp_path, files, "    python train.py --config sft.yaml\n"))


def test_what_yaml_reads_as_no_literal_of_python_is_its_text(tmp_path: Path) -> None:
    """`run_name: 2025-01-01` is a date to YAML; the file's keys may be numbers."""
    text = HEAD + "run_name: 2025-01-01\nlearning_rate: .inf\n1: 2\n"
    [(severity, _)] = refused(project(tmp_path, {"sft.yaml": text}, "    python train.py --config sft.yaml\n"))
    assert severity == "error"
