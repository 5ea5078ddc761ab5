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
from porter.port import Options
from porter.recipe import CARRIED, Place, Receipt, Recipe
from porter.source.parsing import parse_module
from porter.target.statements.remarks import unwritten
from porter.text.layout import Arg, Call, render
from porter.text.marks import Marks

from .porting import port, sft_script
from .receipt_lines import SCRIPT, lines, row


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


@pytest.mark.parametrize(
    "chosen",
    ["torch.cuda.is_bf16_supported() if HAS else False", "False if not HAS else True", "True if HAS else OTHER"],
)
def test_a_keyword_of_a_kept_object_that_is_decided_as_on_the_gpu_has_its_line(chosen: str) -> None:
    source = "import sys\nimport torch\nfrom trl import SFTConfig, SFTTrainer\n\n"
    source += f"args = SFTConfig('out', bf16={chosen})\nargs.max_steps = int(sys.argv[1])\n"
    source += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
    found = port(source.replace("HAS", "torch.cuda.is_available()").replace("OTHER", "False if sys.argv[2] else True"))
    own, reader = lines(found, "SFTConfig.bf16")
    assert own == "args = SFTConfig('out', bf16=True)" and "rt.load_arguments(args)" in reader
    assert not [each for each in found.findings if settling.LOST in each.message]


@pytest.mark.parametrize("train", ["trainer.train()", "trainer.train(resume_from_checkpoint=True)"])
@pytest.mark.parametrize("given", ["'out/last'", "True", "sys.argv[1]"])
def test_a_checkpoint_that_a_config_names_is_read_by_no_trainer(given: str, train: str) -> None:
    source = sft_script(imports="import sys", config=f", resume_from_checkpoint={given}")
    found = port(source.replace("trainer.train()", train))
    receipt = row(found, "SFTConfig.resume_from_checkpoint")
    assert receipt.fate == "dropped" and "the Trainer doesn't read it" in receipt.reason
    assert not [each for each in found.findings if settling.LOST in each.message]
    assert ("rt.fresh_dir(" in found.after) is (train == "trainer.train()")


def test_what_no_helper_reads_of_a_kept_object_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import sys\nfrom trl import SFTConfig, SFTTrainer\n\n"
    source += "args = SFTConfig('out', max_length=512)\nargs.max_steps = int(sys.argv[1])\n"
    source += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
    assert row(port(source), "SFTConfig.max_length").fate == "exact"
    less = settling.CONSUMED["SFTBatches.from_args"] - {"max_length"}
    monkeypatch.setitem(settling.CONSUMED, "SFTBatches.from_args", less)
    assert row(port(source), "SFTConfig.max_length").fate == "manual"
    assert [each.severity for each in port(source).findings if settling.LOST in each.message] == ["warning"]


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


def test_adapters_of_a_function_have_its_lines() -> None:
    before = "from peft import LoraConfig\n\n\ndef lora(r=8):\n"
    before += "    return LoraConfig(\n        r=r,\n        target_modules=['q_proj'],\n    )\n\n\n"
    found = port(sft_script(before, trainer=", peft_config=lora(r=4)"))
    assert row(found, "LoraConfig.target_modules").fate in CARRIED
    assert lines(found, "LoraConfig.r")[0] == "r=r,"
    inject = "from peft import get_peft_model\nmodel = get_peft_model(model, lora(r=4))"
    found = port(sft_script(before, between=inject))
    assert [lines(found, "LoraConfig.r")[0], "rt.apply_peft(" in lines(found, "LoraConfig.r")[1]] == ["r=r,", True]


def test_a_mask_of_generate_that_numpy_makes_has_its_line() -> None:
    after = "trainer.train()\nids = tokenizer('a', return_tensors='pt')['input_ids']\n"
    after += "print(model.generate(\n    input_ids=ids,\n    attention_mask=torch.ones_like(ids),\n))"
    found = port(sft_script("import torch\ntokenizer = AutoTokenizer.from_pretrained('a/b')", after=after))
    assert lines(found, "generate.attention_mask") == ["attention_mask=np.ones_like(ids),"]


def test_how_a_saved_adapter_is_held_stands_where_it_is_loaded() -> None:
    between = "model = PeftModel.from_pretrained(model, 'a/b', is_trainable=True, autocast_adapter_dtype=False)"
    found = port(sft_script(imports="from peft import PeftModel", between=between))
    assert "rt.apply_adapter(" in lines(found, "PeftModel.autocast_adapter_dtype")[0]


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


DECIDED = """\
from transformers import TrainerCallback, TrainingArguments
from trl import SFTTrainer
from unsloth import FastLanguageModel, is_bfloat16_supported


class Where(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        print(args.output_dir)


def make(model, tokenizer, rows, out):
    return SFTTrainer(
        model=model,
        tokenizer=tokenizer,
        train_dataset=rows,
        args=TrainingArguments(
            per_device_train_batch_size=1,  # fits
            fp16=not is_bfloat16_supported(),
            bf16=is_bfloat16_supported(),
            learning_rate=1e-4,
            output_dir=out,
        ),
    )


model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
trainer = make(FastLanguageModel.get_peft_model(model), tokenizer, [{"text": "a"}], "out")
trainer.add_callback(Where())
trainer.train()
"""


def test_keywords_of_a_moved_config_whose_values_were_decided_have_their_lines() -> None:
    """`fp16=not is_bfloat16_supported()` is `fp16=False` before the object moves into a statement of its own."""
    found = port(f"# pip install unsloth==2025.8.9\n{DECIDED}")
    assert "    training_args = TrainingArguments(\n" in found.after and "fp16=False" in found.after
    rows = {each.source.rpartition(".")[2]: each for each in found.recipe.fields if "TrainingArguments." in each.source}
    for name in ("per_device_train_batch_size", "fp16", "bf16", "learning_rate", "output_dir"):
        assert rows[name].places[0].text.strip().startswith(f"{name}="), name
    assert not any("no line of the port" in each.message for each in found.findings)
