"""The optimizer and the schedule that the port writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..engine.porting import PLAIN, port
from ..engine.test_dating_by_commits import committed


def after(settings: str, trainer: str = "") -> str:
    text = PLAIN.replace("SFTConfig('out')", f"SFTConfig('out', {settings})")
    return port(text.replace("train_dataset=rows", f"train_dataset=rows{trainer}")).after


@pytest.mark.parametrize(
    ("settings", "schedule"),
    [
        ("", "optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate"),
        ("learning_rate=1e-4, lr_scheduler_type='constant', warmup_steps=9", "optax.constant_schedule(1e-4)"),
        ("learning_rate=1e-4, lr_scheduler_type='cosine'", "optax.cosine_decay_schedule(1e-4, batches.steps)"),
        ("learning_rate=1e-4, lr_scheduler_type='constant_with_warmup'", "optax.constant_schedule(1e-4)"),
        (
            "learning_rate=1e-4, lr_scheduler_type='cosine', warmup_steps=7",
            "optax.warmup_cosine_decay_schedule(0.0, 1e-4, warmup_steps=7, decay_steps=max(batches.steps, 8))",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type='cosine', warmup_steps=7, max_steps=9",
            "optax.warmup_cosine_decay_schedule(0.0, 1e-4, warmup_steps=7, decay_steps=batches.steps)",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type='cosine', warmup_ratio=0.03",  # a run of one step warms up alone
            "optax.warmup_cosine_decay_schedule(\n    0.0, 1e-4, warmup_steps=warmup_steps, "
            "decay_steps=max(batches.steps, warmup_steps + 1)\n)",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type='cosine', warmup_ratio=0.03, max_steps=9",
            "optax.warmup_cosine_decay_schedule(0.0, 1e-4, warmup_steps=warmup_steps, decay_steps=batches.steps)",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type='cosine', warmup_ratio=0.03, max_steps=1",
            "optax.warmup_cosine_decay_schedule(\n    0.0, 1e-4, warmup_steps=warmup_steps, "
            "decay_steps=max(batches.steps, warmup_steps + 1)\n)",
        ),
        (
            "learning_rate=f.lr, warmup_steps=7, lr_scheduler_type='constant_with_warmup'",
            "optax.join_schedules([optax.linear_schedule(0.0, f.lr, 7), optax.constant_schedule(f.lr)], [7])",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type=flags.kind",
            "rt.hf_schedule(flags.kind, 1e-4, steps=batches.steps)",
        ),
        (
            "learning_rate=1e-4, lr_scheduler_type='polynomial', lr_scheduler_kwargs={'power': 2}, warmup_steps=0.1",
            'rt.hf_schedule("polynomial", 1e-4, warmup_steps=0.1, steps=batches.steps, kwargs=',
        ),
    ],
)
def test_schedules(settings: str, schedule: str) -> None:
    assert f"schedule = {schedule}" in after(settings).replace("'polynomial'", '"polynomial"')


@pytest.mark.parametrize(
    ("release", "name", "schedule"),
    [
        ("0.15.2", "polynomial", "rt.hf_schedule('polynomial', 1e-4, warmup_ratio=1, steps=batches.steps)"),
        ("1.16.0", "polynomial", "rt.hf_schedule('polynomial', 1e-4, warmup_steps=1, steps=batches.steps)"),
        ("0.15.2", "cosine", "warmup_steps = math.ceil(1 * batches.steps)"),
        ("1.16.0", "cosine", "0.0, 1e-4, warmup_steps=1, decay_steps=max(batches.steps, 2))"),
    ],
)
def test_a_ratio_of_one_is_all_steps_before_transformers_5_and_one_from_there_on(
    release: str, name: str, schedule: str
) -> None:
    settings = f"learning_rate=1e-4, lr_scheduler_type='{name}', warmup_ratio=1"
    text = PLAIN.replace("SFTConfig('out')", f"SFTConfig('out', {settings})")
    assert schedule in port(text, source_trl=release).after


def test_a_ratio_of_warmup_is_calculated_once() -> None:
    written = after("warmup_ratio=0.03")
    assert "import math\n" in written and written.count("math.ceil(0.03 * batches.steps)") == 1
    assert "batches.steps - warmup_steps" in written


@pytest.mark.parametrize(
    ("settings", "optimizer"),
    [
        ("", "optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)"),
        ("adam_beta2=0.95, adam_epsilon=1e-6", "optax.adamw(schedule, b1=0.9, b2=0.95, eps=1e-6, weight_decay=0.0)"),
        ("optim='adafactor'", 'rt.hf_optimizer("adafactor", schedule'),
        ("optim=flags.name", "rt.hf_optimizer(flags.name, schedule"),
        ("optim='adamw_torch_fused'", "optax.adamw(schedule"),
    ],
)
def test_optimizers(settings: str, optimizer: str) -> None:
    assert optimizer in after(settings)


@pytest.mark.parametrize(
    ("transformers", "name", "reads"),
    [
        ("4.51.3", "'sgd'", False),
        ("5.2.0", "'rmsprop'", False),
        ("5.2.0", "'adagrad'", False),
        ("5.3.0", "'sgd'", True),
        ("5.3.0", "flags.name", True),
        ("5.3.0", "'adamw_torch'", False),
        ("5.3.0", "'adafactor'", False),
    ],
)
def test_arguments_that_a_release_gives_no_optimizer(transformers: str, name: str, reads: bool) -> None:
    text = f"# pip install transformers=={transformers}\n"
    settings = f"optim={name}, optim_args='momentum=0.9'"
    ported = port(text + PLAIN.replace("SFTConfig('out')", f"SFTConfig('out', {settings})"))
    (row,) = (row for row in ported.fields if row.source.endswith(".optim_args"))
    assert (row.fate, "momentum=0.9" in ported.after) == (("exact", True) if reads else ("dropped", False))


def test_arguments_of_an_optimizer_that_only_the_run_knows_go_with_the_release() -> None:
    script = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', optim=flags.name, optim_args='momentum=0.9')")
    ported = port(f"# pip install transformers==5.2.0\n{script}")
    assert 'args="momentum=0.9"' in ported.after.replace("'", '"') and 'transformers="5.2.0"' in ported.after
    (row,) = (row for row in ported.fields if row.source.endswith(".optim_args"))
    assert row.fate == "exact" and "where the run asks for one of them" in row.reason
    assert (
        "transformers=" not in port(f"# pip install transformers==5.3.0\n{script}").after.partition("hf_optimizer")[2]
    )


def test_decay_spares_norms_and_biases_of_a_whole_model_only() -> None:
    assert "mask=rt.decay_mask,  # not on norms and biases" in after("weight_decay=0.1")
    lora = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', weight_decay=0.1)").replace(
        "train_dataset=rows", "train_dataset=rows, peft_config=LoraConfig(r=8)"
    )
    assert "decay_mask" not in port("from peft import LoraConfig\n" + lora).after


@pytest.mark.parametrize(("norm", "there"), [("0", False), ("0.0", False), ("None", False), ("0.3", True)])
def test_clipping(norm: str, there: bool) -> None:
    assert ("optax.clip_by_global_norm" in after(f"max_grad_norm={norm}")) is there


def test_clipping_that_only_the_script_knows() -> None:
    assert "rt.clip_by_global_norm(flags.limit)" in after("max_grad_norm=flags.limit")


def test_adapters_that_a_branch_puts_in_are_parted_too() -> None:
    before = """import sys
