"""Edits replace their part of a text and nothing else."""

from __future__ import annotations

import pytest

from porter.engine.edits import apply_edits, joined_removals, whole_lines, without_inner
from porter.port import Edit


def edit(start: int, end: int, new: str = "") -> Edit:
    return Edit(start, end, new, "T1", "", 1, 1)


def test_no_edit_is_no_change() -> None:
    assert apply_edits("abc", []) == "abc"


def test_edits_in_any_order() -> None:
    assert apply_edits("abcdef", [edit(4, 5, "X"), edit(0, 1, ""), edit(2, 2, "-")]) == "b-cdXf"


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("abcdef", [edit(0, 3), edit(2, 4)])


def test_a_larger_edit_takes_those_inside_it_along() -> None:
    outer = edit(0, 5, "new")
    assert without_inner([edit(1, 2), outer, edit(6, 7)]) == [outer, edit(6, 7)]


@pytest.mark.parametrize(
    ("text", "statement", "left"),
    [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\n\nb\n\nc\n", "b", "a\n\nc\n"),
        ("a\r\nb\r\nc\r\n", "b", "a\r\nc\r\n"),
        ("if a:\n    b  # why\n    c\n", "b", "if a:\n    c\n"),
        ("b", "b", ""),
        ("b\n\n\nc\n", "b", "c\n"),
    ],
)
def test_a_statement_goes_with_its_line(text: str, statement: str, left: str) -> None:
    start = text.index(statement)
    begin, end = whole_lines(text, start, start + len(statement))
    assert text[:begin] + text[end:] == left


def test_a_removal_that_reaches_over_the_edit_around_it_goes_with_it() -> None:
    around, inside = Edit(0, 10, "pass", "A", "", 1, 1), Edit(4, 11, "", "B", "", 1, 5)
    assert without_inner([around, inside]) == [around]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\nx\n\nx\n\nb\n", "a\n\nb\n"),
        ("a\n\nx\nx\n\nx\n\nb\n", "a\n\nb\n"),
        ("a\nx\n\nx\nx\n\nx\nb\n", "a\n\nb\n"),
        ("a\r\nx\r\n\r\nx\r\n\r\nb\r\n", "a\r\n\r\nb\r\n"),
        ("x\n\nx\n\nb\n", "b\n"),
        ("a\nx\nx\nb\n", "a\nb\n"),
        ("a\n\nx\n\nx\n", "a\n\n"),
    ],
)
def test_removals_in_a_row_leave_one_gap(text: str, left: str) -> None:
    found = [edit(*whole_lines(text, index, index + 1)) for index, letter in enumerate(text) if letter == "x"]
    assert apply_edits(text, joined_removals(text, without_inner(found))) == left


def test_what_stands_between_two_removals_parts_them() -> None:
    edits = [edit(0, 2), edit(3, 3, "new\n"), edit(4, 6)]
    assert joined_removals("x\n\n\nx\n", edits) == edits
