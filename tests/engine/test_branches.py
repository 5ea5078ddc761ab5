"""Conditional expressions that a port has settled."""

import pytest

from .porting import PLAIN, port

HEAD = "import sys\nimport torch\n"


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16", "jnp.bfloat16"),
        ("torch.bfloat16 if len(sys.argv) else torch.float16", "jnp.bfloat16 if len(sys.argv) else jnp.bfloat16"),
        ("torch.bfloat16 if sys.flags.debug else torch.half", "jnp.bfloat16"),
        ("torch.bfloat16 if sys.flags.debug else torch.float32", "jnp.bfloat16 if sys.flags.debug else jnp.float32"),
        ("torch.bfloat16 if True else torch.float32", "jnp.bfloat16 if True else jnp.float32"),
        ("1 if torch.cuda.is_bf16_supported() else 2", "1"),
        ("1 if not torch.cuda.is_bf16_supported() else 2", "2"),
        ("[not torch.cuda.is_bf16_supported()]", "[False]"),
        ("3 if True else 3", "3 if True else 3"),
    ],
)
def test_a_choice_that_the_port_settles(source: str, becomes: str) -> None:
    found = port(f"{HEAD}chosen = {source}\nsys.argv.append(chosen)\n{PLAIN}")
    assert f"\nchosen = {becomes}\n" in found.after


def test_a_type_that_only_the_loading_used_goes() -> None:
    chosen = "dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16\n"
    loads = "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained("
    name = "'Qwen/Qwen3-0.6B'"
    found = port(f"{HEAD}{chosen}{loads}{name}, torch_dtype=dtype)\n{PLAIN.replace(name, 'model')}")
    assert "dtype=jnp.bfloat16)" in found.after and "\ndtype =" not in found.after


def test_a_model_that_another_scope_loads_twice_has_its_mesh_there() -> None:
    load = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    head, _, tail = PLAIN.partition("trainer = ")
    body = "def main():\n" + "".join(f"    {line}\n" for line in ("trainer = " + tail).splitlines())
    text = f"from transformers import AutoModelForCausalLM\n{head}{load}print()\n{load}{body}main()\n"
    after = port(text.replace("'Qwen/Qwen3-0.6B', args", "model, args")).after
    assert 0 < after.index("\nmesh = ") < after.index("rt.load_model(") and after.count("make_mesh") == 1


def test_the_mesh_of_two_trainers_stands_before_the_first_model_whatever_is_imported_behind_it() -> None:
    load = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    rows, _, made = PLAIN.replace("'Qwen/Qwen3-0.6B'", "model").partition("trainer = ")
    trains = f"trainer = {made}"
    after = port(
        f"from transformers import AutoModelForCausalLM\n{rows}{load}import os\n{trains}import re\n{trains}"
    ).after
    assert 0 < after.index("\nmesh = ") < after.index("rt.load_model(") and after.count("make_mesh") == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_arguments_over_lines_outside_brackets_stand_in_statements_of_the_port(newline: str) -> None:
    given = {
        "model": "NAME",
        "args": "one",
        "train_dataset": "rows",
        "eval_dataset": "rows",
        "peft_config": "LoraConfig(\n        r=8,\n    )",
        "processing_class": "make()",
    }
    either = "".join(f"    {name}={value}\n    if BIG\n    else None,\n" for name, value in given.items())
    head = "from peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\none = SFTConfig('out')\n"
    text = f"{head}trainer = SFTTrainer(\n{either})\ntrainer.train()\n".replace("\n", newline)
    found = port(text)
    after = found.after.replace(newline, "\n")
    assert found.after == after.replace("\n", newline)
    for line in (
        "training_args = one if BIG else None",
        "tokenizer = make() if BIG else None",
        "eval_dataset = rows if BIG else None",
        "peft_config = LoraConfig(\n        r=8,\n    ) if BIG else None",
    ):
        assert f"\n{line}\n" in after


