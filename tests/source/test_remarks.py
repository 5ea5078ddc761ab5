"""Which comments belong to which keyword."""

from __future__ import annotations

import libcst as cst
import pytest

from porter.source.remarks import remarks_in


def said(code: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """Value → (the lines above, the comment behind) of the first call or dict in `code`."""
    node = cst.parse_expression(code)
    assert isinstance(node, cst.Call | cst.Dict)
    text = cst.Module([])
    return {
        text.code_for_node(value): (remark.heading.lines if remark.heading else (), remark.behind)
        for value, remark in remarks_in(node).items()
    }


def test_behind_and_above() -> None:
    assert said("f(\n    a=1,  # one\n    # two\n    b=2\n)") == {"1": ((), "# one"), "2": (("# two",), "")}


def test_behind_the_last_argument_with_and_without_a_comma() -> None:
    assert said("f(\n    a=1  # one\n)") == said("f(\n    a=1,  # one\n)") == {"1": ((), "# one")}
    assert said("{\n    'a': 1  # one\n}") == said("{\n    'a': 1,  # one\n}") == {"1": ((), "# one")}


def test_on_one_line_nothing_is_said() -> None:
    assert said("f(a=1, b=2)") == {"1": ((), ""), "2": ((), "")}


def test_a_dict_display() -> None:
    assert said("{\n    'a': 1,  # one\n    # two\n    'b': 2,\n}") == {"1": ((), "# one"), "2": (("# two",), "")}


def test_a_line_above_speaks_of_one_keyword() -> None:
    assert said("f(\n    # one\n    a=1,\n    b=2,\n)") == {"1": (("# one",), ""), "2": ((), "")}


@pytest.mark.parametrize("above", ["\n    # data", "    # --- data ---"])
def test_a_section_heads_its_keywords(above: str) -> None:
    heading = (above.strip(),)
    code = f"f(\n    a=1,\n{above}\n    b=2,\n    c=3,\n\n    d=4,\n)"
    assert said(code) == {"1": ((), ""), "2": (heading, ""), "3": (heading, ""), "4": ((), "")}


def test_titles_divide_a_call_without_blank_lines() -> None:
    parts = ("# Data", "a=1", "b=2", "# Optimizer", "c=3", "d=4", "# Logging / Hub", "e=5")
    code = "".join(f"    {part}{'' if part.startswith('#') else ','}\n" for part in parts)
    headings = [lines for lines, _ in said(f"f(\n{code})").values()]
    assert headings == [("# Data",), ("# Data",), ("# Optimizer",), ("# Optimizer",), ("# Logging / Hub",)]


def test_the_opening_line_may_open_a_section() -> None:
    found = said("f(  # data\n    a=1,\n    b=2,\n\n    c=3,\n)")
    assert [lines for lines, _ in found.values()] == [("# data",), ("# data",), ()]


@pytest.mark.parametrize(
    "line", ["# b=2,", "# b = 2,", "#b=2", "# b=[\n    #     1,\n    # ],", "# b=2,  # two", "# 'b': 2,"]
)
def test_a_keyword_that_is_commented_out_says_nothing(line: str) -> None:
    assert said(f"f(\n    a=1,\n    {line}\n    c=3,\n)")["3"] == ((), "")


@pytest.mark.parametrize("line", ["# rank: 8", "# default = 8", "# see b", "# b=2 trains faster", "# (8,)"])
def test_prose_that_looks_like_code(line: str) -> None:
    assert said(f"f(\n    a=1,\n    {line}\n    c=3,\n)")["3"] == ((line,), "")
