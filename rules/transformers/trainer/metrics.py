"""compute_metrics of the source: which metrics the port's evaluation computes, and what of them can't be carried over.

`compute_metrics` gets NumPy arrays, in the port as in the source: it stays as it is. What
`preprocess_logits_for_metrics` does with torch's tensors is written for JAX's arrays (`logit_functions.py`).
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.runtime import trl_lines, trl_release
from porter.packs.script import plain_version
from porter.packs.training import LOSSES, Training, evaluation_sets, included, metrics_of, short_name, table_of

PART_OF = "transformers"

OF_TRL = frozenset({"entropy", "mean_token_accuracy", "num_tokens", "aux_loss"})  # SFTTrainer's own
INCLUDED = ("inputs",)


@step(Phase.READ, of="trainer", reads=("script values", "arguments_object", "data.packing"))
def settle_metrics(porting: Training) -> None:
    """Findings for metrics, and for a choice of the best model by them, that the port doesn't have."""
    site, argument = porting.trainer, metrics_of(porting)
    assert site is not None
    _settle_best(porting)
    if argument is None:
        return
    wanted = included(porting)
    unknown = [name for name in wanted or () if name not in INCLUDED]
    if unknown:
        reason = f"the port's evaluation gives compute_metrics predictions, labels and inputs, not {unknown[0]!r}"
        porting.change_fate(".include_for_metrics", fate="manual", target="", reason=reason)
        message = f"include_for_metrics={wanted}: {reason}."
        porting.find(site.rule, "error", message, "Leave it out.", argument.line, argument.column)
    version = plain_version(porting.versions.get("trl", ""))
    packs = trl_release(version or None).runs_together(str(porting.known("data.packing_strategy", "bfd")))
    places = ("data.packing", "data.padding_free") if packs else ("data.padding_free",)  # one collator for both sets
    runs_together = [place for place in places if porting.known(place) is True]
    if runs_together and table_of(porting, site).kind == "sft":
        keyword = runs_together[0].rpartition(".")[2]
        reason = "TRL runs a batch's rows together, and the Trainer cuts what it gathers as if they were apart"
        porting.change_fate(".compute_metrics", fate="manual", target="", reason=reason)
        message = f"compute_metrics with {keyword}=True: {reason}."
        fix = "Set packing=False and padding_free=False."
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)


def _settle_best(porting: Training) -> None:
    """metric_for_best_model: eval_loss, or what compute_metrics returns."""
    site, value = porting.trainer, porting.value("save.best_metric")
    if site is None or value is None or porting.arguments_object or value.is_literal(*LOSSES):
        return
    name = str(value.literal).removeprefix("eval_") if value.known else ""
    sets = evaluation_sets(porting)
    if sets is not None and (name in [f"{each}_loss" for each in sets] or (not sets and name.endswith("_loss"))):
        return
    kind = table_of(porting, site).kind
    if metrics_of(porting) is not None and not (name in OF_TRL and kind == "sft"):
        return
    own = trl_lines(kind, plain_version(porting.versions.get("trl", "")))
    if metrics_of(porting) is None and own.in_results and name in own.of_evaluations:
        return
    if name in OF_TRL and kind == "sft" and not own.in_results:
        reason = f"SFTTrainer's own {name} isn't among what its release evaluates by, and the GPU run ends"
    elif name in OF_TRL and kind == "sft":
        reason = f"the port's evaluation with compute_metrics doesn't compute SFTTrainer's own {name}"
    else:
        reason = f"{short_name(site)}'s port computes no metric but the loss"
    porting.change_fate(".metric_for_best_model", fate="manual", target="", reason=reason)
    line, column = (value.origin.line, value.origin.column) if value.origin is not None else (site.line, site.column)
    message = f"metric_for_best_model={value.text or value.code}: {reason}."
    porting.find(site.rule, "error", message, "Compare by eval_loss.", line, column)
