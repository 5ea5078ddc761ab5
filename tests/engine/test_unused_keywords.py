"""Keywords that nothing of the port has a use for: dropped, with the reason why."""

from __future__ import annotations

import pytest

import porter.engine.assembling.receipts as settling

from .porting import port, sft_script
from .receipt_lines import SCRIPT, row


def test_a_default_that_leaves_something_off_is_nobody_s() -> None:
    source = SCRIPT.format(before="", keywords="max_steps=5").replace(
        "    train_dataset", "    eval_dataset=None,\n    train_dataset"
    )
    found = port(source)
    assert row(found, "SFTTrainer.eval_dataset").fate == "dropped"
    assert not [each for each in found.findings if settling.LOST in each.message]


@pytest.mark.parametrize("value", ["False", "True"])
def test_full_finetuning_that_is_off_is_nobody_s(value: str) -> None:
    source = "from unsloth import FastModel\nfrom trl import SFTConfig, SFTTrainer\n\n"
    source += f"model, tokenizer = FastModel.from_pretrained('unsloth/gemma-3-4b-it', full_finetuning={value})\n"
    source += "model = FastModel.get_peft_model(model, r=8)\n" if value == "False" else ""
    source += "trainer = SFTTrainer(model, args=SFTConfig('out', max_steps=5), train_dataset=rows)\ntrainer.train()\n"
    found = port(source)
    assert row(found, "FastModel.full_finetuning").fate == ("dropped" if value == "False" else "exact")
    assert not [each for each in found.findings if settling.LOST in each.message]


@pytest.mark.parametrize(
    ("keywords", "name", "reason"),
    [
        ("save_strategy='epoch', save_steps=5", "save_steps", 'save_strategy is "epoch"'),
        ("save_strategy='no', save_total_limit=2", "save_total_limit", "no checkpoint is saved"),
        ("eval_steps=5", "eval_steps", "nothing is evaluated"),
        ("report_to='none', run_name='a'", "run_name", "nothing is reported to a tracker"),
        ("warmup_ratio=0.1, warmup_steps=10", "warmup_steps", "warmup_ratio counts"),
        ("hub_model_id='a/b'", "hub_model_id", "the trainer uploads nothing here"),
    ],
)
def test_what_nothing_reads_is_dropped(keywords: str, name: str, reason: str) -> None:
    found = port(SCRIPT.format(before="", keywords=f"max_steps=5, {keywords}"))
    assert found.status == "ported", found.findings
    assert (row(found, f"SFTConfig.{name}").fate, row(found, f"SFTConfig.{name}").reason) == ("dropped", reason)


def test_a_project_is_no_other_trackers_than_trackios() -> None:
    found = port(SCRIPT.format(before="", keywords="max_steps=5, report_to='wandb', project='mine'"))
    assert "mine" not in found.after
    assert row(found, "SFTConfig.project").fate == "dropped"


@pytest.mark.parametrize("keyword", ["bf16=True", "bf16=use_bf16", "fp16=not use_bf16"])
def test_types_of_a_model_that_is_loaded_elsewhere_are_said_there(keyword: str) -> None:
    source = SCRIPT.format(
        before="from own import load, use_bf16\nmodel = load()\n", keywords=f"max_steps=5, {keyword}"
    )
    found = port(source.replace('    "Qwen/Qwen3-0.6B",', "    model,"))
    one = row(found, f"SFTConfig.{keyword.partition('=')[0]}")
    assert (one.fate, "loaded elsewhere" in one.reason) == ("dropped", True), one
    assert settling.LOST not in found.after


def test_what_newer_trl_ignores_of_dataset_kwargs_is_dropped() -> None:
    found = port(SCRIPT.format(before="", keywords="max_steps=5, dataset_kwargs={'add_special_tokens': False}"))
    one = row(found, "SFTConfig.dataset_kwargs")
    assert one.fate == "dropped" and "no use for add_special_tokens" in one.reason


def test_keywords_of_grpo_that_mean_the_same_or_nothing() -> None:
    found = port(
        "from trl import GRPOConfig, GRPOTrainer\n\n"
        "config = GRPOConfig('out', scale_rewards=True, data_seed=3, per_device_eval_batch_size=8)\n"
        "trainer = GRPOTrainer('Qwen/Qwen3-0.6B', reward, args=config, train_dataset=rows)\ntrainer.train()\n"
    )
    assert row(found, "GRPOConfig.scale_rewards").fate == "exact"
    assert row(found, "GRPOConfig.data_seed").reason == "TRL shuffles the prompts of these trainers by seed alone"
    assert row(found, "GRPOConfig.per_device_eval_batch_size").fate == "dropped"


def test_a_config_of_adapters_beside_a_model_that_has_some_is_said_to_do_nothing() -> None:
    script = sft_script(
        imports="from peft import LoraConfig, get_peft_model",
        before="config = LoraConfig(task_type='CAUSAL_LM')",
        between="model = get_peft_model(model, config)",
        trainer=", peft_config=config",
    )
    found = port(script)
    assert (row(found, "SFTTrainer.peft_config").fate, found.status) == ("dropped", "ported")
    assert "which nothing has trained" in row(found, "SFTTrainer.peft_config").reason


def test_a_tokenizers_upload_is_not_the_models() -> None:
    source = SCRIPT.format(before="", keywords="max_steps=5, push_to_hub=True, hub_model_id='a/b'")
    found = port(source + "tokenizer.push_to_hub('a/b')\n")
    assert "rt.push_to_hub(" in found.after and row(found, "SFTConfig.push_to_hub").fate == "changed"
    assert row(found, "SFTConfig.hub_model_id").fate == "exact"
    found = port(sft_script(config=", push_to_hub=True", after="trainer.train()\nmodel.push_to_hub('a/b')"))
    assert "own push_to_hub" in row(found, "SFTConfig.push_to_hub").reason
    assert found.after.count("rt.push_to_hub(") == 1


def test_flags_beside_a_quantization_config_are_dropped() -> None:
    config = ", load_in_4bit=True, quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"
    lora = ", peft_config=LoraConfig(r=8, target_modules=['q_proj'])"
    imports = "from peft import LoraConfig\nfrom transformers import BitsAndBytesConfig"
    found = port(sft_script(imports=imports, load=config, trainer=lora))
    assert row(found, "AutoModelForCausalLM.load_in_4bit").reason == "quantization_config says it"


@pytest.mark.parametrize(
    ("keyword", "fate"), [("max_steps=0", "dropped"), ("max_steps=5, dataset_text_field=None", "exact")]
)
def test_values_that_count_as_unsaid(keyword: str, fate: str) -> None:
    found = port(SCRIPT.format(before="", keywords=keyword))
    name = keyword.rpartition(", ")[2].partition("=")[0]
    assert row(found, f"SFTConfig.{name}").fate == fate


@pytest.mark.parametrize(("trainer", "fate"), [("GRPO", "changed"), ("SFT", "dropped")])
def test_vllm_beside_the_trainer(trainer: str, fate: str) -> None:
    rewards = "reward_funcs=reward, " if trainer == "GRPO" else ""
    found = port(
        f"from unsloth import FastLanguageModel\nfrom trl import {trainer}Config, {trainer}Trainer\n\n"
        "model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', fast_inference=True)\n"
        "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'])\n"
        f"trainer = {trainer}Trainer(model, {rewards}args={trainer}Config('out', max_steps=5), train_dataset=rows,\n"
        "    processing_class=tokenizer)\ntrainer.train()\n"
    )
    assert row(found, "FastLanguageModel.fast_inference").fate == fate
