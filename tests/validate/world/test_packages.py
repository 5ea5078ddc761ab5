"""Which packages a script's libraries need: those that compute, by import name."""

from __future__ import annotations

from porter.validate.world.finder import table
from porter.validate.world.packages import _table, missing_packages

SOURCE = """
import os, sklearn.metrics, wandb, unknown_of_the_project
from . import nltk
from math_verify import parse
def later():
    import evaluate
    return evaluate.load("rouge")
"""


def test_missing_libraries_are_named_by_package() -> None:
    found = missing_packages([SOURCE, "not python ("], lambda module: module == "evaluate")
    assert [need.package for need in found] == ["absl-py", "math-verify", "nltk", "rouge-score", "scikit-learn"]


def test_the_projects_own_modules_are_not_packages() -> None:
    found = missing_packages(["import evaluate, einops"], lambda module: False, local={"evaluate"})
    assert [need.module for need in found] == ["einops"]


def test_what_computes_is_not_stood_in_for() -> None:
    both = set(_table()["packages"]) & set(table())
    assert both == {"matplotlib"}, "installed where it can be; a plot computes nothing"


def test_what_the_project_asks_for_by_its_own_name_comes_along() -> None:
    asked = {name: name for name in ("mahjong", "wandb", "vllm", "cupy", "ours")}
    found = missing_packages([f"import {', '.join(asked)}"], lambda module: False, {"ours"}, asked)
    assert [each.package for each in found] == ["mahjong"]
