from __future__ import annotations

import pytest

from porter.report.terminal import console
from porter.report.verdict import show_verdict
from porter.validate.comparing.verdict import Check, Verdict

EQUAL = Check("loss of every step", "equal", "30 steps, largest at step 7", 3.8e-7, 1e-5)
TOKENS = Check("token ids and masks of every batch", "equal", "12984 trained tokens")


def shown(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> str:
    show_verdict(verdict, console())
    return capsys.readouterr().out


def test_equal_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(Verdict("a.py", "b.py", (TOKENS, EQUAL), ("a tiny qwen3",), (1.0,), (1.0,), (), 42.0), capsys)
    assert "equal    3.8e-07  1.0e-05    loss of every step" in text
    assert "equal             exact      token ids and masks of every batch" in text
    assert "- a tiny qwen3" in text
    assert text.endswith("EQUAL: a.py and b.py, 1 steps, 42 s\n") and "NOT EQUAL" not in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())


def test_the_first_divergence_and_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    rate = Check("learning rate of every step", "differs", "0.1 and 0.2", 0.1, 2e-6, 1, "the schedule is off by one")
    text = shown(Verdict("a.py", "b.py", (TOKENS, rate, EQUAL)), capsys)
    assert "First divergence: learning rate of every step (step 1): 0.1 and 0.2" in text
    assert "Likely cause: the schedule is off by one" in text
    assert "NOT EQUAL" in text


def test_what_was_left_out_has_no_tolerance(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(Verdict("a.py", "b.py", (EQUAL, Check("final adapter weights", "skipped", "--quick"))), capsys)
    assert "skipped                      final adapter weights" in text


def test_it_ends_with_what_was_compared_stood_in_and_was_not(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"stood_in": ("a tiny qwen3",), "not_compared": ("optimizer.pt",)}
    notes = ("on mesh fsdp=8", "a tiny qwen3", "never compared: optimizer.pt")
    text = shown(Verdict("a.py", "b.py", (TOKENS, EQUAL), notes, **told), capsys)

    assert "- on mesh fsdp=8" in text
    assert "compared      token ids and masks of every batch, loss of every step" in text
    assert "stood in      a tiny qwen3" in text
    assert "not compared  optimizer.pt" in text
    assert text.count("a tiny qwen3") == text.count("optimizer.pt") == 1


def test_a_port_that_crashed_shows_its_own_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check("the port runs", "differs", "port.py:7: KeyError: 'a'", cause="the port reads a", line=7)
    text = shown(Verdict("a.py", "port.py", (check,), output='  File "port.py", line 7\nKeyError: [a]'), capsys)

    assert "KeyError: [a]" in text
    assert "First divergence: the port runs: port.py:7: KeyError: 'a'" in text
    assert "NOT EQUAL" in text
