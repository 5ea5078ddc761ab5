"""What the port of a trainer evaluates, and the metrics that it computes then."""

from __future__ import annotations

from typing import Any

import libcst as cst

from ...engine.script.fill_from_tables import bindings_of, table_of
from ...engine.script.sites import Argument
from ...engine.script.training import Training

KINDS = ("sft", "causal-lm")  # trainers whose port has a MetricsTrainer
LOSSES = (None, "loss", "eval_loss")  # what metric_for_best_model calls the loss


def has_evaluation(porting: Training) -> bool:
    """Whether the source evaluates the rows that this trainer is given, while it trains or by evaluate()."""
    dataset = porting.trainer.argument("eval_dataset") if porting.trainer is not None else None
    if dataset is None or dataset.value.is_literal(None):
        return False
    return porting.evaluates_its_own or not evaluates_never(porting) or not _starts_without(porting)


def evaluates_never(porting: Training) -> bool:
    """Whether training surely evaluates nothing: eval_strategy is "no"."""
    strategy = porting.value("eval.strategy")
    return strategy is not None and strategy.known and str(strategy.literal) in ("no", "False", "None")


def evaluates_in_training(porting: Training) -> bool:
    """Whether training gets batches to evaluate: not where eval_strategy is "no", and the script evaluates by itself.

    Trainers that share one call of `train()` get them where any of them does.
    """
    if not porting.names.eval_batches:
        return False
    return any(not evaluates_never(each) or not _starts_without(each) for each in (porting, *porting.mates))


def _starts_without(porting: Training) -> bool:
    """Whether the run surely begins without an evaluation, which eval_on_start asks for whatever the strategy."""
    return porting.value("eval.on_start") is None or porting.known("eval.on_start", "?") in (False, None)


def strategy_when_run(porting: Training) -> str:
    """`args.eval_strategy` where only the run knows it, else ""."""
    strategy = porting.value("eval.strategy")
    unknown = bool(porting.arguments_object) and not (strategy is not None and strategy.known)
    return f"{porting.arguments_object}.eval_strategy" if unknown else ""


def metrics_of(porting: Training) -> Argument | None:
    """The trainer's compute_metrics, where the port computes metrics."""
    site = porting.trainer
    argument = site.argument("compute_metrics") if site is not None else None
    if site is None or argument is None or argument.value.is_literal(None):
        return None
    return argument if table_of(porting, site).kind in KINDS else None


def computes_metrics(porting: Training) -> bool:
    """Whether the port computes the metrics that it is given: it evaluates, and not the loss alone."""
    evaluated = has_evaluation(porting) or porting.evaluates
    return metrics_of(porting) is not None and evaluated and porting.known("eval.loss_only") is not True


def evaluation_sets(porting: Training) -> tuple[str, ...] | None:
    """The names of several evaluation sets that the trainer is given as a dict, as far as they are texts; None where it
    is given one set."""
    site = porting.trainer
    argument = site.argument("eval_dataset") if site is not None else None
    return sets_of(porting, argument) if argument is not None else None


def sets_of(porting: Training, argument: Argument) -> tuple[str, ...] | None:
    """The same of an argument: a dict, a `dict(...)`, a comprehension, or a name of one."""
    bindings = bindings_of(porting.module, argument.node)
    for node in (argument.node, *(binding.value for binding in bindings)):
        called = isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict"
        if called or isinstance(node, cst.DictComp):
            arguments = node.args if isinstance(node, cst.Call) else ()
            return tuple(each.keyword.value for each in arguments if each.keyword is not None)
        if isinstance(node, cst.Dict):
            keys = [element.key for element in node.elements if isinstance(element, cst.DictElement)]
            return tuple(str(key.evaluated_value) for key in keys if isinstance(key, cst.SimpleString))
    return None


def included(porting: Training) -> list[Any] | None:
    """What include_for_metrics asks for; None where only the script knows."""
    asked, older = porting.value("eval.include"), porting.value("eval.include_inputs")
    if older is not None and older.is_literal(True):
        return ["inputs"]
    if asked is None:
        return []
    return list(asked.literal or []) if asked.known else None
