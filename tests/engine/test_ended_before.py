"""A line that ends the script in front of its training is said: what is behind it runs nowhere."""

import pytest

from .porting import port, sft_script


def said(before: str, after: str = "trainer.train()") -> list[str]:
    found = port(sft_script(before, imports="import os\nimport sys", after=after)).findings
    return [f"{each.severity} {each.message}" for each in found if "never trains" in each.message]


@pytest.mark.parametrize(
    "line", ["exit()", "quit()", "sys.exit(0)", "os._exit(0)", "raise SystemExit", "raise SystemExit(1)"]
)
def test_a_script_that_ends_before_it_trains(line: str) -> None:
    assert said(line) == [f"warning {line}: the script ends here, and so does the port: it never trains."]


@pytest.mark.parametrize(
    "line", ["if len(sys.argv) > 9:\n    sys.exit(1)", "def stop():\n    sys.exit(1)", "print(exit)"]
)
def test_one_that_may_go_on(line: str) -> None:
    assert said(line) == []


def test_one_that_ends_behind_its_training() -> None:
    assert said("", "trainer.train()\nsys.exit(0)") == []
