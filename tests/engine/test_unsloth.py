"""What Unsloth's loading call decides for the trainer: its defaults, the order of the rows, the count of tokens."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port
from .unsloth_scripts import HEAD, LOAD, PUT_IN, script


def test_a_base_may_be_quantised_by_a_choice() -> None:
    text = script().replace("load_in_4bit=False", "load_in_4bit=flag if not made else False, load_in_8bit=eight")
    text = "flag, made, eight = map(bool, input().split())\n" + text
    check_becomes(text, '"int8" if eight else ("nf4" if (flag if not made else False) else None)')
    check_becomes(text.replace(", load_in_8bit=eight", ""), '"nf4" if (flag if not made else False) else None')


def test_trl_imported_before_unsloth_stays_as_it_is() -> None:
    text = script("'out', max_length=64").replace("from unsloth import FastLanguageModel\n", "", 1)
    text = text.replace("\nrows =", "from unsloth import FastLanguageModel\n\nrows =")
    check_becomes(text, "max_length=64,\n", "batch_size=8,", "seed=42,", gone=("unsloth=",))


@pytest.mark.parametrize("asked", ["", "None", '"all-linear"'])
def test_all_layers_are_those_that_unsloth_names(asked: str) -> None:
    """PEFT's "all-linear" has Gemma 4's gates and projections of embeddings by layer, too."""
    asked = f", target_modules={asked}" if asked else ""
    text = script().replace(PUT_IN, f"model = FastLanguageModel.get_peft_model(model, r=8{asked})\n")
    found = check_becomes(
        text.replace("unsloth/Qwen3-0.6B", "unsloth/gemma-4-E4B-it"), gone=("per_layer", "all-linear")
    )
    assert "up_proj" in found.after


def test_gaussian_adapters_start_so() -> None:
    put_in = PUT_IN.replace("(model)", "(model, init_lora_weights='gaussian')")
    check_becomes(script().replace(PUT_IN, put_in), "lora_a_initializer=jax.nn.initializers.normal(1 / 16)")
    assert port(script().replace(PUT_IN, put_in)).status == "ported"


@pytest.mark.parametrize(
    ("full", "status", "said"),
    [("True", "partial", ["error"]), ("False", "ported", []), ("bool(input())", "ported", ["warning"])],
)
def test_adapters_behind_full_finetuning_are_none_of_the_gpu_runs(full: str, status: str, said: list[str]) -> None:
    found = port(script().replace("load_in_4bit=False", f"full_finetuning={full}, load_in_4bit=False"))
    assert found.status == status
    assert [each.severity for each in found.findings if "puts no adapters in then" in each.message] == said


@pytest.mark.parametrize(
    ("release", "targets", "status"),
    [
        ("unsloth==2025.3.19 trl==0.15.2", '["q_proj", "lm_head"]', "partial"),
        ("unsloth==2026.2.1", '["q_proj", "lm_head"]', "partial"),
        ("unsloth==2026.3.1", '["q_proj", "lm_head"]', "ported"),
        ("unsloth==2025.3.19 trl==0.15.2", '["q_proj", "v_proj"]', "ported"),
    ],
)
def test_a_head_is_trained_whole_by_older_releases(release: str, targets: str, status: str) -> None:
    put_in = PUT_IN.replace("(model)", f"(model, target_modules={targets})")
    text = script().replace(PUT_IN, put_in).replace("Qwen3-0.6B", "mistral-7b")
    text = text.replace("processing_class", "tokenizer") if "trl" in release else text
    found = port(f"# pip install {release}\n{text}")
    assert found.status == status, found.findings
    assert any("trains and saves the whole head" in each.message for each in found.findings) is (status == "partial")


def test_defaults_are_unsloths_where_the_config_says_nothing() -> None:
    check_becomes(script("'out', seed=1"), "accumulation=2,  # Unsloth's default", "seed=1,", 'unsloth="')
    own = "class Config(SFTConfig):\n    pass\n\n"
    assert "Read as Unsloth" in str(port(script()).findings) and "Read as Unsloth" not in str(port(own).findings)


def test_rows_come_in_the_order_of_unsloths_data_seed() -> None:
    found = check_becomes(script("'out', seed=1"), "seed=1,", "data_seed=3407,  # Unsloth's default")
    assert "Unsloth sets it in the config" in str(
        [row.reason for row in found.fields if row.source == "SFTConfig.seed"]
    )
    assert "Its data_seed=3407 orders the rows" in str(found.findings)
    pinned = "# pip install unsloth==2026.9.12\n" + script("'out', seed=1")
    for text in (script(), script("'out', seed=3407"), pinned):
        assert "data_seed" not in port(text).after
    check_becomes(script("'out', seed=1, data_seed=2"), "data_seed=2,", gone=("data_seed=3407",))
    own = script("'out', seed=1").replace("SFTConfig(", "TrainingArguments(")
    assert "data_seed" not in port("from transformers import TrainingArguments\n" + own).after
    spread = "import yaml\n" + script("**yaml.safe_load(open('a'))")
    assert "the data_seed=3407, which orders the rows" in str(port(spread).findings)
    older = "# pip install transformers==4.45.2 trl==0.13.0 unsloth==2025.2.6\n" + script("'out', seed=1")
    assert "data_seed" not in port(older.replace("Qwen3-0.6B", "Llama-3.2-1B")).after


def test_a_config_that_stays_an_object_has_them_too() -> None:
    text = (
        script()
        .replace("SFTConfig('out')", "config")
        .replace("model, tok", "config = SFTConfig('out')\nprint(config)\nmodel, tok", 1)
    )
    check_becomes(text, 'SFTConfig = trl_arguments("0.24.0", "SFTConfig", unsloth="', "max_length=512")


COUNTED = 'unsloth_counts="2026.8.19",'


def test_a_steps_tokens_are_counted_as_unsloth_counts_them() -> None:
    """Its count is in transformers' Trainer, whichever of the libraries is imported first."""
    check_becomes(script(), COUNTED)
    late = script().replace("from unsloth import FastLanguageModel\n", "", 1)
    check_becomes(late.replace("\nrows =", "from unsloth import FastLanguageModel\n\nrows ="), COUNTED)
    named = f"import unsloth\n{HEAD}".replace("from unsloth import FastLanguageModel\n", "")
    named += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)\ntrainer.train()\n"
    check_becomes(named, 'unsloth="', gone=("unsloth_counts",))


