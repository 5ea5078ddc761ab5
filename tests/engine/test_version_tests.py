"""Conditions that compare an installed release are answered as the release that the script is read as."""

from pathlib import Path

import pytest

from porter.engine.dating.decided.version_tests import version_tests
from porter.front.port_file import port_file
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import errors, port, write

TRL = """\
import importlib.metadata
import trl
from packaging import version
from packaging.version import Version
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
kwargs = {{"model": "Qwen/Qwen3-0.6B", "args": SFTConfig(output_dir="out"), "train_dataset": load_dataset("x/y")}}
if {test}:
    kwargs["processing_class"] = tokenizer
else:
    kwargs["tokenizer"] = tokenizer
trainer = SFTTrainer(**kwargs)
trainer.train()
"""


@pytest.mark.parametrize(("release", "kept"), [("1.16.0", "processing_class"), ("0.11.4", "tokenizer")])
@pytest.mark.parametrize(
    "test",
    [
        'version.parse(trl.__version__) >= version.parse("0.12")',
        'not Version(trl.__version__) < Version("0.12.0.dev0")',
        'Version(importlib.metadata.version("trl")) > Version("0.11.99")',
        'tuple(map(int, trl.__version__.split(".")[:2])) >= (0, 12)',
        '[int(part) for part in trl.__version__.split(".", 2)[:2]] >= [0, 12]',
        "(Version(trl.__version__).major, Version(trl.__version__).minor) >= (0, 12)",
        'not trl.__version__.startswith("0.11")',
        'trl.__version__ != "0.11.4"',
    ],
)
def test_trl(test: str, release: str, kept: str) -> None:
    found = port(TRL.format(test=test), source_trl=release)
    gone = {"processing_class": "tokenizer", "tokenizer": "processing_class"}[kept]
    assert found.status == "ported", found.findings
    assert f'kwargs["{kept}"] = tokenizer\n' in found.after and f'kwargs["{gone}"]' not in found.after
    assert "trl.__version__" not in found.after


LOADED = """\
import torch
import transformers
from packaging.version import Version
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

{lines}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", {load})
args = TrainingArguments("out", max_steps=5, report_to="none")
Trainer(model, args, train_dataset=load_dataset("x/y", split="train")).train()
"""
NAMED = 'named = "dtype" if int(transformers.__version__.split(".", maxsplit=1)[0]) >= 5 else "torch_dtype"'
FILLED = """\
kwargs = {}
if Version(transformers.__version__) >= Version("5"):
    kwargs["dtype"] = torch.bfloat16
else:
    kwargs["torch_dtype"] = torch.bfloat16
"""
HELD = """\
is_new = Version(transformers.__version__) >= Version("5")
kwargs = {}
if is_new:
    kwargs["dtype"] = torch.bfloat16
if not is_new:
    kwargs["torch_dtype"] = torch.bfloat16
"""


@pytest.mark.parametrize("release", ["5.5.0", "4.46.3"])
@pytest.mark.parametrize(
    ("lines", "load"), [(NAMED, "**{named: torch.bfloat16}"), (FILLED, "**kwargs"), (HELD, "**kwargs")]
)
def test_the_name_of_a_keyword(tmp_path: Path, lines: str, load: str, release: str) -> None:
    """The TPU machine's transformers isn't asked: it would name the other one, and the load would have none."""
    write(tmp_path, f"transformers=={release}\n", "requirements.txt")
    found = port_file(write(tmp_path, LOADED.format(lines=lines, load=load)), Options())
    assert found.status == "ported", found.findings
    assert 'rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)' in found.after
    assert "__version__" not in found.after and "kwargs" not in found.after


@pytest.mark.parametrize(
    "lines",
    [
        'ids = tokenizer("x") if Version(transformers.__version__) >= Version("5") else tokenizer(["x"])',
        'if Version(transformers.__version__) >= Version("5"):\n    from transformers.a import b\nelse:\n    b = None',
        'is_new = Version(transformers.__version__) >= Version("5")\nprint(is_new)',
    ],
)
def test_what_runs_there_is_decided_there(tmp_path: Path, lines: str) -> None:
    head = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")\n'
    text = LOADED.format(lines=head + lines, load="torch_dtype=torch.bfloat16")
    found = port_file(write(tmp_path, text), Options(source_trl="0.12"))
    assert not errors(found)
    assert lines in found.after


def test_a_release_that_is_known_in_part() -> None:
    text = "import transformers\nfrom packaging.version import Version\na = Version(transformers.__version__) >= {}\n"
    versions = {"transformers": "4.46 (of the day of TRL 0.12)"}
    for asked, known in (('Version("4.46.2")', []), ('Version("4.47.dev0")', [False]), ('Version("4.45.2")', [True])):
        module = parse_module(f"{text.format(asked)}b = 'x' if a else 'y'\n".encode(), "train.py")
        assert [answer for _, answer in version_tests(module, versions, ())] == 2 * known
