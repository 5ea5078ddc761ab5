"""What is bound again behind the place where a config, a model or a loop's part was made of it."""

from __future__ import annotations

import pytest

from .porting import port

HEAD = """\
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

rows = load_dataset("some/rows", split="train")
"""
TRAINED = 'trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=rows)\ntrainer.train()\n'
FIRST = 'config = SFTConfig("out", learning_rate=1e-4, per_device_train_batch_size=2)\n'
SECOND = 'config = SFTConfig("out/2", learning_rate=3e-5, per_device_train_batch_size=16)\n'
READ = "print(config.learning_rate)\n"


def test_a_read_is_of_the_config_that_its_line_has() -> None:
    found = port(HEAD + FIRST + READ + TRAINED + READ + SECOND + READ + TRAINED + READ).after
    printed = [line for line in found.splitlines() if line.startswith("print(")]
    assert printed == [*["print(1e-4)"] * 2, *["print(3e-5)"] * 2]
    first, _, second = found.partition("print(3e-5)\n")
    assert "optax.linear_schedule(1e-4," in first and "optax.linear_schedule(3e-5," in second
    assert "batch_size=2," in first and "batch_size=16," in second and "SFTConfig(" not in found


@pytest.mark.parametrize(
    "between",
    [
        f"if len(rows) > 9:\n    {SECOND}{READ}",
        f"def report():\n    {READ}\n{SECOND}report()\n",
        f"for _ in range(2):\n    {READ}    {SECOND}",
    ],
)
def test_a_config_that_may_be_another_where_it_is_read_stays(between: str) -> None:
    found = port(HEAD + FIRST + TRAINED + between).after
    assert 'config = SFTConfig("out", learning_rate=1e-4' in found
    assert READ.strip() in found


def test_another_object_of_the_name_is_left_alone() -> None:
    found = port(
        HEAD + FIRST + TRAINED + READ + "from project import load\nconfig = load()\nprint(config.seed)\n"
    ).after
    assert "print(1e-4)" in found and "print(config.seed)" in found
    assert 'SFTConfig("out"' not in found


@pytest.mark.parametrize(
    ("before", "given", "between"),
    [
        ("lr = 1e-4\n", "lr", "lr = 2e-4\n"),
        ("lr = 1e-4\n", "lr * 2", "lr *= 2\n"),
        ("lr = 1e-4\n", "lr", "for lr in (1e-4, 2e-4):\n    print(lr)\n"),
        ("import shared\n", "shared.lr", "shared.lr = 2e-4\n"),
        ("from shared import held\n", 'held["lr"]', 'held["lr"] /= 2\n'),
    ],
)
def test_a_config_of_what_is_set_anew_in_front_of_its_trainer_stays(before: str, given: str, between: str) -> None:
    made = f'{before}config = SFTConfig("out", learning_rate={given})\n'
    found = port(HEAD + made + between + TRAINED).after
    assert f'config = SFTConfig("out", learning_rate={given})\n{between}' in found
    assert "config.learning_rate" in found
    spread = port(HEAD + made + TRAINED + between).after
    assert f"optax.linear_schedule({given}," in spread and "SFTConfig(" not in spread


def test_a_read_behind_what_is_set_anew_keeps_the_config() -> None:
    made = 'lr = 1e-4\nconfig = SFTConfig("out", learning_rate=lr)\n'
    found = port(HEAD + made + TRAINED + "lr = 2e-4\n" + READ).after
    assert READ in found and 'config = SFTConfig("out", learning_rate=lr)' in found
    assert "SFTConfig(" not in port(HEAD + made + TRAINED + READ + "lr = 2e-4\n").after


def test_adapters_of_a_rank_that_is_set_anew_keep_their_config() -> None:
    made = 'rank = 8\nlora = LoraConfig(r=rank, target_modules=["q_proj"])\n{}' + FIRST
    trained = TRAINED.replace("args=config", "args=config, peft_config=lora")
    assert "LoraConfig(r=rank" in port(HEAD + made.format("rank = 64\n") + trained).after
    assert "LoraConfig(" not in port(HEAD + made.format("") + trained).after


@pytest.mark.parametrize(("again", "loaded"), [('name = "out"\n', "model.porter.id"), ("", "name")])
def test_the_trainers_own_tokenizer_is_that_of_the_name_the_model_was_loaded_by(again: str, loaded: str) -> None:
    made = 'name = "Qwen/Qwen3-0.6B"\nmodel = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")\n'
    trained = TRAINED.replace('"Qwen/Qwen3-0.6B"', "model").replace("args=config", 'args=SFTConfig("out")')
    assert f"tokenizer = AutoTokenizer.from_pretrained({loaded})\n" in port(HEAD + made + again + trained).after