def test_by_the_plain_trainer_too() -> None:
    text = f"""\
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

rows = load_dataset('x', split='train')
model, tokenizer = {LOAD}{PUT_IN}args = TrainingArguments('out', num_train_epochs=1)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args=args, train_dataset=rows, data_collator=collator)
trainer.train()
"""
    check_becomes(text, COUNTED)


def test_an_older_unsloths_mistral_takes_the_count_as_well() -> None:
    text = "# /// script\n# dependencies = ['unsloth==2025.1.8', 'trl==0.13.0', 'transformers==4.47.1']\n# ///\n"
    text += script().replace("Qwen3-0.6B", "mistral-7b-v0.3")
    found = check_becomes(text, 'unsloth_counts="2025.1.8",', gone=('transformers="4.45"', "optax.scale("))
    assert "divides no accumulated gradient" not in str(found.findings)


EVALUATED = """from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=256, load_in_4bit=False)
rows = load_dataset("x", split="train").train_test_split(test_size=0.1)
args = TrainingArguments("out", eval_strategy="{strategy}", per_device_train_batch_size={train}{evaluation})
parts = {{"train_dataset": rows["train"], "eval_dataset": rows["test"]}}
trainer = SFTTrainer(model, args=args, processing_class=tokenizer, **parts)
trainer.train()
"""


@pytest.mark.parametrize(
    ("strategy", "train", "evaluation", "written"),
    [
        ("epoch", 2, "", "batch_size=2"),
        ("epoch", 2, ", per_device_eval_batch_size=8", "batch_size=2"),
        ("epoch", 2, ", per_device_eval_batch_size=4", "batch_size=4"),
        ("epoch", 16, "", ""),
    ],
)
def test_an_evaluation_by_8_goes_by_the_trainings_batch(
    strategy: str, train: int, evaluation: str, written: str
) -> None:
    found = port(EVALUATED.format(strategy=strategy, train=train, evaluation=evaluation))
    assert not [row.source for row in found.fields if row.fate == "manual"]
    [line] = [line for line in found.after.splitlines() if "batches.evaluation(" in line]
    assert (written in line) if written else ("batch_size=2" not in line and "batch_size=4" not in line)


@pytest.mark.parametrize(("trainer", "keyword"), [("DPO", "ref_model"), ("experimental.gkd.GKD", "teacher_model")])
def test_a_reference_that_unsloth_loads_is_named(trainer: str, keyword: str) -> None:
    """It gives (model, tokenizer), and holds the model in 4 bits where nothing is said."""
    package, _, kind = f"trl.{trainer}".rpartition(".")
    found = port(
        f"from unsloth import FastLanguageModel\nfrom datasets import load_dataset\n"
        f"from {package} import {kind}Config, {kind}Trainer\nrows = load_dataset('x', split='train')\n"
        "model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', load_in_4bit=False)\n"
        "model = FastLanguageModel.get_peft_model(model)\n"
        "other, _ = FastLanguageModel.from_pretrained('unsloth/Qwen3-1.7B')\n"
        f"trainer = {kind}Trainer(model, {keyword}=other, args={kind}Config('out'), train_dataset=rows,"
        " processing_class=tokenizer)\ntrainer.train()\n"
    )
    [said] = [finding for finding in found.findings if finding.severity == "error"]
    assert f"{keyword}=other: FastLanguageModel loads it" in said.message and said.line == 7
