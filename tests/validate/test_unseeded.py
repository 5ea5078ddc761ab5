"""A script that draws rows without a seed trains on the same ones on both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from porter.validate.observing.unseeded import ENVIRONMENT, NOTE, draws_unseeded

DRAWS = """
import random
import datasets
import numpy as np

rows = datasets.Dataset.from_list([{"text": str(i)} for i in range(40)])
numbers = list(range(40))
random.shuffle(numbers)
print(numbers, rows.train_test_split(test_size=0.25)["train"]["text"][:])
print(rows.shuffle()["text"][:], np.random.permutation(40).tolist(), list({"a", "b", "c", "d", "e", "f", "g"}))
print(next(iter(rows.to_iterable_dataset().shuffle(buffer_size=40))))
"""
BEGUN = "from porter.validate.observing.unseeded import begin_alike\nbegin_alike((), print)\n"


def drawn(text: str, folder: Path) -> str:
    """What a process of its own prints, started as validate starts one."""
    root = str(Path(__file__).resolve().parents[2])
    environment = {**ENVIRONMENT, "PYTHONPATH": root, "HOME": str(folder), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_two_processes_draw_the_same(tmp_path: Path) -> None:
    first = drawn(BEGUN + DRAWS, tmp_path)
    assert first == drawn(BEGUN + DRAWS, tmp_path)
    assert first != drawn(DRAWS, tmp_path)


def test_seeds_of_the_script_count(tmp_path: Path) -> None:
    seeded = (
        "import random, numpy as np\nrandom.seed(7); np.random.seed(7)\nprint(random.random(), np.random.random())\n"
    )
    assert drawn(BEGUN + seeded, tmp_path) == drawn(seeded, tmp_path)


def test_torchs_generator_begins_alike_without_a_seed_that_a_loop_would_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch = pytest.importorskip("torch")
    from porter.validate.observing.unseeded import begin_alike

    begin_alike(("rows = data.shuffle()",), print)
    first = torch.rand(3)
    begin_alike((), print)
    assert torch.equal(first, torch.rand(3))
    assert capsys.readouterr().out == f"{NOTE}\n"


@pytest.mark.parametrize(
    ("text", "unseeded"),
    [
        ("split = dataset.train_test_split(test_size=0.1)", True),
        ("split = dataset.train_test_split(test_size=0.1, seed=42)", False),
        ("a, b = train_test_split(rows, random_state=1)", False),
        ("rows = rows.shuffle(42)", False),
        ("rows = rows.shuffle().select(range(10))", True),
        ("random.shuffle(rows)", True),
        ("random.seed(1)\nrandom.shuffle(rows)", False),
        ("set_seed(1)\nrows = rows.shuffle()", False),
        ("order = np.random.permutation(10)", True),
        ("rng = np.random.default_rng(3)", False),
        ("print(random_name.sample)", False),
        ("if :", False),
    ],
)
def test_what_draws(text: str, unseeded: bool) -> None:
    assert draws_unseeded(text) is unseeded