from datasets import load_dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
if len(sys.argv) > 2:
    model = PeftModel.from_pretrained(model, sys.argv[2], is_trainable=True)
else:
    model = get_peft_model(model, LoraConfig(r=8))
args = SFTConfig("out", learning_rate=float(sys.argv[3]))
trainer = SFTTrainer(model, args=args, train_dataset=load_dataset("x", split="train"))
trainer.train()
"""
    assert "rt.separate_kv(model)," in port(before).after


@pytest.mark.parametrize(
    ("keyword", "value", "wanted"),
    [
        ("warmup_steps", "()", "float"),
        ("warmup_steps", "'0.1'", "float"),
        ("learning_rate", "[1e-4]", "float"),
        ("max_steps", "{}", "int"),
        ("output_dir", "b'out'", "str | None"),
    ],
)
def test_a_value_of_another_kind_is_an_error(keyword: str, value: str, wanted: str) -> None:
    ported = port(PLAIN.replace("SFTConfig('out')", f"SFTConfig({keyword}={value})"))
    (said,) = (finding.message for finding in ported.findings if finding.severity == "error")
    assert said == f"SFTConfig.{keyword}={value}: the release wants {wanted} here." and ported.status == "partial"


@pytest.mark.parametrize(
    ("transformers", "settings", "scaled"),
    [
        ("5.2.0", "gradient_accumulation_steps=8", "1 / 8"),
        ("5.5.4", "gradient_accumulation_steps=f.steps or 2", "1 / (f.steps or 2)"),
        ("5.5.4", "gradient_accumulation_steps=1", ""),
        ("5.2.0", "gradient_accumulation_steps=8, deepspeed={'zero_optimization': {'stage': 2}}", ""),
        ("5.1.0", "gradient_accumulation_steps=8", ""),
        ("5.6.0", "gradient_accumulation_steps=8", ""),
    ],
)
def test_gradients_that_a_release_divided_twice(transformers: str, settings: str, scaled: str) -> None:
    text = f"# pip install trl==0.28.0 transformers=={transformers}\n"
    text += PLAIN.replace("SFTConfig('out')", f"SFTConfig('out', {settings})")
    ported = port(text)
    said = [finding for finding in ported.findings if "divides an accumulated gradient" in finding.message]
    assert not scaled or (
        f"optax.scale({scaled})" in ported.after and f"# transformers {transformers} divides" in ported.after
    )
    assert bool(said) == bool(scaled) and all(finding.severity == "info" for finding in said)
    assert ("optax.scale" in ported.after) == bool(scaled)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("SFTConfig('out', gradient_accumulation_steps=8, label_smoothing_factor=0.1)", "steps once, and so"),
        ("SFTConfig('out', gradient_accumulation_steps=8, label_smoothing_factor=0.0)", "steps twice, and so"),
        ("TrlParser(SFTConfig).parse_args_and_config()[0]", "twice, that of a smoothed loss once, but under DeepSpeed"),
        ("made(gradient_accumulation_steps=8)", "steps twice, and so"),
    ],
)
def test_what_such_a_release_divides_twice_is_said_as_it_was(settings: str, said: str) -> None:
    text = "# pip install trl==0.28.0 transformers==5.3.0\n" + PLAIN
    parser = "TrlParser, " if "TrlParser" in settings else ""
    text = text.replace("\ntrainer = ", "\ndef made(**given):\n    return SFTConfig('out', **given)\n\ntrainer = ")
    found = port(
        text.replace("args=SFTConfig('out')", f"args={settings}").replace("import SFTC", f"import {parser}SFTC")
    )
    [message] = [each.message for each in found.findings if "divides an accumulated gradient" in each.message]
    assert said in message


@pytest.mark.parametrize(
    ("model", "releases", "steps", "scaled"),
    [
        ("mistralai/Mistral-7B-v0.1", "trl==0.12.2 transformers==4.46.3", 4, True),
        ("mistralai/Mistral-7B-v0.1", "trl==0.13.0 transformers==4.47.1", 4, True),
        ("mistralai/Mistral-7B-v0.1", "trl==0.12.2 transformers==4.46.3", 1, False),
        ("mistralai/Mistral-7B-v0.1", "trl==0.14.0 transformers==4.48.3", 4, False),
        ("Qwen/Qwen2.5-0.5B", "trl==0.12.2 transformers==4.46.3", 4, False),
        ("Qwen/Qwen2.5-0.5B", "trl==0.13.0 transformers==4.47.0", 4, True),
        ("Qwen/Qwen2.5-0.5B", "trl==0.13.0 transformers==4.48.0", 4, True),
    ],
)
def test_gradients_that_a_release_did_not_divide(model: str, releases: str, steps: int, scaled: bool) -> None:
    """A class that takes no number of tokens, before the Trainer divided for it."""
    text = f"# pip install {releases}\n" + PLAIN.replace("Qwen/Qwen3-0.6B", model)
    ported = port(text.replace("SFTConfig('out')", f"SFTConfig('out', gradient_accumulation_steps={steps})"))
    said = [finding for finding in ported.findings if "divides no accumulated gradient" in finding.message]
    assert ("optax.scale(4)" in ported.after) == bool(said) == scaled
    assert all("log lines have the sum of a step's losses" in finding.message for finding in said)


@pytest.mark.parametrize(
    ("releases", "sums"),
    [
        ("trl==0.13.0 transformers==4.47.1", [False]),
        ("trl==0.14.0 transformers==4.48.0", []),
        ("trl==0.15.2 transformers==4.49.0", [True]),
    ],
)
def test_a_loss_that_is_logged_as_a_sum_is_said(releases: str, sums: list[bool]) -> None:
    """ORPOTrainer's before TRL 0.20: transformers 4.48.1 divides what it logs no more than the gradient."""
    text = f"# pip install {releases}\n" + PLAIN.replace("SFT", "ORPO").replace("Qwen3", "Qwen2.5")
    ported = port(text.replace("ORPOConfig('out')", "ORPOConfig('out', gradient_accumulation_steps=4)"))
    said = [each.message for each in ported.findings if "divides no accumulated gradient" in each.message]
    assert ["log lines have the sum of a step's losses" in each for each in said] == sums
    assert ("optax.scale(4)" in ported.after) == bool(sums)


