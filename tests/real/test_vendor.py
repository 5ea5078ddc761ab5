"""A vendored port on a machine with neither tpu-port nor torch, TRL and PEFT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import porter
from porter.cli import run

pytestmark = pytest.mark.real

SOURCE = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_peft_config

parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
dataset = load_dataset(script_args.dataset_name)
trainer = SFTTrainer(
    model_args.model_name_or_path,
    args=training_args,
    train_dataset=dataset["train"],
    peft_config=get_peft_config(model_args),
)
trainer.train()
"""
PROBE = """
import sys
sys.modules.update(dict.fromkeys(["porter", "torch", "trl", "peft"]))
import porter_runtime as rt
from porter_runtime.arguments import SFTConfig
from porter_runtime.facts.families import find_family
for name in dir(rt):
    getattr(rt, name)
print(SFTConfig(output_dir="x").learning_rate, find_family(hub_id="google/gemma-3-4b-it").name)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vendored")
    (folder / "train.py").write_text(SOURCE)
    assert run([str(folder / "train.py"), "--vendor", "-o", str(folder / "out.py"), "--json"]) == 0
    return folder


def test_the_port_names_the_copy(folder: Path) -> None:
    text = (folder / "out.py").read_text()
    assert "import porter_runtime as rt" in text
    assert "from porter_runtime.arguments import" in text
    assert "porter." not in text.replace("porter_runtime.", "")


def test_every_name_of_the_copy_loads(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["2e-05", "gemma3"]


def test_the_ports_own_help_has_the_sources_flags(folder: Path) -> None:
    code = (
        "import runpy, sys\nsys.modules.update(dict.fromkeys(['porter', 'torch', 'trl', 'peft']))\n"
        "sys.argv = ['out.py', '--help']\nrunpy.run_path('out.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for flag in ("--learning_rate", "--use_peft", "--dataset_name", "--packing"):
        assert flag in done.stdout


def test_the_copy_is_the_runtime(folder: Path) -> None:
    ours = Path(porter.__file__).parent / "runtime"
    for path in ours.rglob("*.py"):
        assert (folder / "porter_runtime" / path.relative_to(ours)).read_bytes() == path.read_bytes()
