"""Receipts: every keyword that the port has names its line there, and one that no line has isn't `exact`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import porter.engine.assembling.receipts as settling
import porter.target.statements.optimizer
import porter.target.statements.training_config
from porter.engine.pipeline import port_module
from porter.front.tree import port_tree
from porter.port import Options, Port
from porter.recipe import CARRIED, Place, Receipt, Recipe
from porter.source.parsing import parse_module
from porter.target.statements.remarks import unwritten
from porter.text.layout import Arg, Call, render
from porter.text.marks import Marks

from .porting import port, sft_script

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

{before}trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(
        output_dir="out",
        {keywords},
    ),
    train_dataset=load_dataset("some/rows", split="train"),
)
trainer.train()
"""


def row(found: Port, source: str) -> Receipt:
    [one] = [row for row in found.fields if row.source == source]
    return one


def lines(found: Port, source: str) -> list[str]:
    """The texts of a keyword's places, which are the port's lines of their numbers."""
    text = found.after.splitlines()
    places = row(found, source).places
    assert [text[place.line - 1].strip() for place in places] == [place.text for place in places]
    return [place.text for place in places]


def test_without_a_line_there_is_no_receipt() -> None:
    said = ("SFTConfig.seed", "1", "exact", "rt.SFTBatches(seed=)", "", "TP101", 3, 5)
    with pytest.raises(ValueError, match="no line of the port"):
        Receipt(*said)
    kept = Receipt(*said, (Place(9, "seed=1,"),))
    with pytest.raises(ValueError, match=r"SFTConfig\.seed can't be changed"):
        replace(kept, fate="changed", places=())
    recipe = Recipe("train.py", fields=(kept, replace(kept, fate="dropped", places=())))
    assert Recipe.from_json(recipe.to_json()) == recipe
    older = json.loads(recipe.to_json())
    for each in older["fields"]:
        del each["places"]
    assert [each.fate for each in Recipe.from_json(json.dumps(older)).fields] == ["dropped"]


@pytest.mark.parametrize(
    ("keyword", "line"),
    [
        ("learning_rate=3e-4", "schedule = optax.linear_schedule(3e-4, 0.0, batches.steps)"),
        ("adam_beta2=0.95", "optax.adamw(schedule, b1=0.9, b2=0.95, eps=1e-8, weight_decay=0.0),"),
        ("seed=7", "seed=7,  # the GPU run's order"),
        ("max_grad_norm=0.5", "optax.clip_by_global_norm(0.5),"),
        ("optim='adamw_torch'", "optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),"),
        ("packing=False", "batches = rt.SFTBatches("),
        ("save_strategy='no'", "TrainingConfig("),
        ("logging_steps=5", "trainer.with_training_hooks(rt.log_every(5, schedule=schedule"),
    ],
)
def test_a_value_has_the_line_that_is_made_of_it(keyword: str, line: str) -> None:
    found = port(SCRIPT.format(before="", keywords=f"max_steps=5, {keyword}"))
    assert found.status == "ported", found.findings
    [text] = lines(found, f"SFTConfig.{keyword.partition('=')[0]}")
    assert text.startswith(line)


def nothing(*args: Any, **named: Any) -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("module", "writer", "keyword"),
    [
        (porter.target.statements.optimizer, "_clip", "max_grad_norm=0.5"),
        (porter.target.statements.training_config, "_checkpoints", "save_steps=5"),
        (porter.target.statements.training_config, "_metrics", "report_to='tensorboard'"),
        ("porter.target.sft", "seed_arguments", "seed=7"),
        ("porter.target.sft", "data_arguments", "packing=True"),
    ],
)
def test_what_a_writer_leaves_out_is_said(
    monkeypatch: pytest.MonkeyPatch, module: Any, writer: str, keyword: str
) -> None:
    source = SCRIPT.format(before="", keywords=f"max_steps=5, {keyword}")
    assert port(source).status == "ported"
    monkeypatch.setattr(f"{module}.{writer}" if isinstance(module, str) else f"{module.__name__}.{writer}", nothing)
    found, name = port(source), f"SFTConfig.{keyword.partition('=')[0]}"
    assert (row(found, name).fate, row(found, name).reason) == ("manual", settling.LOST)
    [said] = [each for each in found.findings if name in each.message]
    assert (said.severity, said.line) == ("warning", row(found, name).line)
    assert f"{name}={keyword.partition('=')[2]}: {settling.LOST}".replace("'", '"') in said.message.replace("'", '"')


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