@pytest.mark.parametrize(
    ("releases", "asked"),
    [
        ("trl==0.12.2 transformers==4.46.3", "4.46.3"),
        ("trl==0.13.0 transformers==4.47.1", "4.47.1"),
        ("trl==0.14.0 transformers==4.48.3", ""),
    ],
)
def test_a_model_that_only_the_script_knows_may_be_mistral(releases: str, asked: str) -> None:
    text = f"# pip install {releases}\nimport sys\n" + PLAIN.replace("'Qwen/Qwen3-0.6B'", "sys.argv[1]")
    ported = port(text.replace("SFTConfig('out')", "SFTConfig('out', gradient_accumulation_steps=4)"))
    written, said = ported.after, "log lines of Mistral's have the sum of a step's losses"
    assert "sys.argv[1]" in written and any(said in each.message for each in ported.findings) == bool(asked)
    assert (f'mean_over=rt.mean_over(model, "{asked}"),  # by micro-batch for Mistral alone' in written) == bool(asked)
    assert (f'optax.scale(rt.undivided(model, 4, "{asked}"))' in written) == bool(asked)


OBJECT = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import sys

{args}
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1")
trainer = Trainer(model, args, train_dataset=load_dataset("some/rows", split="train"))
trainer.train()
"""


@pytest.mark.parametrize(
    ("args", "factor"),
    [
        (
            "args = TrainingArguments('out', gradient_accumulation_steps=4, save_strategy=sys.argv[1])",
            "args.gradient_accumulation_steps",
        ),
        (
            "import transformers\n"
            "(args,) = transformers.HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()",
            "1 if args.deepspeed else args.gradient_accumulation_steps",
        ),
    ],
)
def test_a_kept_object_is_asked_for_deepspeed_where_it_may_name_it(args: str, factor: str) -> None:
    text = "# pip install transformers==4.46.3\n" + OBJECT.replace("{args}", args)
    assert f"optax.scale({factor})" in port(text).after


PAIRS = """from datasets import load_dataset
from trl import DPOConfig, DPOTrainer, ORPOConfig, ORPOTrainer