@pytest.mark.parametrize(("again", "severities"), [("size = 512\n", ["error"]), ("", [])])
def test_unsloths_length_that_is_set_anew_is_named(again: str, severities: list[str]) -> None:
    loaded = 'FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=size, load_in_4bit=False)'
    made = f"size = 1024\nmodel, tokenizer = {loaded}\nmodel = FastLanguageModel.get_peft_model(model)\n"
    trained = TRAINED.replace('"Qwen/Qwen3-0.6B"', "model").replace("args=config", 'args=SFTConfig("out")')
    found = port("from unsloth import FastLanguageModel\n" + HEAD + made + again + trained)
    said = [each.severity for each in found.findings if "cuts rows at the model's max_seq_length" in each.message]
    assert said == severities
    assert ("max_length=size," in found.after) is not bool(severities)


LOOP = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator

size, lr = 8, 1e-4
rows = load_dataset("some/tokens", split="train")
loader = DataLoader(rows, batch_size=size, shuffle=True, collate_fn=default_data_collator)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
{between}model.train()
for epoch in range(2):
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
{behind}"""


def test_parts_of_a_loop_of_what_is_set_anew_are_named() -> None:
    found = port(LOOP.format(between="size, lr = 4, 2e-4\n", behind=""))
    said = [each.message for each in found.findings if each.severity == "error"]
    assert [message.partition(" ")[0] for message in said] == ["size", "lr"]
    assert all("is another one where the loop stands" in message for message in said)
    plain = port(LOOP.format(between="", behind="size, lr = 4, 2e-4\nprint(size, lr)\n"))
    assert plain.status == "ported", plain.findings


BEHIND = "trainer.train()\ntrainer.save_model()\n"
MADE = TRAINED.partition("trainer.train()")[0]


@pytest.mark.parametrize(
    ("config", "again", "folder"),
    [
        ('SFTConfig("out")', "", '"out"'),
        ("SFTConfig(out)", 'out = "other"\n', "config.output_dir"),
        ("SFTConfig(out)", "", "out"),
        ('SFTConfig("out", eval_strategy=out)', "", "config.output_dir"),
        ('SFTConfig("out", eval_strategy=out)', 'config = SFTConfig("other")\n', "trainer_args.output_dir"),
        ('SFTConfig("out", eval_strategy=out)', "from project import config\n", "trainer_args.output_dir"),
    ],
)
def test_what_a_trainer_does_later_is_by_the_config_that_it_was_given(config: str, again: str, folder: str) -> None:
    found = port(f"{HEAD}from project import out\nconfig = {config}\n{MADE}{again}{BEHIND}").after
    assert f"rt.save_model(model, {folder}, tokenizer=tokenizer)" in found
    assert ("\ntrainer_args = config\n" in found) is folder.startswith("trainer_args")
    assert again in found


def test_a_config_in_the_trainers_call_is_kept_where_its_folder_is_set_anew() -> None:
    text = f"{HEAD}out = 'one'\n{MADE}out = 'two'\n{BEHIND}".replace("args=config", "args=SFTConfig(out)")
    found = port(text).after
    assert "rt.save_model(model, training_args.output_dir, tokenizer=tokenizer)" in found
    assert "rt.save_model(model, out, tokenizer=tokenizer)" in port(text.replace("out = 'two'\n", "")).after


LOADED = """\
from transformers import AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
{}trainer.save_model()
"""


@pytest.mark.parametrize(
    ("again", "model", "tokenizer"),
    [
        ("", "model", "tokenizer"),
        ("model = model.eval()\n", "model", "tokenizer"),
        ("from project import base as model\n", "trainer.model", "tokenizer"),
        ('tokenizer = AutoTokenizer.from_pretrained("other")\n', "model", "trainer.processing_class"),
    ],
)
def test_what_is_saved_is_the_trainers_own(again: str, model: str, tokenizer: str) -> None:
    found = port(HEAD + LOADED.format(again)).after
    assert f'rt.save_model({model}, "out", tokenizer={tokenizer})' in found
    assert ("\ntrainer.processing_class = tokenizer\n" in found) is tokenizer.startswith("trainer.")
