"""GRPO under Unsloth: the order of the prompts, the batch that it raises, and its own loss."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port
from .unsloth_scripts import script

UNSLOTH, TRL = "from unsloth import FastLanguageModel\n", "from trl import GRPOConfig, GRPOTrainer\n"
ADAPTED = "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'])\n"


def grpo(config: str, *, pins: str = "", imports: str = UNSLOTH + TRL, adapted: str = ADAPTED) -> str:
    """A GRPO script of these keywords of its config, which was installed with these pins."""
    return f"""\
{f"# pip install {pins}" if pins else ""}
{imports}
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
{adapted}args = GRPOConfig("out", max_steps=2, num_generations=4, {config})
trainer = GRPOTrainer(model, args=args, reward_funcs=[len], train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


def test_grpos_prompts_come_in_the_order_of_seed() -> None:
    text = script("'out', seed=1").replace("SFT", "GRPO").replace("GRPOTrainer(model", "GRPOTrainer(model, len")
    assert "seed=1," in port(text).after and "data_seed" not in port(text).after


@pytest.mark.parametrize(
    ("rows", "more", "asks"),
    [
        ("CFG['rows']", "", True),
        ("1", "", False),
        ("CFG['rows']", "steps_per_generation=2", False),
        ("CFG['rows']", "steps_per_generation=CFG['steps']", True),
    ],
)
def test_grpos_batch_is_raised_when_it_runs(rows: str, more: str, asks: bool) -> None:
    config, settings = f"per_device_train_batch_size={rows}, {more}", "import json\nCFG = json.load(open('run.json'))\n"
    assert ('raise_batch_size="step"' in port(grpo(config, imports=UNSLOTH + TRL + settings)).after) == asks
    assert "raise_batch_size" not in port(grpo(config, imports=TRL + UNSLOTH + settings)).after


def test_grpos_batch_is_raised_to_its_generations() -> None:
    one, whole = (
        f"per_device_train_batch_size=1, gradient_accumulation_steps={accumulation}" for accumulation in (1, 4)
    )
    raised = "batch_size=4,  # Unsloth raises it to num_generations"
    check_becomes(grpo(one, adapted=""), raised, 'rt.PolicyLoss("bnpo", beta=0.001')
    check_becomes(grpo(whole, adapted=""), "batch_size=1,")
    for release, by in (("2025.11.4", "batch_size=1,"), ("2025.11.3", raised)):
        pins = f"unsloth=={release} trl==0.23.0 transformers==4.57.1"
        assert by in port(grpo(whole, pins=pins)).after
    asks = whole.replace("batch_size=1", "batch_size=int(input())")
    assert 'raise_batch_size="micro_step"' in port(grpo(asks, pins=pins)).after


@pytest.mark.parametrize(
    ("pins", "imports", "undivided"),
    [
        ("unsloth==2025.6.1 trl==0.17.0", UNSLOTH + TRL, True),
        ("unsloth==2025.6.4 trl==0.17.0", UNSLOTH + TRL, True),
        ("unsloth==2025.6.5 trl==0.17.0", UNSLOTH + TRL, False),
        ("unsloth==2025.6.1 trl==0.17.0", TRL + UNSLOTH, False),
        ("unsloth==2025.6.1 trl==0.15.2", TRL + UNSLOTH, True),
    ],
)
def test_grpos_loss_is_divided_as_unsloth_does(pins: str, imports: str, undivided: bool) -> None:
    text = grpo("per_device_train_batch_size=4, temperature=0.7", pins=pins, imports=imports)
    assert ("loss_temperature=1.0" in port(text).after) is undivided


@pytest.mark.parametrize(("unsloth", "kind"), [("2025.5.6", "grpo"), ("2025.6.1", "bnpo")])
def test_its_own_loss_of_grpo_took_each_completions_mean(unsloth: str, kind: str) -> None:
    after = port(grpo("", pins=f"unsloth=={unsloth} trl==0.16.1")).after
    assert f'rt.PolicyLoss("{kind}"' in after, after