rows = load_dataset("mine/pairs", split="train")
args = DPOConfig("out", gradient_accumulation_steps=4)
trainer = DPOTrainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("name", "releases", "scaled"),
    [
        ("DPO", "trl==0.12.2 transformers==4.46.3", True),
        ("DPO", "trl==0.13.0 transformers==4.48.3", True),
        ("DPO", "trl==0.14.0 transformers==4.47.1", True),
        ("DPO", "trl==0.14.0 transformers==4.48.3", False),
        ("DPO", "trl==0.11.4 transformers==4.45.2", False),
        ("ORPO", "trl==0.19.1 transformers==4.52.4", True),
        ("ORPO", "trl==0.19.1 transformers==4.53.3", False),
        ("ORPO", "trl==0.20.0 transformers==4.52.4", False),
    ],
)
def test_gradients_of_preferences_that_a_release_did_not_divide(name: str, releases: str, scaled: bool) -> None:
    """Their batches have no labels, whose tokens would be counted."""
    text = PAIRS.replace(" DPOConfig, DPOTrainer, ORPOConfig, ORPOTrainer", f" {name}Config, {name}Trainer")
    ported = port(
        f"# pip install {releases}\n"
        + text.replace("DPOConfig", f"{name}Config").replace("DPOTrainer", f"{name}Trainer")
    )
    assert ("optax.scale(4)" in ported.after) == scaled, ported.after


