"""GRPO under Unsloth: the order of the prompts, the batch that it raises, and its own loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import check_becomes, errors, port
from .test_dating_by_commits import committed
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
    found = port(grpo("loss_type='bnpo'", pins=f"unsloth=={unsloth} trl==0.17.0"))
    [row] = [row for row in found.fields if row.source.endswith(".loss_type")]
    assert (row.fate == "dropped" and "takes each completion's mean" in row.reason) is (kind == "grpo")


APART = {
    "2025.8.6": "loss_parts=-1,  # each row's loss apart, and their mean, as Unsloth's before 2026.2.1",
    "2026.1.4": "loss_parts=-1,",
    "2026.2.1": "",
}


@pytest.mark.parametrize("release", APART)
def test_its_loss_takes_each_row_apart(release: str) -> None:
    found = port(grpo("loss_type='bnpo'", pins=f"unsloth=={release} trl==0.24.0"))
    assert APART[release] in found.after and "bnpo" in found.after
    assert ("loss_parts" in found.after) is bool(APART[release])
    assert any("mean of the rows' own means" in each.message for each in found.findings) is bool(APART[release])
    assert "loss_parts" not in port(grpo("loss_type='dr_grpo'", pins=f"unsloth=={release} trl==0.24.0")).after
    trls = port(grpo("loss_type='bnpo'", pins=f"unsloth=={release} trl==0.24.0", imports=TRL + UNSLOTH)).after
    assert "loss_parts" not in trls  # the class is TRL's own


@pytest.mark.parametrize(("release", "apart"), [("2025.8.6", True), ("2026.2.1", False)])
def test_what_it_takes_apart_is_said_of_settings_that_only_the_run_has(release: str, apart: bool) -> None:
    text = grpo("", pins=f"unsloth=={release} trl==0.22.1")
    start, end = text.index("GRPOConfig("), text.index("\n", text.index("GRPOConfig("))
    found = port(
        f"{text[:start]}GRPOConfig(**json.load(open('run.json'))){text[end:]}".replace("\n", "\nimport json\n", 1)
    )
    said = [each for each in found.findings if "takes the loss of each row of a micro-step apart" in each.message]
    assert [each.fix.partition(" for ")[0] for each in said] == ["Give from_args loss_parts=None"] * apart
    assert not apart or "so does the port (loss_parts=-1 of its batches)" in said[0].message


def test_its_keyword_for_the_parts_counts_where_its_loss_reads_it() -> None:
    pins = "unsloth=={} trl==0.24.0"
    found = port(grpo("unsloth_num_chunks=2", pins=pins.format("2025.12.4")))
    assert "loss_parts=2," in found.after and not errors(found)
    for config, release in (
        ("unsloth_num_chunks=2", "2026.2.1"),
        ("unsloth_num_chunks=2, loss_type='grpo'", "2025.12.4"),
    ):
        found = port(grpo(config, pins=pins.format(release)))
        assert "loss_parts" not in found.after and not errors(found)


@pytest.mark.parametrize(
    ("release", "model", "summed"),
    [
        ("2025.8.6", "FastLanguageModel", True),
        ("2025.10.11", "FastLanguageModel", True),
        ("2025.10.12", "FastLanguageModel", False),
        ("2025.6.5", "FastModel", False),
        ("2025.6.6", "FastModel", True),
    ],
)
def test_its_gradient_of_a_step_is_the_sum_of_micro_steps(release: str, model: str, summed: bool) -> None:
    text = grpo("gradient_accumulation_steps=3", pins=f"unsloth=={release} trl==0.19.1").replace(
        "FastLanguageModel", model
    )
    after = port(text).after
    assert ("optax.scale(3)" in after) is summed and (f"# Unsloth {release} divides no step" in after) is summed
    assert "optax.scale" not in port(text.replace("=3", "=1")).after


@pytest.mark.parametrize(
    ("release", "kind", "beta"),
    [
        ("2025.8.6", "bnpo", ""),
        ("2025.10.12", "dapo", ""),
        ("2025.11.3", "dapo", ""),
        ("2025.11.4", "dapo", "beta=0.02"),
    ],
)
def test_its_config_makes_bnpo_of_dapo_and_takes_its_beta_away(release: str, kind: str, beta: str) -> None:
    found = port(grpo("loss_type='dapo', beta=0.02", pins=f"unsloth=={release} trl==0.22.1"))
    loss = found.after.partition("PolicyLoss(")[2].partition(")")[0]
    assert kind in loss and ("beta=" in loss) is bool(beta) and beta in loss and "epsilon_high=0.28" in loss, loss
    told = {row.source.rpartition(".")[2]: (row.fate, row.reason) for row in found.fields}
    assert told["beta"] == (("exact", "") if beta else ("dropped", f"Unsloth {release} sets it to 0 for dapo"))
    assert told["loss_type"] == (
        ("exact", "") if kind == "dapo" else ("changed", f"Unsloth {release} trains with bnpo for dapo")
    )
    assert "mask_truncated_completions=True" in found.after and not errors(found)


@pytest.mark.parametrize(("release", "ends"), [("2025.6.1", True), ("2025.8.6", False), ("2025.10.12", False)])
def test_a_loss_that_its_release_does_not_know_ends_the_run(release: str, ends: bool) -> None:
    found = port(grpo("loss_type='dapo'", pins=f"unsloth=={release} trl==0.18.1"))
    assert any("knows no loss_type dapo" in each.message for each in found.findings) is ends


def test_its_release_is_named_as_it_is_read() -> None:
    found = port(grpo("", pins="trl==0.19.1"))
    assert found.recipe.versions["unsloth"] == "2026.8.19 (beside TRL 0.19.1)"
    assert "2026.8.19, which has" in " ".join(each.message for each in found.findings)
    pinned = port(grpo("", pins="unsloth==2025.8.6 trl==0.19.1"))
    assert pinned.recipe.versions["unsloth"].startswith("2025.8.6 (")


def test_its_release_is_that_of_the_scripts_last_commit(tmp_path: Path) -> None:
    found = port_file(committed(tmp_path, "2025-06-10", grpo("")))
    assert found.recipe.versions["unsloth"] == "2025.6.2 (of 2025-06-10, when the script was last committed)"


def test_what_its_default_optimizer_and_its_loss_log_is_said() -> None:
    def said(config: str) -> str:
        return " ".join(each.message for each in port(grpo(config)).findings)

    assert "no kl and no completion_length" in said("") and "optim='adamw_8bit' holds moments in 8 bits" in said("")
    assert "in 8 bits" not in said("optim='adamw_torch'") and "no kl" not in said("logging_strategy='no'")


@pytest.mark.parametrize(
    ("release", "trl", "rows", "steps", "sees"),
    [
        ("2025.8.6", "0.19.1", 4, 2, True),
        ("2025.8.6", "0.19.1", 4, 1, False),  # the completions of one prompt
        ("2025.3.19", "0.15.2", 4, 2, False),  # a micro-step at a time
        ("2025.3.19", "0.15.2", 8, 1, True),
        ("2025.9.6", "0.22.2", 4, 2, False),
    ],
)
def test_padding_that_its_models_see_is_said(release: str, trl: str, rows: int, steps: int, sees: bool) -> None:
    config = f"per_device_train_batch_size={rows}, gradient_accumulation_steps={steps}"
    text = grpo(config, pins=f"unsloth=={release} trl=={trl}")
    assert any("seeing the padding" in each.message for each in port(text).findings) is sees
    whole = text.replace("FastLanguageModel", "FastModel")
    assert not any("seeing the padding" in each.message for each in port(whole).findings)


@pytest.mark.parametrize("more", ["4, steps_per_generation=2", "4, generation_batch_size=8", "int(input())"])
def test_padding_is_said_where_several_prompts_may_be_sampled_together(more: str) -> None:
    text = grpo(f"per_device_train_batch_size={more}", pins="unsloth==2025.8.6 trl==0.19.1")
    found = port(text).findings
    assert any("seeing the padding" in each.message for each in found)


@pytest.mark.parametrize(("config", "said"), [("beta=0.04", 1), ("beta=0.0", 0)])
def test_its_logged_divergence_is_a_mean_over_completions(config: str, said: int) -> None:
    found = port(grpo(config))
    reasons = [row.reason for row in found.fields] + [finding.message for finding in found.findings]
    told = [reason for reason in reasons if "kl of the log lines is a mean over tokens" in reason.replace("Kl", "kl")]
    assert len(told) == said
