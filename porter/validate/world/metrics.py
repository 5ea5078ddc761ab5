"""Metrics that are loaded by name from the Hub, `evaluate.load("rouge")`: computed here where it can't be had.

A metric that asks a model of its own (BERTScore, BLEURT, toxicity) isn't computed: each of its values is 0.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from .metric_scores import SCORES, WANTED

NAMED = re.compile(r"\bevaluate\s*\.\s*(?:load|combine)\b|\bfrom\s+evaluate\s+import\b|\bload_metric\b")
COMPUTED = "metric {} is on the Hub, which wasn't asked: tpu-port computed it"
UNKNOWN = "metric {} is on the Hub, which wasn't asked, and couldn't be computed here: its values are 0 on both sides"


class Zeros(dict[str, float]):
    """The values of a metric that isn't computed: 0, whatever they are called."""

    def __missing__(self, key: str) -> float:
        return 0.0


class Metric:
    """A metric as `evaluate.load` and `datasets.load_metric` give it: `compute`, `add` and `add_batch`.

    `told(name, whether it was computed)` hears of its first use.
    """

    def __init__(self, name: str, config_name: str | None, told: Callable[[str, bool], None]) -> None:
        self.name, self.config_name = name, config_name
        self._score = SCORES.get(name)
        self._told = told
        self._held: dict[str, list[Any]] = {}

    def compute(self, **given: Any) -> Any:
        """The values by name, of what is given and what was added before."""
        for name in WANTED:
            if given.get(name) is not None:
                self._held.setdefault(name, []).extend(_plain(given[name]))
            given.pop(name, None)
        held, self._held = self._held, {}
        if self.config_name is not None and self.name == "glue":
            given["config_name"] = self.config_name
        self._told(self.name, self._score is not None)
        if self._score is None:
            return Zeros({self.name: 0.0})
        predictions = held["predictions"] if "predictions" in held else held["prediction_scores"]
        return self._score(predictions, held["references"], **given)

    def add_batch(self, **given: Any) -> None:
        """Keep predictions and references until `compute`."""
        for name, values in given.items():
            self._held.setdefault(name, []).extend(_plain(values))

    def add(self, **given: Any) -> None:
        """Keep one prediction with its reference."""
        self.add_batch(**{f"{name.removesuffix('s')}s": [value] for name, value in given.items()})

    def _feature_names(self) -> list[str]:  # asked for by evaluate.combine
        return ["predictions", "references"]


def _plain(values: Any) -> list[Any]:
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]


def stand_in_metrics(sources: Sequence[str], note: Callable[[str], None]) -> None:
    """Metrics of `evaluate` and `datasets` are computed here, in this process, where the Hub doesn't give them.

    Nothing is imported unless one of the texts asks for a metric; a project's own `evaluate.py` is left alone.
    """
    if not any(NAMED.search(source) for source in sources):
        return

    def told(name: str, computed: bool) -> None:
        note((COMPUTED if computed else UNKNOWN).format(name))

    import datasets

    if hasattr(datasets, "load_metric"):  # before 3.0
        datasets.load_metric = _loading(datasets.load_metric, functools.partial(_as_of_old, told=told))
    found = importlib.util.find_spec("evaluate")
    if found is not None and "site-packages" in (found.origin or ""):
        import evaluate

        load = _loading(evaluate.load, functools.partial(Metric, told=told))
        evaluate.load = evaluate.loading.load = load


def _loading(original: Callable[..., Any], make: Callable[[str, str | None], Metric]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(path: str, config_name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(path, config_name, *args, **kwargs)
        except (OSError, AttributeError):  # offline, or of another day than huggingface_hub: 0.4.3 asks it for HfFolder
            if str(path).endswith(".py") or os.path.exists(path):  # the script's own
                raise
            return make(str(path).rpartition("/")[2], config_name)

    return load


class _OfOld(Metric):
    """With ROUGE as datasets' own gave it: each score with its `low`, `mid` and `high`."""

    def compute(self, **given: Any) -> Any:
        return super().compute(**given, **({"whole": True} if self.name == "rouge" else {}))


def _as_of_old(name: str, config_name: str | None, told: Callable[[str, bool], None]) -> Metric:
    return _OfOld(name, config_name, told)
