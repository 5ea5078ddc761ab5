"""Several evaluation sets by their names, each of which transformers' Trainer evaluates on its own."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator
from typing import Any, NoReturn


class EvaluationSets:
    """The batches of each set of a dict; `evaluation` of the training batches makes them where it is given one.

    An `rt.MetricsTrainer` evaluates one after the other, as `eval_NAME_loss`, and so does `rt.evaluate`.
    """

    def __init__(self, sets: dict[str, Any]) -> None:
        self._sets = sets

    def items(self) -> ItemsView[str, Any]:
        """Names and batches, in the order of the dict."""
        return self._sets.items()

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError(
            f"evaluation sets by name ({', '.join(self._sets)}): Tunix's PeftTrainer evaluates one set, an "
            "rt.MetricsTrainer each of them"
        )


def by_name(dataset: Any, evaluation: Callable[[Any], Any]) -> Any:
    """The batches that `evaluation` makes of a set, or of each set of a dict."""
    if isinstance(dataset, dict):
        return EvaluationSets({name: evaluation(rows) for name, rows in dataset.items()})
    return evaluation(dataset)
