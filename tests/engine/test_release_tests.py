"""Conditions that ask an installed release what it takes are answered as the release that the script is read as."""

import pytest

from .porting import port

SCRIPT = """\
import inspect
import dataclasses
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
kwargs = {{"model": "Qwen/Qwen3-0.6B", "args": SFTConfig(output_dir="out"), "train_dataset": load_dataset("x/y")}}
{lines}
if {test}:
    kwargs["processing_class"] = tokenizer
else:
    kwargs["tokenizer"] = tokenizer
trainer = SFTTrainer(**kwargs)
trainer.train()
"""
OF_INIT = "inspect.signature(SFTTrainer.__init__).parameters"


@pytest.mark.parametrize(("release", "kept"), [("1.16.0", "processing_class"), ("0.11.4", "tokenizer")])
@pytest.mark.parametrize(
    ("lines", "test"),
    [
        ("", f"'processing_class' in {OF_INIT}"),
        ("", "'processing_class' in inspect.signature(SFTTrainer).parameters.keys()"),
        ("", f"not 'processing_class' not in {OF_INIT}"),
        (f"names = set({OF_INIT})", "'processing_class' in names"),
        (
            "asked = inspect.signature(SFTTrainer.__init__)\nnames = list(asked.parameters)",
            "'processing_class' in names",
        ),
        ("", "'processing_class' in SFTTrainer.__init__.__code__.co_varnames"),
        ("", "'processing_class' in inspect.getfullargspec(SFTTrainer.__init__).args"),
    ],
)
def test_a_keyword_of_the_dated_release(lines: str, test: str, release: str, kept: str) -> None:
    found = port(SCRIPT.format(lines=lines, test=test), source_trl=release)
    gone = {"processing_class": "tokenizer", "tokenizer": "processing_class"}[kept]
    assert found.status == "ported", found.findings
    assert f'kwargs["{kept}"] = tokenizer\n' in found.after and f'kwargs["{gone}"]' not in found.after
    assert not any(word in found.after for word in ("inspect.", "from trl", "names", "SFTTrainer."))


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("hasattr(SFTConfig, 'max_length')", True),
        ("'max_seq_length' in SFTConfig.__dataclass_fields__", False),
        ("'max_length' in {field.name for field in dataclasses.fields(SFTConfig)}", True),
    ],
)
def test_fields_of_a_config(test: str, holds: bool) -> None:
    found = port(SCRIPT.format(lines="", test=test))
    kept = "processing_class" if holds else "tokenizer"
    assert f'kwargs["{kept}"] = tokenizer\n' in found.after and "\nif " not in found.after.partition("batches")[0]


@pytest.mark.parametrize(
    "test", ["'x' in inspect.signature(print).parameters", "'x' in kwargs", "hasattr(tokenizer, 'x')"]
)
def test_other_questions_stay(test: str) -> None:
    assert f"if {test}:\n" in port(SCRIPT.format(lines="", test=test)).after
