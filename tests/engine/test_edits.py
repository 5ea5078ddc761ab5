"""Edits replace their part of a text and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from porter.text.edit import Edit
from porter.text.edits import (
    Spans,
    apply_edits,
    joined_removals,
    whole_lines,
    within,
    without_inner,
    without_orphans,
)
from porter.text.sections import without_bare_banners


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
    assert without_inner("abcdefgh", [edit(1, 2), outer, edit(6, 7)]) == [outer, edit(6, 7)]


@pytest.mark.parametrize(
    ("text", "statement", "left"),
    [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\n\nb\n\nc\n", "b", "a\n\nc\n"),
        ("a\r\nb\r\nc\r\n", "b", "a\r\nc\r\n"),
        ("if a:\n    b  # why\n    c\n", "b", "if a:\n    c\n"),
        ("b", "b", ""),
        ("b\n\n\nc\n", "b", "c\n"),
        ("def f():\n    b\n\n    c\n", "b", "def f():\n    c\n"),  # no gap is left below the header
        ("if a:  # why\n    b\n\n    c\n", "b", "if a:  # why\n    c\n"),
        ("# a:\nb\n\nc\n", "b", "# a:\n\nc\n"),
    ],
)
def test_a_statement_goes_with_its_line(text: str, statement: str, left: str) -> None:
    start = text.index(statement)
    begin, end = whole_lines(text, start, start + len(statement))
    assert text[:begin] + text[end:] == left


def test_a_removal_that_reaches_over_the_edit_around_it_goes_with_it() -> None:
    around, inside = Edit(0, 10, "pass", "A", "", 1, 1), Edit(4, 11, "", "B", "", 1, 5)
    assert without_inner("else:\n  ab\n", [around, inside]) == [around]


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
    assert apply_edits(text, joined_removals(text, without_inner(text, found))) == left


def test_what_stands_between_two_removals_parts_them() -> None:
    edits = [edit(0, 2), edit(3, 3, "new\n"), edit(4, 6)]
    assert joined_removals("x\n\n\nx\n", edits) == edits


@pytest.mark.parametrize(
    ("text", "edits", "left"),
    [
        # An insertion among the blank lines that a removal takes along.
        ("a\n\nx\n\n\nb\n", [edit(3, 7), edit(6, 6, "new\n")], "a\n\nnew\n\nb\n"),
        # A replaced run of statements, of which another rule takes out the first with its line.
        ("if a:\n    x = 1\n    y\n", [edit(6, 16), edit(10, 21, "z")], "if a:\n    z\n"),
        ("if a:\n    # why\n    x = 1  # so\n    y\n", [edit(6, 32), edit(20, 37, "z")], "if a:\n    # why\n    z\n"),
        # Two removals that share what parts them.
        ("f(a, b, c)", [edit(5, 8), edit(6, 9)], "f(a, )"),
        ("f(a, b, c,)", [edit(5, 8), edit(6, 9)], "f(a, )"),
        # What is put in front of a statement that goes stays.
        ("if a:\n    x\n    y\n", [edit(6, 12), edit(10, 10, "new\n    ")], "if a:\n    new\n    y\n"),
        # The same statement replaced and taken out: it goes.
        ("if a:\n    x\n    y\n", [edit(6, 12), edit(10, 11, "z")], "if a:\n    y\n"),
        ("", [], ""),
    ],
)
def test_a_removal_is_no_larger_than_its_statement(text: str, edits: list[Edit], left: str) -> None:
    assert apply_edits(text, joined_removals(text, without_inner(text, edits))) == left


def test_removals_in_a_row_end_at_what_is_put_behind_them() -> None:
    text = "x\nx\n\nb\n"
    assert apply_edits(text, joined_removals(text, [edit(0, 2), edit(2, 4), edit(4, 4, "new\n")])) == "new\n\nb\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\n\n# Setup\nx\n\nb\n", "a\n\nb\n"),
        ("a\n\n# ---\n# Setup\n# ---\nx\nx\n\n\nb\n", "a\n\nb\n"),
        ("a\n# Setup\nx\n\nb\n", "a\n\nb\n"),
        ("if a:\n    b\n    # Setup\n    x\nc\n", "if a:\n    b\nc\n"),
        ("a\n\n# Setup\nx\nb\n", "a\n\n# Setup\nb\n"),  # it heads more
        ("a\n# Move\nx\n# Next\nb\n", "a\n# Next\nb\n"),
        ("a\n\n# May head both\nx\n# Next\nb\n", "a\n\n# May head both\n# Next\nb\n"),
        ("a:\n    # May head both\n    x\n    # Next\n    b\n", "a:\n    # May head both\n    # Next\n    b\n"),
        ("# Of the file\nx\n\nb\n", "# Of the file\n\nb\n"),
        ("a\n\n# Apart\n\nx\n\nb\n", "a\n\n# Apart\n\nb\n"),
        ("a\n\n# 1. Setup\nx\n\nb\n", "a\n\n# 1. Setup\nb\n"),  # a step of several paragraphs
        ("a\n\n# --- Step 2: Setup ---\nx\n\nb\n", "a\n\n# --- Step 2: Setup ---\nb\n"),
        ("a\n\n# 1. Setup\nx\n\n# 2. Train\nb\n", "a\n\n# 2. Train\nb\n"),
        ("if a:\n    b\n    # 1. Setup\n    x\n\nc\n", "if a:\n    b\n\nc\n"),
        ("a\n\n# Setup\nx\n\nx\n\nb\n", "a\n\nb\n"),  # and the paragraph below it
        ("a\n\n# 1. Setup\nx\n\nx\n\n# 2. Train\nb\n", "a\n\n# 2. Train\nb\n"),
    ],
)
def test_a_comment_goes_with_all_that_it_heads(text: str, left: str) -> None:
    starts = [place for place in range(len(text)) if text.startswith("x\n", place)]
    edits = [edit(*whole_lines(text, text.rindex("\n", 0, start) + 1, start + 1)) for start in starts]
    assert apply_edits(text, joined_removals(text, without_orphans(text, edits))) == left
    assert without_orphans(text, edits, [starts[0]]) == edits


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\n\n# === GPU ===\n\nx\n\n# === Data ===\nb\n", "a\n\n# === Data ===\nb\n"),
        ("a\n\n# ===\n# GPU\n# ===\nx\n\nx\n\n# ===\n# Data\n# ===\nb\n", "a\n\n# ===\n# Data\n# ===\nb\n"),
        ("a:\n    # --- GPU ---\n    x\n    # --- Data ---\n    b\n", "a:\n    # --- Data ---\n    b\n"),
        ("a:\n    b\n    # --- GPU ---\n\n    x\n\nb\n", "a:\n    b\n\nb\n"),  # the gap behind it is another's
        ("a\n\n# --- Memory ---\n\n# why\nx\n\n", "a\n\n"),
        ("a\n\n# === GPU ===\nx\n\n# --- Sizes ---\nx\n\n# === Data ===\nb\n", "a\n\n# === Data ===\nb\n"),
        ("a\n\n# === GPU ===\n\nx\n\n# %% [cell 3]\nb\n", "a\n\n# %% [cell 3]\nb\n"),
        # It heads more, of a lower rank as well; it headed nothing before; it is the file's.
        ("a\n\n# === GPU ===\n\nx\n\nb\n", "a\n\n# === GPU ===\n\nb\n"),
        ("a\n\n# === GPU ===\n\nx\n\n# note\n", "a\n\n# === GPU ===\n\n# note\n"),
        ("a\n\n# === Run ===\n\nx\n\n# --- Data ---\nb\n", "a\n\n# === Run ===\n\n# --- Data ---\nb\n"),
        ("a\nx\n\n# === GPU ===\n\n# === Data ===\nb\n", "a\n\n# === GPU ===\n\n# === Data ===\nb\n"),
        ("# === GPU ===\n\nx\n\n# === Data ===\nb\n", "# === GPU ===\n\n# === Data ===\nb\n"),
    ],
)
def test_a_banner_goes_with_all_of_its_section(text: str, left: str) -> None:
    starts = [place for place in range(len(text)) if text.startswith("x\n", place)]
    edits = [edit(*whole_lines(text, start, start + 1)) for start in starts]
    grown = without_bare_banners(text, without_orphans(text, edits))
    assert apply_edits(text, joined_removals(text, grown)) == left


def test_a_banner_stays_above_what_is_said_or_written() -> None:
    text = "a\n\n# === GPU ===\n\nx\n\n# === Data ===\nb\n"
    gone = edit(*whole_lines(text, text.index("x"), text.index("x") + 1))
    assert without_bare_banners(text, [gone], [text.index("x")]) == [gone]
    assert without_bare_banners(text, [gone, edit(gone.end, gone.end, "y\n")])[0] == replace(gone, start=3)
    inside = [edit(gone.start, gone.start, "y\n"), gone]
    assert without_bare_banners(text, inside) == inside


def test_spans_hold_the_offsets_that_one_of_them_holds() -> None:
    spans = [(5, 9), (0, 3), (6, 7), (12, 12), (1, 8), (20, 21)]
    held = Spans(spans)
    assert [offset in held for offset in range(-1, 25)] == [within(offset, spans) for offset in range(-1, 25)]
    assert 0 not in Spans([])