def test_a_keyword_of_a_kept_object_has_its_own_line_and_its_readers() -> None:
    source = "import sys\nfrom trl import SFTConfig, SFTTrainer\n\nargs = SFTConfig(\n    output_dir='out',\n"
    source += "    max_length=512,\n    warmup_steps=3,\n    save_steps=7,\n)\nargs.max_steps = int(sys.argv[1])\n"
    source += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
    found = port(source)
    assert found.status == "ported", found.findings
    assert lines(found, "SFTConfig.max_length") == [
        "max_length=512,",
        "batches = rt.SFTBatches.from_args(args, rows, tokenizer, mesh)",
    ]
    own, reader = lines(found, "SFTConfig.save_steps")
    assert own == "save_steps=7," and "rt.training_config(args, batches)" in reader
    assert lines(found, "SFTConfig.warmup_steps") == ["warmup_steps=3,", "warmup_steps=args.warmup_steps,"]


def test_what_no_helper_reads_of_a_kept_object_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import sys\nfrom trl import SFTConfig, SFTTrainer\n\n"
    source += "args = SFTConfig('out', max_length=512)\nargs.max_steps = int(sys.argv[1])\n"
    source += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
    assert row(port(source), "SFTConfig.max_length").fate == "exact"
    less = settling.CONSUMED["SFTBatches.from_args"] - {"max_length"}
    monkeypatch.setitem(settling.CONSUMED, "SFTBatches.from_args", less)
    assert row(port(source), "SFTConfig.max_length").fate == "manual"
    assert [each.severity for each in port(source).findings if settling.LOST in each.message] == ["warning"]


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


def test_a_trackers_project_is_written() -> None:
    found = port(SCRIPT.format(before="", keywords="max_steps=5, report_to='wandb', project='mine'"))
    assert "project='mine'" in found.after or 'project="mine"' in found.after
    assert row(found, "SFTConfig.project").fate == "exact"


def test_adapters_put_in_behind_the_training_are_not_those_that_are_trained() -> None:
    imports = "from peft import LoraConfig, get_peft_model"
    adapters = ", peft_config=LoraConfig(r=8, target_modules=['q_proj'])"
    behind = "trainer.train()\nmodel = get_peft_model(model, other())"
    found = port(sft_script(imports=imports, trainer=adapters, after=behind))
    assert "rt.apply_lora(" in found.after
    assert row(found, "LoraConfig.r").fate == "exact"


def test_a_line_in_another_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(
        "from trl import SFTConfig\n\nargs = SFTConfig(\n    output_dir='out',\n    max_length=512,\n)\nargs.seed = 1\n"
    )
    (tmp_path / "train.py").write_text(
        "from config import args\nfrom trl import SFTTrainer\n\n"
        "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
    )
    result = port_tree(tmp_path, Options(processes=1), jobs=1)
    config = next(found for path, found in result.ports.items() if path.name == "config.py")
    own, reader = row(config, "SFTConfig.max_length").places
    assert (own.text, own.file) == ("max_length=512,", "")
    assert "rt.SFTBatches.from_args(args" in reader.text and reader.file.endswith("train.py")


def test_marks_take_no_columns_and_leave_none_behind() -> None:
    marks, long = Marks(), "x" * 40
    marked = [Arg(marks.mark(("", number, 1), "") + long, f"name{number}") for number in range(3)]
    plain = [replace(arg, value=long) for arg in marked]
    for arguments in (1, 2, 3):
        text = render(Call("call", marked[:arguments]))
        clean, carries = marks.lifted(text)
        assert clean == render(Call("call", plain[:arguments]))
        assert [key for _, key in carries] == [("", number, 1) for number in range(arguments)]
        assert all(f"name{key[1]}=" in clean.split("\n")[line] for line, key in carries)


def test_a_private_character_of_the_source_is_no_mark() -> None:
    icon = chr(0x100000)
    found = port(SCRIPT.format(before=f"print('{icon}')\n", keywords=f"max_steps=5, run_name='{icon}'"))
    assert found.after.count(icon) == 1 and row(found, "SFTConfig.max_steps").places


