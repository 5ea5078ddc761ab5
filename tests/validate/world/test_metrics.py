"""Metrics that lie on the Hub are computed where it isn't reachable."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from porter.validate.world import metrics
from porter.validate.world.metric_scores import SCORES, words


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`evaluate` as it is offline, installed as a library."""
    package = tmp_path / "site-packages" / "evaluate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from . import loading\nfrom .loading import load\n")
    text = (
        "def load(path, config_name=None, **given):\n    raise (AttributeError if path == 'cer' else OSError)(path)\n"
    )
    (package / "loading.py").write_text(text)
    monkeypatch.syspath_prepend(str(package.parent))
    for name in ("evaluate", "evaluate.loading"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import evaluate

    yield evaluate
    for name in ("evaluate", "evaluate.loading"):
        sys.modules.pop(name, None)


def test_a_metric_that_the_hub_has_is_computed(library: Any) -> None:
    notes: list[str] = []
    metrics.stand_in_metrics(["metric = evaluate.load('exact_match')"], notes.append)

    metric = library.load("exact_match")
    assert notes == []  # loaded alone, it has told the run nothing
    assert metric.compute(predictions=["a", "b"], references=["a", "c"]) == {"exact_match": 0.5}
    metric.add(prediction="a", reference="a")
    metric.add_batch(predictions=["b"], references=["b"])
    assert metric.compute() == {"exact_match": 1.0}
    assert library.loading.load("org/wer").compute(predictions=["a b"], references=["a c"]) == 0.5
    # evaluate 0.4.3 beside huggingface_hub 1: no attribute 'HfFolder'
    assert library.load("cer").compute(predictions=["ab"], references=["ac"]) == 0.5
    assert notes[0] == metrics.COMPUTED.format("exact_match")


def test_one_that_needs_a_model_says_so_and_is_zero(library: Any) -> None:
    notes: list[str] = []
    metrics.stand_in_metrics(["from evaluate import load"], notes.append)
    found = library.load("bleurt").compute(predictions=["a"], references=["a"])
    assert found["scores"] == 0.0
    assert notes == [metrics.UNKNOWN.format("bleurt")]


def test_a_scripts_own_metric_and_what_asks_for_none(library: Any) -> None:
    original = library.load
    metrics.stand_in_metrics(["import evaluate_my_model"], lambda _: None)
    assert library.load is original
    metrics.stand_in_metrics(["evaluate.load(path)"], lambda _: None)
    with pytest.raises(OSError, match=r"own\.py"):
        library.load("metrics/own.py")


def test_a_projects_own_module_of_that_name_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evaluate.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "evaluate", raising=False)
    metrics.stand_in_metrics(["import evaluate\nevaluate.load('x')"], lambda _: None)
    assert "evaluate" not in sys.modules


@pytest.mark.parametrize(
    ("name", "predictions", "references", "values"),
    [
        ("bleu", ["the cat sat on the mat"], [["the cat sat on the mat"]], {"bleu": 1.0, "length_ratio": 1.0}),
        ("bleu", ["the cat sat on a mat today"], ["the cat sat on the mat"], {"bleu": 0.4347208719449914}),  # nltk's
        ("bleu", [["a", "b"]], [[["a", "b", "c"]]], {"bleu": 0.0, "brevity_penalty": 0.6065306597126334}),
        ("exact_match", [1, 2, 3, 4], [1, 2, 3, 0], {"exact_match": 0.75}),
        (
            "squad",
            [{"id": "1", "prediction_text": "The blue car"}],
            [{"id": "1", "answers": {"text": ["blue car.", "car"], "answer_start": [0, 5]}}],
            {"exact_match": 100.0, "f1": 100.0},
        ),
        (
            "squad_v2",
            [{"id": "1", "prediction_text": "a red car", "no_answer_probability": 0.0}],
            [{"id": "1", "answers": {"text": ["red bus"], "answer_start": [0]}}],
            {"exact": 0.0, "f1": 50.0, "total": 1},
        ),
    ],
)
def test_values(name: str, predictions: list[Any], references: list[Any], values: dict[str, Any]) -> None:
    found = SCORES[name](predictions, references)
    assert {key: found[key] for key in values} == pytest.approx(values)


def test_errors_of_words_and_letters() -> None:
    assert SCORES["wer"](["this is the prediction", "there is another"], ["this is the reference", "there is"]) == (
        pytest.approx(2 / 6)
    )
    assert SCORES["cer"](["kitten"], ["sitting"]) == pytest.approx(3 / 7)


def test_words_and_signs() -> None:
    assert words("It costs 1.5, no?") == ["It", "costs", "1.5", ",", "no", "?"]
