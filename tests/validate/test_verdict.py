"""The verdict as data: JSON in every case, the table that it ends with, and a port that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.cli import run as tpu_port
from porter.validate.comparing.trace import Trace
from porter.validate.comparing.verdict import Check, NoVerdict, Verdict
from porter.validate.run import PORT_RUNS, check_runs
from porter.validate.running.processes import RunFailed

LOSS = Check("loss of every step", "equal", "4 steps", 1e-7, 1e-5)
RATE = Check("learning rate of every step", "differs", "0.1 and 0.2", 0.1, 2e-6, 3, "the schedule is off by one")
SKIPPED = Check("gradient norm", "skipped", "the source shows none")
TRACEBACK = "Traceback (most recent call last):\n  File \"/x/port.py\", line 7, in <module>\n    train()\nKeyError: 'a'"
KEYS = {
    "verdict", "equal", "reason", "help", "first_divergence", "source", "port", "checks", "notes", "source_losses",
    "port_losses", "meshes", "seconds", "seconds_source", "seconds_port", "stood_in", "not_compared", "table", "output",
}  # fmt: skip


def verdict(*checks: Check, **more: Any) -> Verdict:
    given: dict[str, Any] = {"stood_in": ("a tiny qwen3",), "not_compared": ("optimizer.pt",), **more}
    return Verdict("a.py", "b.py", checks, notes=("on mesh fsdp=8",), source_losses=(1.0,), port_losses=(1.0,), **given)


def test_json_and_back() -> None:
    made = verdict(LOSS, RATE, seconds_source=3.0, seconds_port=4.0, output="tail")

    assert Verdict.from_json(made.to_json()) == made


def test_every_outcome_has_the_same_keys() -> None:
    for text in (verdict(LOSS).to_json(), verdict(LOSS, RATE).to_json(), NoVerdict("a.py", "b.py", "why").to_json()):
        assert set(json.loads(text)) == KEYS


def test_the_words_of_the_three_outcomes() -> None:
    equal, differs = (json.loads(verdict(*checks).to_json()) for checks in ((LOSS,), (LOSS, RATE)))
    none = json.loads(NoVerdict("a.py", "b.py", "the source crashed", "install nltk", seconds_source=2.0).to_json())

    assert (equal["verdict"], equal["reason"], equal["help"]) == ("equal", "", "")
    assert differs["verdict"] == "differs"
    assert differs["reason"] == "learning rate of every step (step 3): 0.1 and 0.2"
    assert differs["help"] == "the schedule is off by one"
    assert (none["verdict"], none["equal"], none["help"], none["seconds"]) == ("none", False, "install nltk", 2.0)
    assert json.loads(verdict(SKIPPED).to_json())["reason"] == "no loss was compared"


def test_no_verdict_is_read_as_one() -> None:
    with pytest.raises(ValueError, match="there was no verdict: the source crashed"):
        Verdict.from_json(NoVerdict("a.py", "b.py", "the source crashed").to_json())
    for text in ("", "[]", "{}"):
        with pytest.raises(ValueError, match="not a verdict"):
            Verdict.from_json(text)


def test_the_table_that_it_ends_with() -> None:
    assert verdict(LOSS, RATE, SKIPPED).table == {
        "compared": ["loss of every step: equal", "learning rate of every step: differs"],
        "stood in": ["a tiny qwen3"],
        "not compared": ["gradient norm: the source shows none", "optimizer.pt"],
    }


def test_a_port_that_crashes_differs_at_its_line() -> None:
    check = check_runs(Path("port.py"), RunFailed("port", "crashed (exit status 1)", TRACEBACK))

    assert (check.name, check.status, check.line) == (PORT_RUNS, "differs", 7)
    assert check.detail == "the port crashed (exit status 1): port.py:7: KeyError: 'a' (train())"
    assert "reads a" in check.cause
    assert Verdict("a.py", "b.py", (check,)).exit_code == 3


def test_a_port_that_never_ends_or_never_trains_differs() -> None:
    slow = check_runs(Path("port.py"), RunFailed("port", "had not finished after 9 s (--timeout)", "loading"))
    idle = check_runs(Path("port.py"), RunFailed("port", "ended without training: no trainer was started", "bye"))

    assert slow.detail == "the port had not finished after 9 s (--timeout)" and "--timeout" in slow.cause
    assert idle.status == "differs" and "never reaches its trainer" in idle.cause


def test_a_script_that_is_only_slow_after_training() -> None:
    assert RunFailed("port", "had not ended 60 s after its training", "", Trace()).late
    assert not RunFailed("port", "crashed (exit status 1)", "", Trace()).late
    assert not RunFailed("port", "had not finished after 9 s (--timeout)", "").late


def test_json_is_printed_without_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert tpu_port(["validate", "missing.py", "b.py", "--json"]) == 2

    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["verdict"], found["reason"]) == ("none", "missing.py: no such file")
    assert found["help"] and shown.err.count("\n") == 1