def test_only_what_is_the_default_stands_without_a_word() -> None:
    assert unwritten.__doc__ is not None
    found = port(SCRIPT.format(before="", keywords="max_steps=5, gradient_accumulation_steps=1"))
    assert lines(found, "SFTConfig.gradient_accumulation_steps") == ["batches = rt.SFTBatches("]


@pytest.mark.parametrize("keyword", ["bf16=True", "bf16=use_bf16", "fp16=not use_bf16"])
def test_types_of_a_model_that_is_loaded_elsewhere_are_said_there(keyword: str) -> None:
    source = SCRIPT.format(
        before="from own import load, use_bf16\nmodel = load()\n", keywords=f"max_steps=5, {keyword}"
    )
    found = port(source.replace('    "Qwen/Qwen3-0.6B",', "    model,"))
    one = row(found, f"SFTConfig.{keyword.partition('=')[0]}")
    assert (one.fate, "loaded elsewhere" in one.reason) == ("dropped", True), one
    assert settling.LOST not in found.after


PREPARED = "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training"
ADAPTERS = "model = get_peft_model(model, LoraConfig(r=8, target_modules=['q_proj']))"


def prepared(asked: str, keywords: str) -> Port:
    """The port of a script that prepares a quantised base and gives its config keywords."""
    load = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom own import flag, other\n"
    load += "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', "
    load += "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4'))\n"
    before = f"{PREPARED}\n{load}model = prepare_model_for_kbit_training(model{asked})\n{ADAPTERS}\n"
    source = SCRIPT.format(before=before, keywords=f"max_steps=5, {keywords}")
    return port(source.replace('    "Qwen/Qwen3-0.6B",', "    model,"))


def test_checkpointing_that_is_on_in_any_case_drops_its_other_conditions() -> None:
    found = prepared("", "gradient_checkpointing=flag")
    one = row(found, "SFTConfig.gradient_checkpointing")
    assert (one.fate, one.reason) == (
        "dropped",
        "PEFT's k-bit preparation turns gradient checkpointing on",
    )
    assert "if flag" not in found.after and "rt.remat(model)" in found.after


def test_every_condition_of_checkpointing_is_written() -> None:
    found = prepared(", use_gradient_checkpointing=flag", "gradient_checkpointing=other")
    assert "if other or flag:\n    model = rt.remat(model)" in found.after
    for source in ("SFTConfig.gradient_checkpointing", "prepare_model_for_kbit_training.use_gradient_checkpointing"):
        assert lines(found, source) == ["if other or flag:"]


def test_a_condition_of_another_function_is_a_warning() -> None:
    found = port(
        "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n"
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nfrom trl import SFTConfig, SFTTrainer\n\n"
        "def load(flag):\n"
        "    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=quantised)\n"
        "    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=flag)\n"
        f"    {ADAPTERS}\n    return model\n\n"
        "model = load(True)\n"
        "trainer = SFTTrainer(model, args=SFTConfig('out', gradient_checkpointing=False), train_dataset=rows)\n"
        "trainer.train()\n"
    )
    assert row(found, "prepare_model_for_kbit_training.use_gradient_checkpointing").fate == "manual"
    [finding] = [each for each in found.findings if "use_gradient_checkpointing=flag" in each.message]
    assert finding.severity == "warning" and "rt.remat" not in found.after.replace(finding.fix, "")


def test_keywords_of_the_trainers_own_call_beside_a_kept_object() -> None:
    source = "import sys\nfrom transformers import TrainingArguments\nfrom trl import SFTTrainer\n\n"
    source += "args = TrainingArguments('out', evaluation_strategy='no', per_device_eval_batch_size=4)\n"
    source += (
        "args.max_steps = int(sys.argv[1])\ntrainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows, "
    )
    source += "dataset_text_field='text', packing=False, max_seq_length=64, tokenizer=tokenizer,\n"
    source += "    dataset_kwargs={'add_special_tokens': False})\ntrainer.train()\n"
    found = port(source)
    for keyword in ("dataset_text_field", "packing", "dataset_kwargs"):
        assert row(found, f"SFTTrainer.{keyword}").fate in CARRIED, row(found, f"SFTTrainer.{keyword}")
    assert "add_special_tokens=False" in lines(found, "SFTTrainer.dataset_kwargs")[0]
    assert row(found, "TrainingArguments.per_device_eval_batch_size").fate == "dropped"


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