TESTED = """import inspect
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("x", split="train")
if "processing_class" in inspect.signature(SFTTrainer.__init__).parameters:
    print(1)
    trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
    trainer.odd()
else:
    trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_kept_branch_moves_out_with_what_the_port_writes_in_it(newline: str) -> None:
    found = port(TESTED.replace("\n", newline))
    after = found.after.replace(newline, "\n")
    assert "if True" not in after and "\nprint(1)\nbatches = rt.SFTBatches(\n    rows,\n" in after
    assert "\n# TODO(tpu-port TP190): trainer.odd(): " in after and "\ntrainer.odd()\nwith mesh:\n" in after
    gone = [row for row in found.recipe.fields if row.line == 13 and row.source.startswith("SFT")]
    assert {(row.fate, row.reason) for row in gone} == {("dropped", "the branch that it stands in doesn't run")}
    assert not [each for each in found.findings if "no line of the port" in each.message]


KEYWORDS = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("a/b")
kwargs = {"model": "Qwen/Qwen3-0.6B", "args": SFTConfig("out"), "train_dataset": rows["train"]}
FILLED
trainer = SFTTrainer(**kwargs)
trainer.train()
"""
SET = 'kwargs["eval_dataset"] = rows["eval"]\n'


@pytest.mark.parametrize(
    ("filled", "read"),
    [
        (f'if "eval" in rows:\n    {SET}', 'kwargs.get("eval_dataset")'),
        (f'if "eval" in rows:\n    {SET}if len(rows) > 2:\n    {SET}', 'kwargs.get("eval_dataset")'),
        (f'{SET}if len(rows) > 2:\n    kwargs["eval_dataset"] = rows["test"]\n', 'kwargs["eval_dataset"]'),
        (f'if "eval" in rows:\n    {SET}{SET}', 'rows["eval"]'),
    ],
)
def test_a_keyword_is_there_for_certain_or_is_asked_for(filled: str, read: str) -> None:
    assert f"eval_dataset = {read}\n" in port(KEYWORDS.replace("FILLED", filled)).after.replace(
        "eval_rows", "eval_dataset"
    )


LOADED = """\
import sys
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

try:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"]))
except OSError as error:
    print(error)
    {end}
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""


@pytest.mark.parametrize("end", ["raise", "raise RuntimeError from error", "sys.exit(1)", "exit()"])
def test_what_a_try_makes_is_there_when_its_handlers_end_the_run(end: str) -> None:
    found = port(LOADED.replace("{end}", end))
    assert found.status == "ported", found.findings
    assert "rank=8" in found.after and "apply_peft" not in found.after


@pytest.mark.parametrize("end", ["model = None", "print(1)", "sys.stdout.flush()"])
def test_a_handler_that_goes_on_leaves_it_open(end: str) -> None:
    assert "rank=8" not in port(LOADED.replace("{end}", end)).after


def test_a_model_that_is_handed_in_is_made_in_no_branch() -> None:
    text = (
        "from peft import LoraConfig, get_peft_model\nfrom transformers import Trainer, TrainingArguments\n\n"
        "def train(model, rows):\n    model = get_peft_model(model, LoraConfig(r=8, target_modules=['q_proj']))\n"
        "    trainer = Trainer(model=model, args=TrainingArguments('out'), train_dataset=rows)\n    trainer.train()\n"
    )
    said = [each.message for each in port(text).findings if each.severity == "error"]
    assert said == ["model: where this model comes from is not a from_pretrained call in this file."]


BY_DEVICE = """import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

if torch.cuda.is_available():
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", quantization_config=config)
else:
    OTHER
    model = AutoModelForCausalLM.from_pretrained(
        "Qwen/Qwen3-0.6B",
        dtype=torch.float32,
        low_cpu_mem_usage=True,
    )
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, peft_config=LoraConfig(r=8))
trainer.train()
"""


@pytest.mark.parametrize("other", ["# slow", 'print("no GPU")', "config = None"])
def test_a_load_on_a_machine_without_a_gpu_goes_with_its_branch(other: str) -> None:
    found = port(BY_DEVICE.replace("OTHER", other))
    assert found.after.count("rt.load_model(") == 1 and "else:" not in found.after
    gone = [row for row in found.fields if row.line > 10 and row.source.startswith("AutoModelForCausalLM.")]
    assert len(gone) == 3 and {row.fate for row in gone} == {"dropped"}
    assert "the branch that it stands in doesn't run" in {row.reason for row in gone}
    assert not [each for each in found.findings if each.severity != "info"]
