"""GRPO under Unsloth: the order of the prompts, the batch that it raises, and its own loss."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port
from .unsloth_scripts import script


def test_grpos_prompts_come_in_the_order_of_seed() -> None:
    text = script("'out', seed=1").replace("SFT", "GRPO").replace("GRPOTrainer(model", "GRPOTrainer(model, len")
    assert "seed=1," in port(text).after and "data_seed" not in port(text).after


@pytest.mark.parametrize(
    ("rows", "more", "asks"),
    [
        ("CFG['rows']", "", True),
        ("1", "", False),
        ("CFG['rows']", ", steps_per_generation=2", False),
        ("CFG['rows']", ", steps_per_generation=CFG['steps']", True),
    ],
)
def test_grpos_batch_is_raised_when_it_runs(rows: str, more: str, asks: bool) -> None:
    text = f"""from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer
import yaml
CFG = yaml.safe_load(open("config.yaml"))
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=64, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
args = GRPOConfig("out", per_device_train_batch_size={rows}, num_generations=4, max_steps=2{more})
trainer = GRPOTrainer(model, args=args, reward_funcs=[len], train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
    assert ('raise_batch_size="step"' in port(text).after) == asks
    assert (
        "raise_batch_size"
        in port(
            text.replace(
                "from unsloth import FastLanguageModel\nfrom trl import GRPOConfig, GRPOTrainer",
                "from trl import GRPOConfig, GRPOTrainer\nfrom unsloth import FastLanguageModel",
            )
        ).after
    ) is False


def test_grpos_batch_is_raised_to_its_generations() -> None:
    text = """\
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
args = GRPOConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=4, max_steps=2)
GRPOTrainer(model, reward_funcs=len, args=args, train_dataset=rows, processing_class=tokenizer).train()
"""
    text = text.replace("GRPOTrainer(model", "trainer = GRPOTrainer(model").replace(".train()", "\ntrainer.train()")
    check_becomes(text, "batch_size=4,  # Unsloth raises it to num_generations", 'rt.PolicyLoss("bnpo", beta=0.001')
    whole = text.replace("gradient_accumulation_steps=1", "gradient_accumulation_steps=4")
    check_becomes(whole, "batch_size=1,")
    for release, by in (("2025.11.4", "batch_size=1,"), ("2025.11.3", "batch_size=4,  # Unsloth raises it")):
        pins = f"# pip install unsloth=={release} trl==0.23.0 transformers==4.57.1\n"
        assert by in port(pins + whole).after
    asks = whole.replace("device_train_batch_size=1", "device_train_batch_size=int(input())")
    assert 'raise_batch_size="micro_step"' in port(pins + asks).after


@pytest.mark.parametrize(
    ("pinned", "order", "undivided"),
    [
        ("2025.6.1 trl==0.17.0", "unsloth trl", True),
        ("2025.6.4 trl==0.17.0", "unsloth trl", True),
        ("2025.6.5 trl==0.17.0", "unsloth trl", False),
        ("2025.6.1 trl==0.17.0", "trl unsloth", False),
        ("2025.6.1 trl==0.15.2", "trl unsloth", True),
    ],
)
def test_grpos_loss_is_divided_as_unsloth_does(pinned: str, order: str, undivided: bool) -> None:
    imports = {"unsloth": "from unsloth import FastLanguageModel\n", "trl": "from trl import GRPOConfig, GRPOTrainer\n"}
    text = f"""# pip install unsloth=={pinned}
{"".join(imports[name] for name in order.split())}
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
args = GRPOConfig("out", per_device_train_batch_size=4, num_generations=4, max_steps=2, temperature=0.7)
trainer = GRPOTrainer(model, args=args, reward_funcs=[len], train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
    assert ("loss_temperature=1.0" in port(text).after) is undivided


@pytest.mark.parametrize(("unsloth", "kind"), [("2025.5.6", "grpo"), ("2025.6.1", "bnpo")])
def test_its_own_loss_of_grpo_took_each_completions_mean(unsloth: str, kind: str) -> None:
    script = f"""# pip install unsloth=={unsloth} trl==0.16.1
from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen2.5-0.5B", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
args = GRPOConfig("out")
trainer = GRPOTrainer(
    model=model,
    reward_funcs=lambda completions, **kwargs: [0.0 for _ in completions],
    args=args,
    train_dataset=load_dataset("some/rows", split="train"),
)
trainer.train()
"""
    assert f'rt.PolicyLoss("{kind}"' in port(script).after, port(script).after