def test_checkpointing_that_is_on_whatever_is_asked() -> None:
    head = "import sys\nfrom peft import LoraConfig, prepare_model_for_kbit_training\n"
    load = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', load_in_4bit=True)\n"
    before = f"{load}model = prepare_model_for_kbit_training(model)\n"
    text = SCRIPT.format(before=before, keywords="gradient_checkpointing=len(sys.argv) > 1")
    text = f"{head}from transformers import AutoModelForCausalLM\n{text}"
    ported = port(text.replace('"Qwen/Qwen3-0.6B",', "model, peft_config=LoraConfig(r=4),"))
    assert ported.status == "ported", ported.findings
    assert "model = rt.remat(model)" in ported.after


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


def test_adapters_of_a_function_have_its_lines() -> None:
    before = "from peft import LoraConfig\n\n\ndef lora(r=8):\n"
    before += "    return LoraConfig(\n        r=r,\n        target_modules=['q_proj'],\n    )\n\n\n"
    found = port(sft_script(before, trainer=", peft_config=lora(r=4)"))
    assert row(found, "LoraConfig.target_modules").fate in CARRIED
    assert lines(found, "LoraConfig.r")[0] == "r=r,"
    inject = "from peft import get_peft_model\nmodel = get_peft_model(model, lora(r=4))"
    found = port(sft_script(before, between=inject))
    assert [lines(found, "LoraConfig.r")[0], "rt.apply_peft(" in lines(found, "LoraConfig.r")[1]] == ["r=r,", True]


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


def test_a_mask_of_generate_that_numpy_makes_has_its_line() -> None:
    after = "trainer.train()\nids = tokenizer('a', return_tensors='pt')['input_ids']\n"
    after += "print(model.generate(\n    input_ids=ids,\n    attention_mask=torch.ones_like(ids),\n))"
    found = port(sft_script("import torch\ntokenizer = AutoTokenizer.from_pretrained('a/b')", after=after))
    assert lines(found, "generate.attention_mask") == ["attention_mask=np.ones_like(ids),"]


def test_how_a_saved_adapter_is_held_stands_where_it_is_loaded() -> None:
    between = "model = PeftModel.from_pretrained(model, 'a/b', is_trainable=True, autocast_adapter_dtype=False)"
    found = port(sft_script(imports="from peft import PeftModel", between=between))
    assert "rt.apply_adapter(" in lines(found, "PeftModel.autocast_adapter_dtype")[0]


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


def test_code_from_the_hub_has_its_line_in_each_branch_that_loads() -> None:
    load = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=DTYPE, trust_remote_code=TRUST)'
    text = f"""import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

def main(half, TRUST):
    if half:
        model = {load.replace("DTYPE", "torch.bfloat16")}
    else:
        model = {load.replace("DTYPE", "torch.float32")}
    trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=load_dataset("a/b", split="train"))
    trainer.train()
"""
    found = port(text)
    lines = found.after.splitlines()
    rows = [row for row in found.recipe.fields if row.source.endswith("trust_remote_code")]
    assert [row.fate for row in rows] == ["changed", "changed"]
    assert all("rt.load_model" in lines[place.line - 1] for row in rows for place in row.places)
    assert rows[0].places != rows[1].places


@pytest.mark.parametrize("path", ["train", "train.txt", "jobs.d/train.toml", "./train.py"])
def test_receipts_do_not_depend_on_the_name_of_the_script(path: str) -> None:
    text = sft_script().encode()
    plain, named = (port_module(parse_module(text, name), Options()) for name in ("train.py", path))
    assert named.fields == plain.fields and named.findings == plain.findings and named.status == "ported"


@pytest.mark.parametrize(("keywords", "said"), [("save_steps=5", True), ("save_strategy='no'", False)])
def test_a_folder_with_checkpoints_that_ends_a_run_anew_is_said(keywords: str, said: bool) -> None:
    (row,) = [row for row in port(sft_script(config=f", {keywords}")).fields if row.source == "SFTConfig.output_dir"]
    assert row.fate == "exact" and ("finds checkpoints there ends" in row.reason) is said
