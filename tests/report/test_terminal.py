from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from porter.port import Port
from porter.report.batch import batch_line, keywords
from porter.report.terminal import HEADINGS, show_port, visible

from . import example


def report(port: Port, width: int = 80, color: bool = False) -> str:
    file = io.StringIO()
    out = Console(file=file, width=width, highlight=False, emoji=False, markup=False, force_terminal=color)
    show_port(port, Path("out.py"), (Path("out.py"),), out)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 120, 160, 240])
def test_every_keyword_value_and_reason_is_there_in_any_width(width: int) -> None:
    text = report(example.port(), width)
    squeezed = re.sub(r"\s+", "", text)
    for field in keywords(example.port().fields):
        assert field.source in text, "a keyword's own name is never broken"
        assert field.fate in text
    assert "…" not in text
    for word in (
        "line 20: schedule = optax.",
        "line 8: args = SFTConfig(",
        "and line 14",
        "compiles",
        "name the layers",
    ):
        assert word.replace(" ", "") in squeezed
    assert "the source's" not in text, "a comment of the port's line"
    assert max(len(line) for line in text.splitlines()) <= max(width, 100)


def test_the_diff_stands_before_the_table_and_the_verdict_last() -> None:
    text = report(example.port())
    assert text.index("--- train.py") < text.index("TP130") < text.index("+trainer.train") < text.index(HEADINGS[1])
    assert text.index(HEADINGS[1]) < text.index("Effective batch") < text.index("partial:")
    assert text.rstrip().endswith("Wrote out.py")


def test_a_finding_has_its_place_its_message_and_what_to_do() -> None:
    text = report(example.port())
    assert "train.py:16:5 warning TP120: matches vision layers" in text
    assert "→ name the layers" in text


def test_the_verdict_counts_the_fates() -> None:
    text = " ".join(report(example.port()).split())
    assert "trl.SFTTrainer → tunix.PeftTrainer; 4 keywords: 1 exact, 1 changed, 1 dropped, 1 manual" in text
    assert "1 finding to look at" in text


def test_an_unchanged_file_is_told_in_a_line() -> None:
    text = report(example.port(after=example.BEFORE, status="unchanged", edits=(), recipe=example.Recipe("train.py")))
    assert text.strip().startswith("unchanged: nothing to port")


def test_colours_only_where_they_are_wanted() -> None:
    assert "\x1b[" in report(example.port(), color=True)
    assert "\x1b[" not in report(example.port())


def test_escape_sequences_of_the_source_are_shown_not_obeyed() -> None:
    assert visible("a\x1b[31m\x0c\tb") == "a\\x1b[31m\\x0c\tb"
    before = example.BEFORE.replace("Fine-tune.", "\x1b[2J")
    text = report(example.port(before=before, after=before.replace("\x1b[2J", "x"), edits=()))
    assert "\x1b" not in text and "\\x1b[2J" in text


def test_the_sum_of_the_batch_stands_below_the_table_and_is_no_keyword() -> None:
    text = " ".join(report(example.port()).split())
    assert "Effective batch: 2 a GPU x 8 accumulated x 4 processes = 64 rows a step → 8 micro-batches of 8 rows" in text
    assert "effective batch" not in text and "4 keywords" in text


def test_what_the_script_decides_when_it_runs_stands_as_its_code() -> None:
    batch = {"batch.per_device": example.Value("expression", "args.batch"), "batch.accumulation": example.value("8", 1)}
    line = batch_line(example.Recipe("x.py").with_values(batch))
    assert line.startswith(
        "Effective batch: args.batch a GPU x 8 accumulated x 1 processes, decided when the script runs"
    )


def test_without_a_batch_there_is_no_arithmetic() -> None:
    assert batch_line(example.Recipe("x.py")) == ""