@pytest.mark.parametrize(
    ("loaded", "settings", "fused"),
    [
        (", dtype=torch.bfloat16", "", True),  # the default
        (", dtype=torch.bfloat16", ", optim='adamw_torch_fused'", True),
        (", dtype=torch.bfloat16", ", optim='adamw_torch'", False),
        (", dtype=torch.float32", "", False),
        ("", "", True),  # what the checkpoint says
        ("torch==2.7.1", "", False),
        ("torch==2.7.1", ", optim='adamw_torch_fused'", True),
        ("torch==2.8.0", "", True),
        ("'torch<2.8'", "", False),
        ("'torch>=2.1'", "", True),
        ("torch==2.8.0 trl==0.20.0 transformers==4.54.1", "", True),
        ("torch==2.8.0 trl==0.19.1 transformers==4.53.3", "", False),
    ],
)
def test_weights_of_fewer_bits_get_the_fused_kernels_steps(loaded: str, settings: str, fused: bool) -> None:
    pin, loaded = (
        (f"# pip install {loaded}\n", ", torch_dtype=torch.bfloat16") if "torch" in loaded[:6] else ("", loaded)
    )
    text = (
        f"{pin}import torch\nfrom datasets import load_dataset\nfrom transformers import AutoModelForCausalLM\n"
        "from trl import SFTConfig, SFTTrainer\n"
        f"model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B'{loaded})\n"
        "rows = load_dataset('x', split='train')\n"
        f"SFTTrainer(model=model, args=SFTConfig('out'{settings}), train_dataset=rows).train()\n"
    )
    assert ("rt.fused(optax.adamw(" in port(text).after) is fused


@pytest.mark.parametrize(("day", "fused"), [("2025-08-01", False), ("2025-08-20", True)])
def test_a_script_older_than_torch_2_8_was_not_run_beside_it(tmp_path: Path, day: str, fused: bool) -> None:
    text = (
        "import torch\nfrom datasets import load_dataset\nfrom transformers import AutoModelForCausalLM\n"
        "from trl import SFTConfig, SFTTrainer\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', torch_dtype=torch.bfloat16)\n"
        "rows = load_dataset('x', split='train')\n"
        "SFTTrainer(model=model, args=SFTConfig('out'), train_dataset=rows).train()\n"
    )
    script = committed(tmp_path, day, text, requirements_txt="transformers==4.54.1\n")
    assert ("rt.fused(optax.adamw(" in port_file(script).after) is fused
