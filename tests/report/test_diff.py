from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest

from porter.report.diff import diff_hunks, unified
from porter.text.edit import Edit

from .example import BEFORE, port


def test_equal_texts_have_no_hunk() -> None:
    assert diff_hunks("a\r\n", "a\r\n") == []
    assert unified("a", "a", "x", "y") == ""


def test_each_hunk_carries_the_reasons_of_its_own_edits() -> None:
    example = port()
    first, second = diff_hunks(example.before, example.after, example.edits)
    assert first.why == (("TP001", "imports that the port needs"),)
    assert second.why == (("TP130", "PeftTrainer takes batches"),)
    assert "-import torch" in first.lines and "+import optax" in first.lines
    assert second.lines[-2:] == ('-SFTTrainer("m", args).train()', "+trainer.train(batches)")


def test_a_reason_stands_once_in_a_hunk() -> None:
    edits = [Edit(0, 1, "x", "TP1", "same", 1, 1), Edit(2, 3, "y", "TP1", "same", 2, 1)]
    (hunk,) = diff_hunks("a\nb\n", "x\ny\n", edits)
    assert hunk.why == (("TP1", "same"),)


def test_an_insertion_before_the_first_line_has_a_hunk() -> None:
    (hunk,) = diff_hunks("a\n", "new\na\n", [Edit(0, 0, "new\n", "TP1", "why", 1, 1)])
    assert hunk.header == "@@ -1 +1,2 @@"
    assert hunk.why == (("TP1", "why"),)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\n", "a\nc\n"),
        ("", "a\n"),
        ("a\n", ""),
        ("a\nb", "a\nc"),
        (BEFORE, BEFORE.replace("1e-4", "2e-4").replace('"""Fine', '"""Coarse')),
    ],
)
def test_headers_and_lines_are_those_of_difflib(before: str, after: str) -> None:
    want = [line.rstrip("\n") for line in difflib.unified_diff(before.splitlines(True), after.splitlines(True))][2:]
    got = [line for hunk in diff_hunks(before, after) for line in (hunk.header, *hunk.lines)]
    assert [line for line in got if not line.startswith("\\")] == want


def test_a_change_among_many_equal_lines_stays_small() -> None:
    before = "a\n" * 300 + "b\n" + "a\n" * 300
    (hunk,) = diff_hunks(before, before.replace("b", "c"))
    assert hunk.header == "@@ -298,7 +298,7 @@"


def test_the_diff_applies_with_patch(tmp_path: Path) -> None:
    before, after = "a\nb\nc\n" * 9, "a\nb\nc\n" * 4 + "x\nb\n" + "a\nb\nc\n" * 4
    (tmp_path / "f.txt").write_text(before)
    text = "\n".join(line for hunk in diff_hunks(before, after) for line in (hunk.header, *hunk.lines))
    done = subprocess.run(["patch", "f.txt"], input=f"--- f.txt\n+++ f.txt\n{text}\n", cwd=tmp_path, text=True)
    assert done.returncode == 0
    assert (tmp_path / "f.txt").read_text() == after


def test_form_feeds_and_line_separators_end_no_line() -> None:
    before = "a\x0cb = '\u2028'\nc\n"
    (hunk,) = diff_hunks(before, before.replace("c", "d"))
    assert hunk.header == "@@ -1,2 +1,2 @@"


def test_the_text_form_names_both_files_and_the_rules() -> None:
    example = port()
    text = unified(example.before, example.after, "train.py", "out.py", example.edits)
    assert text.startswith("--- train.py\n+++ out.py\n@@ ")
    assert "\n# TP130: PeftTrainer takes batches\n" in text
