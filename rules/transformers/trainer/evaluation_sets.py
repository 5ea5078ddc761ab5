"""Several evaluation sets by their names: transformers evaluates each on its own, and so does `rt.MetricsTrainer`."""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import shown
from porter.packs.training import LOSSES, WITH_METRICS, Training, evaluation_sets, short_name, table_of

PART_OF = "transformers"


@step(Phase.READ, of="trainer", reads=("script values", "arguments_object"))
def settle_evaluation_sets(porting: Training) -> None:
    """Findings for trainers whose port evaluates one set, and for a best model by a loss that no set has."""
    site, sets = porting.trainer, evaluation_sets(porting)
    argument = site.argument("eval_dataset") if site is not None else None
    if site is None or argument is None or sets is None:
        return
    if table_of(porting, site).kind not in WITH_METRICS:
        reason = "the port of this trainer evaluates one set while it trains"
        porting.change_fate(".eval_dataset", fate="manual", target="", reason=reason)
        message = f"{short_name(site)}.eval_dataset={shown(argument.text)}: {reason}."
        fix = "Choose one here, and evaluate the others with rt.evaluate after training."
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)
    metric = porting.value("save.best_metric")
    by_loss = metric is None or metric.is_literal(*LOSSES)
    if porting.known("save.best_at_end") is True and by_loss and not porting.arguments_object:
        named = f"eval_{sets[0]}_loss" if sets else "eval_NAME_loss"
        message = f"load_best_model_at_end compares by eval_loss, and sets by their names have losses such as {named}: "
        message += "the GPU run ends at its first evaluation, and so does the port."
        fix = f'Set metric_for_best_model="{named}".'
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)
