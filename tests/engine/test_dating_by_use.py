"""Which release a script was written for by what it does and by the keywords that act, against its pins."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.runtime.settings.unsloth_defaults import unsloth_beside
from tests.notebooks import saved

from .porting import port
from .test_dating import SCRIPT

ADAPTED = """from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

config = LoraConfig(task_type="CAUSAL_LM")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{model}
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows{config})
trainer.train()
"""
PUT_IN = "model = get_peft_model(model, config)"


@pytest.mark.parametrize(
    ("model", "config", "version"),
    [
        (
            PUT_IN,
            ", peft_config=config",
            "0.26.2 (the newest release with SFTTrainer(get_peft_model(...), peft_config=)",
        ),
        (PUT_IN, "", "1.16.0 (newest table)"),
        (PUT_IN, ", peft_config=None", "1.16.0 (newest table)"),
        ("", ", peft_config=config", "1.16.0 (newest table)"),
        ("if rows:\n    " + PUT_IN, ", peft_config=config", "1.16.0 (newest table)"),
        ("", ", peft_config=config)\n" + PUT_IN + "\nprint(model", "1.16.0 (newest table)"),
    ],
)
def test_a_model_with_adapters_and_a_config_of_them_is_of_before_trl_0_27(
    model: str, config: str, version: str
) -> None:
    found = port(ADAPTED.format(model=model, config=config)).recipe.versions["trl"]
    assert found.startswith(version)


POLICY = """from datasets import load_dataset
from trl import {kind}Config, {kind}Trainer

rows = load_dataset("x", split="train")
config = {kind}Config("out"{config})
trainer = {kind}Trainer("Qwen/Qwen3-0.6B", reward_funcs=len, args=config, train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("kind", "config", "version"),
    [
        ("GRPO", ", max_prompt_length=256", "0.25.1 (the newest release with GRPOConfig(max_prompt_length=) in effect"),
        ("RLOO", ", max_prompt_length=256", "0.26.2 (the newest release with RLOOConfig(max_prompt_length=) in effect"),
        ("GRPO", "", "1.16.0 (newest table)"),
        # what came when it did nothing any more: then the release that still takes it
        ("GRPO", ", max_prompt_length=256, vllm_structured_outputs_regex='a'", "0.27.2 (the newest release with"),
    ],
)
def test_a_keyword_dates_to_the_releases_in_which_it_acts(kind: str, config: str, version: str) -> None:
    assert port(POLICY.format(kind=kind, config=config)).recipe.versions["trl"].startswith(version)


def test_a_keyword_without_effect_dates_to_no_day_before_the_rest() -> None:
    """transformers 5.1 is of February 2026, when TRL 0.27 was out: in both the keyword does nothing."""
    back = 'if not hasattr(model, "warnings_issued"):\n    model.warnings_issued = {}\nrows ='
    text = POLICY.format(kind="GRPO", config=", max_prompt_length=256").replace("rows =", back, 1)
    versions = port(text).recipe.versions
    assert (versions["trl"].split()[0], versions["transformers"].split()[0]) == ("0.27.2", "5.1.0"), versions


