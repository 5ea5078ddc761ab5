"""Generated calls: one line where it fits, one argument a line where it doesn't."""

from __future__ import annotations

import pytest

from porter.text.layout import Arg, Call, render


def test_text_stays_as_it_is() -> None:
    assert render("x + 1") == "x + 1"


def test_a_short_call_is_one_line() -> None:
    assert render(Call("f", [Arg("a"), Arg("1", "b")])) == "f(a, b=1)"


def test_a_comment_spreads_the_arguments() -> None:
    assert render(Call("f", [Arg("a", comment="# why"), Arg("b")]), "  ") == "f(\n      a,  # why\n      b,\n  )"


def test_arguments_that_fit_on_one_line_of_their_own() -> None:
    long = [Arg("x" * 32, name) for name in ("one", "two", "three")]
    first, middle, last = render(Call("function", long)).split("\n")
    assert (first, last) == ("function(", ")") and middle.startswith("    one=") and len(middle) <= 120


def test_what_stands_before_the_call_counts() -> None:
    call = Call("f", [Arg("x" * 50), Arg("y" * 50)])
    assert "\n" not in render(call) and "\n" in render(call, before=20)


def test_a_list_alone_hugs_its_brackets() -> None:
    rows = Call("", [Arg("a", comment="# 1"), Arg("b")], brackets="[]")
    assert render(Call("f", [Arg(rows)])) == "f([\n    a,  # 1\n    b,\n])"


@pytest.mark.parametrize("width", range(20, 119, 7))
def test_no_line_is_too_long_when_its_parts_are_not(width: int) -> None:
    call = Call("head", [Arg("a" * (width // 3), "k"), Arg(Call("inner", [Arg("b" * (width // 2))]))], tail=".end()")
    assert all(len(line) <= 120 for line in render(call, "    ").split("\n"))


def test_a_long_condition_takes_three_lines() -> None:
    long = "rt.resume_dir(a_folder) if rt.get_last_checkpoint(a_folder) else rt.fresh_dir(a_folder)"
    call = Call("Config", [Arg(long, "checkpoint_root_directory"), Arg("1", "steps")])
    lines = render(call, "        ").splitlines()
    assert lines[1:5] == [
        "            checkpoint_root_directory=(",
        "                rt.resume_dir(a_folder)",
        "                if rt.get_last_checkpoint(a_folder)",
        "                else rt.fresh_dir(a_folder)",
    ]
    other = render(Call("Config", [Arg(f"({long}) + {'1' * 30}", "checkpoint_root_directory")]))
    assert f"({long}) + 1" in other
