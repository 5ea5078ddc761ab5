"""compute_metrics: where the port computes metrics, and what it names instead. Whole ports: rules/*/cases/metrics*."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port, sft_script

HEAD = """\
import numpy as np
import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x")


def score(prediction):
    return {{"right": np.mean(prediction.predictions == prediction.label_ids)}}


def best(logits, labels):
    return {body}


args = SFTConfig("out", report_to="none", save_steps=10, eval_steps=10, {settings})
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args, train_dataset=rows["train"], eval_dataset=rows["test"], {metrics})
trainer.train()
"""
MADE = 'SFTConfig("out", report_to=input(), eval_strategy="steps", eval_steps=10, prediction_loss_only=True)'
BOTH = "compute_metrics=score, preprocess_logits_for_metrics=best"


def script(settings: str = 'eval_strategy="steps"', metrics: str = BOTH, body: str = "logits.argmax(-1)") -> str:
    return HEAD.format(settings=settings, metrics=metrics, body=body)


@pytest.mark.parametrize(
    ("torchs", "jaxs"),
    [
        ("logits.argmax(-1)", "logits.argmax(-1)"),
        ("logits.detach().float().argmax(dim=-1).cpu()", "logits.astype(jnp.float32).argmax(axis=-1)"),
        (
            "torch.softmax(logits, dim=-1).sum(-1, keepdim=True)",
            "jax.nn.softmax(logits, axis=-1).sum(-1, keepdims=True)",
        ),
        ("torch.where(labels != -100, logits.argmax(-1), 0)", "jnp.where(labels != -100, logits.argmax(-1), 0)"),
        ("np.argmax(logits.cpu().numpy(), axis=-1)", "np.argmax(logits, axis=-1)"),
        ("logits.view(-1, logits.shape[-1]).max()", "logits.reshape(-1, logits.shape[-1]).max()"),
    ],
)
def test_plain_idioms_are_respelled(torchs: str, jaxs: str) -> None:
    check_becomes(script(body=torchs), f"    return {jaxs}\n", "rt.MetricsTrainer(", gone=("import torch",))


@pytest.mark.parametrize(
    "foreign",
    [
        "torch.stack([logits, logits])",
        "logits.max(-1)",
        "logits.topk(2)",
        "torch.nn.functional.gelu(logits)",
        "logits.eq(1)",
    ],
)
def test_the_rest_of_torch_is_named(foreign: str) -> None:
    found = port(script(body=foreign))
    assert found.status == "partial" and f"return {foreign}" in found.after
    assert any(finding.line == 14 and "JAX arrays" in finding.message for finding in found.findings)


def test_nothing_is_computed_where_nothing_is_evaluated() -> None:
    found = check_becomes(script(settings=""), "trainer = PeftTrainer(", gone=("MetricsTrainer",))
    row = next(row for row in found.fields if row.source == "SFTTrainer.compute_metrics")
    assert (row.fate, row.reason) == ("dropped", "nothing is evaluated")
    check_becomes(script('eval_strategy="steps", prediction_loss_only=True'), gone=("MetricsTrainer",))
    check_becomes(
        script("") + "print(trainer.evaluate())\n", "rt.MetricsTrainer(", "rt.evaluate(trainer, eval_batches)"
    )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('SFTConfig("out", eval_strategy="steps", eval_steps=10, prediction_loss_only=bool(input()))', "bool(input())"),
        ("HfArgumentParser(SFTConfig).parse_args_into_dataclasses()[0]", "args.prediction_loss_only"),
        ("made()", "args.prediction_loss_only"),
    ],
)
def test_the_run_may_leave_the_metrics_out(config: str, said: str) -> None:
    text = script().replace("def score", f"def made():\n    return {MADE}\n\n\ndef score")
    line = next(line for line in text.splitlines() if line.startswith("args = "))
    text = text.replace(line, f"args = {config}").replace(
        "rows = ", "from transformers import HfArgumentParser\n\nrows = "
    )
    found = port(text)
    assert "    compute_metrics=score,\n" in found.after, found.after
    assert f"    prediction_loss_only={said},\n" in found.after, found.after
    rows = [row for row in found.fields if row.source.endswith("prediction_loss_only")]
    assert all(row.fate == "exact" for row in rows), rows


@pytest.mark.parametrize("settings", ["prediction_loss_only=True", "prediction_loss_only=bool(input())"])
def test_without_metrics_none_are_left_out(settings: str) -> None:
    found = port(script(f'eval_strategy="steps", {settings}', ""))
    row = next(row for row in found.fields if row.source == "SFTConfig.prediction_loss_only")
    assert (row.fate, row.reason) == ("dropped", "no metric is computed") and "MetricsTrainer" not in found.after


def test_inputs_are_handed_on_by_either_name() -> None:
    for asked in ('include_for_metrics=["inputs"]', "include_inputs_for_metrics=True"):
        options = {"source_trl": "0.12"} if "True" in asked else {}
        text = script(f'eval_strategy="steps", {asked}')
        found = port(text, **options)
        assert 'include_for_metrics=["inputs"]' in found.after, found.after


@pytest.mark.parametrize(
    ("settings", "metrics", "said"),
    [
        ('eval_strategy="steps", packing=True', BOTH, "compute_metrics with packing=True"),
        ('eval_strategy="steps", packing=True, eval_packing=False', BOTH, "compute_metrics with packing=True"),
        ('eval_strategy="steps", padding_free=True', BOTH, "compute_metrics with padding_free=True"),
        (
            'eval_strategy="steps", load_best_model_at_end=True, metric_for_best_model="f1"',
            "",
            "no metric but the loss",
        ),
        ('eval_strategy="steps", metric_for_best_model="eval_entropy"', BOTH, "SFTTrainer's own entropy"),
        ('eval_strategy="steps", eval_do_concat_batches=False', BOTH, "joins the predictions"),
    ],
)
def test_what_is_not_carried_over_is_named(settings: str, metrics: str, said: str) -> None:
    found = port(script(settings, metrics))
    assert found.status == "partial"
    assert any(said in finding.message for finding in found.findings if finding.severity == "error"), found.findings


@pytest.mark.parametrize("packing", ["eval_packing=True", 'packing=True, packing_strategy="wrapped"'])
def test_packed_rows_that_nothing_runs_together_have_metrics(packing: str) -> None:
    """The collator does as the rows of training ask for."""
    check_becomes(script(f'eval_strategy="steps", {packing}'), "rt.MetricsTrainer(")


@pytest.mark.parametrize(("trl", "ends"), [("1.16.0", False), ("1.4.0", True)])
def test_the_best_is_chosen_by_what_the_trainer_measures_of_its_own(trl: str, ends: bool) -> None:
    asked = 'eval_strategy="steps", load_best_model_at_end=True, metric_for_best_model="mean_token_accuracy"'
    found = port(script(asked, ""), source_trl=trl)
    assert found.status == ("partial" if ends else "ported")
    assert any("the GPU run ends" in finding.message for finding in found.findings) == ends


def test_the_best_is_chosen_by_a_metric() -> None:
    settings = (
        'eval_strategy="steps", load_best_model_at_end=True, metric_for_best_model="right", greater_is_better=False'
    )
    check_becomes(script(settings), 'metric_for_best_model="right"', "greater_is_better=False", "rt.KeepBest()")


@pytest.mark.parametrize(
    ("trl", "settings", "policy"),
    [
        ("0.12.2", 'eval_strategy="steps", eval_steps=10, save_steps=20', 'rt.KeepBest(transformers="4.46'),
        ("0.12.2", 'eval_strategy="steps", eval_steps=20, save_steps=20', "rt.KeepBest()"),
        ("0.12.2", 'eval_strategy="epoch", save_strategy="epoch"', "rt.KeepBest()"),
        ("0.24.0", 'eval_strategy="steps", eval_steps=10, save_steps=20', "rt.KeepBest()"),
    ],
)
def test_the_best_is_chosen_among_the_evaluations_that_counted(trl: str, settings: str, policy: str) -> None:
    check_becomes(
        sft_script(
            config=f", load_best_model_at_end=True, {settings}",
            trainer=', eval_dataset=load_dataset("some/rows", split="test")',
        )
        .replace("dtype=", "torch_dtype=")
        .replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B"),
        policy,
        source_trl=trl,
    )


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ('eval_strategy="steps", save_total_limit=2, metric_for_best_model="loss"', "rt.KeepBest(2)"),
        ('eval_strategy="steps", save_total_limit=2, metric_for_best_model="right"', "rt.KeepBest(2)"),
        ('eval_strategy="steps", save_total_limit=2', "max_to_keep=2"),
        ('eval_strategy="steps", metric_for_best_model="loss"', "max_to_keep=None"),
        ('eval_strategy="no", save_total_limit=2, metric_for_best_model="loss"', "max_to_keep=2"),
    ],
)
def test_a_named_metric_spares_the_best_checkpoint(settings: str, kept: str) -> None:
    """transformers does so whenever it has a metric_for_best_model: load_best_model_at_end only loads what is kept."""
    found = port(script(settings))
    assert kept in found.after and "rt.load_best(" not in found.after, found.after
    assert ('metric_for_best_model="right"' in found.after) is ('"right"' in settings), found.after
