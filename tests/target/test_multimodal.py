"""The mean that a multimodal model's loss is, in the port's batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options

from ..engine.porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import {load}
from trl import SFTConfig, SFTTrainer
import sys

model = {load}.from_pretrained({name}, dtype="bfloat16")
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, gradient_accumulation_steps={steps}, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
)
trainer.train()
"""
AUTO = "AutoModelForCausalLM"


@pytest.mark.parametrize(
    ("load", "name", "steps", "release", "expected"),
    [
        (AUTO, "'google/gemma-3-4b-it'", 4, "1.16.0", '"micro_batch"'),
        (AUTO, "'google/gemma-4-31B-it'", 4, "1.16.0", '"micro_batch"'),
        (AUTO, "'somebody/gemma-3-4b-tuned'", 4, "1.16.0", 'rt.mean_over(model, "5.12")'),
        (AUTO, "sys.argv[1]  # a gemma-3", 4, "1.16.0", 'rt.mean_over(model, "5.12")'),
        (AUTO, "sys.argv[1]", 4, "1.16.0", 'rt.mean_over(model, "5.12")'),
        (AUTO, "sys.argv[1]", 1, "1.16.0", ""),
        (AUTO, "'models/base'", 4, "1.16.0", ""),
        (AUTO, "'google/gemma-3-1b-it'", 4, "1.16.0", ""),
        ("Gemma3ForCausalLM", "'google/gemma-3-4b-it'", 4, "1.16.0", ""),
        (AUTO, "'google/gemma-3-4b-it'", 1, "1.16.0", ""),
        (AUTO, "'google/gemma-2-2b-it'", 4, "1.16.0", ""),
    ],
)
def test_micro_batches_have_means_of_their_own(load: str, name: str, steps: int, release: str, expected: str) -> None:
    text, _, comment = name.partition("  ")
    found = port(SCRIPT.format(load=load, name=text, steps=steps) + comment, source_trl=release).after
    assert (f"mean_over={expected}," in found) if expected else ("mean_over" not in found)
    alone = "# by micro-batch for multimodal models alone" in found
    assert alone == expected.startswith("rt."), "a model that the run decides was said to be multimodal"


WAYS = {
    "os.getenv('MODEL', {model!r})": "import os",
    "os.environ.get('MODEL') or {model!r}": "import os",
    "NAME": "import os\n\nNAME = os.environ.get('MODEL', {model!r})",
    "args.model": "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--model', "
    "default={model!r})\nargs = parser.parse_args()",
    "settings.model": "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\n\n\n@dataclass\n"
    "class Settings:\n    model: str = {model!r}\n\n\n"
    "(settings,) = HfArgumentParser(Settings).parse_args_into_dataclasses()",
}


@pytest.mark.parametrize("model", ["google/gemma-3-270m", "Qwen/Qwen3-4B"])
@pytest.mark.parametrize("name", WAYS)
def test_a_default_does_not_tell_what_the_run_is_given(name: str, model: str) -> None:
    """The default's loss was the port's, also of a model from the environment that takes other means."""
    text = SCRIPT.format(load=AUTO, name=name.format(model=model), steps=4)
    found = port(f"{WAYS[name].format(model=model)}\n{text}")
    assert 'mean_over=rt.mean_over(model, "5.12' in found.after and found.status == "ported"


@pytest.mark.parametrize(("third", "asked"), [("google/gemma-3-4b-it", True), ("google/gemma-3-1b-it", False)])
def test_a_menu_of_models_is_all_that_may_be_chosen(third: str, asked: bool) -> None:
    text = SCRIPT.format(load=AUTO, name="MODELS[sys.argv[1]]", steps=4)
    menu = f"MODELS = {{'small': 'Qwen/Qwen3-0.6B', 'medium': 'Qwen/Qwen3-4B', 'large': {third!r}}}\n"
    assert ("rt.mean_over(" in port(menu + text).after) is asked
    fallback = "MODELS.get(sys.argv[1], sys.argv[1])"
    assert "rt.mean_over(" in port((menu + text).replace("MODELS[sys.argv[1]]", fallback)).after


def test_a_model_of_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: google/gemma-3-27b-it\n")
    text = SCRIPT.format(load=AUTO, name="config['model']", steps=4)
    script = tmp_path / "train.py"
    script.write_text("import yaml\n\nwith open('c.yaml') as file:\n    config = yaml.safe_load(file)\n" + text)
    assert 'mean_over=rt.mean_over(model, "5.12' in port_file(script, Options()).after


@pytest.mark.parametrize(("release", "scaled"), [("0.16.0", True), ("0.18.1", True), ("0.19.0", False)])
def test_transformers_before_4_53_divided_nothing(release: str, scaled: bool) -> None:
    text = SCRIPT.format(load=AUTO, name="'google/gemma-3-4b-it'", steps=4).replace("dtype=", "torch_dtype=")
    found = port(text, source_trl=release).after
    assert 'mean_over="micro_batch",' in found
    assert ("optax.scale(4)" in found) is scaled


def test_a_trainer_of_today_says_its_release_for_an_epochs_short_last_group() -> None:
    text = SCRIPT.format(load=AUTO, name="'google/gemma-3-4b-it'", steps=4)
    text = text.replace("SFTConfig", "TrainingArguments").replace("SFTTrainer", "Trainer")
    text = text.replace("from trl import", "from transformers import")
    found = port(text).after
    assert 'mean_over="micro_batch",' in found and 'transformers="5.' in found
