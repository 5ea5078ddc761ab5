"""A model's configuration, its embedding's rows, and functions that give it back, as older scripts have them."""

import pytest

from .porting import check_becomes, port

HEAD = """import math
import transformers
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, HfArgumentParser
from trl import SFTConfig, SFTTrainer
"""
ARGS = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--qlora", action="store_true")
parser.add_argument("--lora", action="store_true")
parser.add_argument("--length", type=int, default=512)
args = parser.parse_args()
"""
NAME = '"Qwen/Qwen3-0.6B"'
TOKENIZER = f"tokenizer = AutoTokenizer.from_pretrained({NAME})\n"
TRAIN = """trainer = SFTTrainer(model, args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"), processing_class=tokenizer)
trainer.train()
"""
ONE = f"model = AutoModelForCausalLM.from_pretrained({NAME}, dtype='bfloat16')\n"
TWO = f"""if args.qlora:
    bits = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained({NAME}, quantization_config=bits)
    model = prepare_model_for_kbit_training(model)
else:
    model = AutoModelForCausalLM.from_pretrained({NAME}, dtype='bfloat16')
"""
WRAP = """if args.lora:
    model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
"""


@pytest.mark.parametrize("load", [ONE, TWO])
@pytest.mark.parametrize("given", ["model", "model, tokenizer"])
def test_a_function_loads_by_branch_and_puts_adapters_in_by_condition(load: str, given: str) -> None:
    body = "".join(f"    {line}\n" for line in (load + WRAP).splitlines())
    text = f"{HEAD}{ARGS}{TOKENIZER}def make():\n{body}    return {given}\n{given} = make()\n{TRAIN}"
    inner = 'model = rt.apply_peft(model, LoraConfig(r=8, target_modules="all-linear"), mesh, seed=42)'
    check_becomes(text, f"    if args.lora:\n        {inner}\n", "rt.load_model(", gone=("get_peft_model",))


def with_config(
    told: str, config: str = f"config = AutoConfig.from_pretrained({NAME}, trust_remote_code=True)\n"
) -> str:
    model = f"model = AutoModelForCausalLM.from_pretrained({NAME}, config=config, dtype='bfloat16')\n"
    return HEAD + ARGS + TOKENIZER + config + told + model + TRAIN


def test_a_configuration_that_changes_nothing_goes() -> None:
    for told in ("use_cache", "model_parallel", "is_parallelizable"):
        check_becomes(with_config(f"config.{told} = False\n"), gone=("config", "AutoConfig"))
        check_becomes(with_config(f"setattr(config, '{told}', False)\n"), gone=("config", "AutoConfig"))
    read = check_becomes(with_config("context = getattr(config, 'max_position_embeddings', None)\n"), "AutoConfig")
    assert "config=config" not in read.after


def test_a_configuration_changed_by_condition_stops_the_port_there() -> None:
    scaled = """context = config.max_position_embeddings
if args.length > context:
    config.rope_scaling = {"type": "linear", "factor": float(math.ceil(args.length / context))}
"""
    stop = "if args.length > context:\n    raise ValueError(\"this would change the model's configuration"
    found = check_becomes(with_config(scaled), stop, gone=("rope_scaling",))
    assert any("config.rope_scaling" in f.message and f.severity == "warning" for f in found.recipe.findings)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("config.num_hidden_layers = 4\n", "num_hidden_layers = 4 changes the model"),
        ("config.update({'rope_theta': 1e6})\n", "changes the model"),
        ("shrink(config)\n", "may change it"),
        ("setattr(config, 'rope_theta', 1e6)\n", "may change it"),
    ],
)
def test_a_changed_configuration_is_refused_by_what_changes_it(told: str, why: str) -> None:
    found = port(with_config(told))
    assert any(why in f.message and f.severity == "error" for f in found.recipe.findings), found.recipe.findings


def test_another_models_configuration_is_refused() -> None:
    for config in (
        'config = AutoConfig.from_pretrained("Qwen/Qwen3-4B")\n',
        f"config = AutoConfig.from_pretrained({NAME}, rope_theta=1e6)\n",
    ):
        found = port(with_config("", config))
        assert any("AutoModelForCausalLM.config" in f.message and f.severity == "error" for f in found.recipe.findings)


def test_training_from_scratch_ends_the_port_where_it_is_asked_for() -> None:
    text = f"""{HEAD}{ARGS}{TOKENIZER}config = AutoConfig.from_pretrained({NAME})
if args.lora:
    {ONE}else:
    model = AutoModelForCausalLM.from_config(config)
    print(sum({{p.data_ptr(): p.numel() for p in model.parameters()}}.values()))
rows = model.get_input_embeddings().weight.shape[0]
if len(tokenizer) > rows:
    model.resize_token_embeddings(len(tokenizer))
{TRAIN}model = torch.compile(model)
"""
    stop = 'else:\n    raise ValueError("training from scratch is not ported: name a model to start from")\nrows = '
    check_becomes(text, stop, "rows = rt.check_vocabulary(model)\n", gone=("data_ptr", "from_config"))


ALPACA = """def smart_resize(tokenizer, model):
    added = tokenizer.add_special_tokens(dict(pad_token="[PAD]"))
    model.resize_token_embeddings(len(tokenizer))
    if added > 0:
        # the mean of all others
        inputs = model.get_input_embeddings().weight.data
        outputs = model.get_output_embeddings().weight.data

        inputs_mean = inputs[:-added].mean(dim=0, keepdim=True)
        outputs_mean = outputs[:-added].mean(
            dim=0, keepdim=True
        )

        inputs[-added:] = inputs_mean
        outputs[-added:] = outputs_mean
    return added


smart_resize(tokenizer=tokenizer, model=model)
"""


def test_new_rows_are_the_mean_of_the_others() -> None:
    check_becomes(
        HEAD + TOKENIZER + ONE + ALPACA + TRAIN,
        "        # the mean of all others\n        rt.average_new_rows(model, len(tokenizer), added)\n",
        "    return added\n",
        gone=("get_input", "inputs_mean", "outputs"),
    )
    other = ALPACA.replace("outputs[-added:] = outputs_mean", "outputs[-added:] = 2 * outputs_mean")
    assert "get_output_embeddings" in port(HEAD + TOKENIZER + ONE + other + TRAIN).after