def test_a_keyword_without_effect_contradicts_no_pin() -> None:
    found = port("# trl==0.27.0\n" + POLICY.format(kind="GRPO", config=", max_prompt_length=256"))
    assert found.recipe.versions["trl"].startswith("0.27.0 (the script")
    assert not [each for each in found.findings if "doesn't have" in each.message]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("uv.lock", '[[package]]\nname = "trl"\nversion = "1.7.0"\n', "uv.lock"),
        ("requirements.txt", "trl==1.7.0\n", "requirements.txt"),
        ("requirements.txt", "trl>=0.20,<1\n", "requirements.txt"),
    ],
)
def test_a_pin_that_the_script_cannot_run_on_is_not_read(file: str, text: str, said: str, tmp_path: Path) -> None:
    """A lock file that came later, or that nobody installed from: TRL 1.7 takes no max_seq_length."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('SFTConfig("out")', 'SFTConfig("out", max_seq_length=9)'))
    (tmp_path / file).write_text(text)
    found = port_file(script)
    assert found.recipe.versions["trl"].startswith("0.19.1 (the newest release with SFTConfig(max_seq_length=)")
    [info] = [each for each in found.findings if "not read" in each.message]
    assert info.message.startswith(f"{said} ") and "goes against what the script uses: SFTConfig(max" in info.message


def test_of_a_script_that_no_release_can_run_the_pin_is_read(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('SFTConfig("out")', 'SFTConfig("out", max_seq_length=9, loss_type="dft")'))
    (tmp_path / "requirements.txt").write_text("trl==1.7.0\n")
    assert port_file(script).recipe.versions["trl"].startswith("1.7.0 (requirements.txt")


def test_a_file_that_the_script_cannot_run_on_dates_no_other_library_either(tmp_path: Path) -> None:
    """Releases of one lock file are of one day: transformers 5.12 beside TRL 0.19 is nobody's environment."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('SFTConfig("out")', 'SFTConfig("out", max_seq_length=9)'))
    (tmp_path / "requirements.txt").write_text("trl==1.7.0\ntransformers==5.12.1\n")
    assert port_file(script).recipe.versions["transformers"].startswith("4.53 (of the day of TRL 0.19.1)")
    (tmp_path / "requirements.txt").write_text("transformers==4.54.1\n")
    assert port_file(script).recipe.versions["transformers"].startswith("4.54.1 (requirements.txt")


def test_a_lower_bound_of_transformers_holds_beside_an_older_trl(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('SFTConfig("out")', 'SFTConfig("out", max_seq_length=9)'))
    for bound, release in (
        ("4.52.3", "4.53 (of the day"),
        ("5.2.0", "4.53 (of"),
        ("4.54.1", "4.54.1 (the project asks for transformers>=4.54.1)"),
    ):
        (tmp_path / "requirements.txt").write_text(f"transformers>={bound}\n")
        assert port_file(script).recipe.versions["transformers"].startswith(release)


def test_a_transformers_that_no_trl_with_all_of_it_is_installed_with_is_not_read(tmp_path: Path) -> None:
    """`SFTConfig(max_length=)` is of TRL 0.16, which needs transformers 4.46: the pin is of other scripts."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("Qwen3-0.6B", "Qwen2.5-0.5B").replace('"out")', '"out", max_length=9)'))
    (tmp_path / "requirements.txt").write_text("transformers==4.45.0\n")
    found = port_file(script)
    assert found.recipe.versions["transformers"].endswith("(newest table)")
    [info] = [each for each in found.findings if "not read" in each.message]
    assert "what TRL 0.16.0, the first with all that the script uses, needs: transformers>=4.46.0" in info.message
    (tmp_path / "requirements.txt").write_text("transformers==4.46.0\n")
    assert port_file(script).recipe.versions["transformers"].startswith("4.46.0 (requirements.txt")


PLAIN_ARGUMENTS = """import transformers
from datasets import load_dataset{more}
from trl import SFTTrainer

args = transformers.TrainingArguments("out", max_steps=100, warmup_steps={warmup})
rows = load_dataset("x", split="train")
trainer = SFTTrainer("Qwen/Qwen2-0.5B", args=args, train_dataset=rows{keyword})
trainer.train()
"""


@pytest.mark.parametrize(
    ("warmup", "keyword", "version", "schedule"),
    [
        ("0.03", ", dataset_text_field='text'", "0.8.6", "warmup_steps=0.03, steps=batches.steps, shares=False"),
        ("3", ", dataset_text_field='text'", "0.12.2", "optax.linear_schedule(0.0, 5e-5, 3)"),
        ("0.03", "", "1.16.0", "math.ceil(0.03 * batches.steps)"),
    ],
)
def test_a_fraction_of_warmup_steps_is_of_before_transformers_4_42_or_of_5(
    warmup: str, keyword: str, version: str, schedule: str
) -> None:
    found = port(PLAIN_ARGUMENTS.format(more="", warmup=warmup, keyword=keyword))
    assert found.recipe.versions["trl"].startswith(version)
    assert schedule in " ".join(found.after.split()).replace("( ", "(").replace(", )", ")")


@pytest.mark.parametrize(
    ("more", "version"),
    [(", load_metric", "0.10.1 (the newest release with datasets.load_metric"), ("", "1.16.0")],
)
def test_what_datasets_lost_dates_the_rest(more: str, version: str) -> None:
    found = port(PLAIN_ARGUMENTS.format(more=more, warmup="3", keyword=""))
    assert found.recipe.versions["trl"].startswith(version)


def test_what_is_tried_dates_nothing() -> None:
    tried = "\ntry:\n    from datasets import load_metric\nexcept ImportError:\n    load_metric = None"
    found = port(PLAIN_ARGUMENTS.format(more=tried, warmup="3", keyword=""))
    assert found.recipe.versions["trl"].startswith("1.16.0")


LOADED = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"{model})
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"{tokenizer})
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


@pytest.mark.parametrize(
    ("model", "tokenizer", "version"),
    [
        (", load_in_4bit=True", "", "0.27.2"),
        (", use_auth_token=True", "", "0.27.2"),
        (", low_cpu_mem_usage=True", "", "1.16.0"),
        ("", ", use_auth_token=True", "1.16.0"),
    ],
)
def test_what_a_models_load_takes_no_more_is_of_before_transformers_5(model: str, tokenizer: str, version: str) -> None:
    found = port(LOADED.format(model=model, tokenizer=tokenizer))
    assert found.recipe.versions["trl"].startswith(version)


def test_a_notebook_with_lines_of_ipython_is_dated_by_its_imports(tmp_path: Path) -> None:
    text = PLAIN_ARGUMENTS.format(more=", load_metric", warmup="3", keyword="")
    notebook = saved(tmp_path / "train.ipynb", f"!pip install -q datasets\n{text}")
    assert port_file(notebook).recipe.versions["trl"].startswith("0.10.1")


@pytest.mark.parametrize(
    ("trl", "release"), [("0.8.6", "2024.8"), ("0.12.2", "2024.12.12"), ("0.22.2", "2026.8.19"), ("", "2026.8.19")]
)
def test_unsloths_release_is_of_the_day_of_trls(trl: str, release: str) -> None:
    assert unsloth_beside(trl) == release


BESIDE_UNSLOTH = """from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import {names}SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=1024)
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=TrainingArguments("out"), train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""


@pytest.mark.parametrize(
    ("names", "trl", "unsloth"),
    [("", "0.24.0", "2026.8.19"), ("DataCollatorForCompletionOnlyLM, ", "0.19.1", "2025.7.11")],
)
def test_a_name_that_trl_lost_dates_a_script_beside_unsloth(names: str, trl: str, unsloth: str) -> None:
    found = port(BESIDE_UNSLOTH.format(names=names))
    assert found.recipe.versions["trl"].startswith(trl) and f'unsloth="{unsloth}"' in found.after
    pinned = port(f"# pip install trl=={trl}\n{BESIDE_UNSLOTH.format(names=names)}")
    assert 'unsloth="2026.8.19"' in pinned.after  # whose wheel takes that TRL


TRIED = """try:
    from trl import SFTConfig
except ImportError:
    SFTConfig = None
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

kwargs = {{"output_dir": "out", "max_steps": 5}}
if SFTConfig is not None:
    kwargs["{keyword}"] = 512
Config = SFTConfig if SFTConfig is not None else TrainingArguments
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=Config(**kwargs), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("above", "keyword", "read"),
    [
        ("", "max_seq_length", "0.19.1"),  # with the class, and without what it was given no more
        ("", "max_length", "1.16.0"),
        ("# pip install trl==0.8.6\n", "max_seq_length", "0.8.6"),  # which hasn't the class
        ("# pip install trl==0.12.2\n", "max_seq_length", "0.12.2"),
    ],
)
def test_what_a_class_gets_where_it_is_there_is_of_its_releases(above: str, keyword: str, read: str) -> None:
    found = port(above + TRIED.format(keyword=keyword))
    assert found.recipe.versions["trl"].partition(" ")[0] == read, found.recipe.versions
