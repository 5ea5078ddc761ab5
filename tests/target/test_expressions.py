"""Small pieces of generated code."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porter.recipe import Value
from porter.source.conditions import bare
from porter.text.expressions import (
    atom,
    choice,
    enclosed,
    number,
    operand,
    parts_of_choice,
    python,
    quoted,
    times,
    type_name,
)


@given(st.text(max_size=20))
def test_a_quoted_text_is_that_text(text: str) -> None:
    assert ast.literal_eval(quoted(text)) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON | st.tuples(st.integers()) | st.tuples(st.integers(), st.text(max_size=3)))
def test_the_literal_of_an_object_is_that_object(value: object) -> None:
    assert ast.literal_eval(python(value)) == value


def test_a_regular_expression_is_raw() -> None:
    assert quoted(r".*\.(q|k)_proj$") == r'r".*\.(q|k)_proj$"'


@pytest.mark.parametrize(
    ("text", "factor", "want"), [("8", 1, "8"), ("8", 2, "16"), ("R", 2, "2 * R"), ("a + b", 2, "2 * (a + b)")]
)
def test_times(text: str, factor: int, want: str) -> None:
    assert times(text, factor) == want


@pytest.mark.parametrize(
    ("text", "alone"), [("a", True), ("a.b", True), ("f(x)", True), ("1", True), ("a + b", False), ("-a", False)]
)
def test_atoms(text: str, alone: bool) -> None:
    assert (atom(text) == text) is alone


def test_a_whole_number_is_written_as_a_float() -> None:
    assert number(Value("literal", "8"), "8") == "8.0"
    assert number(Value("literal", "8"), "ALPHA") == "ALPHA"
    assert number(Value("expression", "alpha"), "alpha") == "alpha"


TYPES = {
    "acme.BF16": "bfloat16",
    "torch.float16": "float16",
    "torch.half": "float16",
    "torch.bfloat16": "bfloat16",
    "torch.float32": "float32",
}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("getattr(torch, args.dtype)", "args.dtype"),
        ("a.t if a.t in ['auto', None] else getattr(torch, a.t)", "a.t"),
        ('(\n    a.t\n    if a.t in ["auto", None]\n    else getattr(torch, a.t)\n)', "a.t"),
        ("t if t == 'auto' else getattr(torch, t)", "t"),
        ("torch.bfloat16 if bf16 else torch.float16", "torch.bfloat16"),
        ("torch.float16 if bf16 else acme.BF16", "acme.BF16"),
        ("torch.float16 if bf16 else torch.half", '"bfloat16"'),
    ],
)
def test_a_type_that_is_looked_up_in_torch_is_its_name(code: str, name: str) -> None:
    assert type_name(code, TYPES) == name


@pytest.mark.parametrize(
    "code", ["torch.float32", "dtype", "getattr(torch, 'a', None)", "a if b else getattr(torch, c)", "f(x"]
)
def test_other_types_stay_as_they_are(code: str) -> None:
    assert type_name(code, TYPES) == code


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f(\n    a,\n)", "f(\n    a,\n)"),
        ("a\n    if b\n\n    else c", "a if b else c"),
        ("a\r\n    + b", "a + b"),
        ("a\r    + b", "a + b"),
        ("a  # why\r    or b", "(a  # why\r    or b)"),
        ("f(\n    a,\n)\n    .g(\n    b)", "f(\n    a,\n).g(\n    b)"),
        ("a \\\n    + b", "a \\\n    + b"),
        ("(a\n+ b)\n if c else (\n d)", "(a\n+ b) if c else (\n d)"),
        ("a  # why\n    or b", "(a  # why\n    or b)"),
        ('"""one\n\ntwo"""\n  + a', '"""one\n\ntwo""" + a'),
    ],
)
def test_an_expression_over_lines_stands_outside_brackets_as_itself(text: str, want: str) -> None:
    assert enclosed(text) == want
    (statement,) = ast.parse(f"_ = {want}").body
    assert isinstance(statement, ast.Assign)
    assert ast.dump(statement.value) == ast.dump(ast.parse(f"(\n{text}\n)", mode="eval").body)


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("(a if b else c)", ("a", "b", "c")),
        (
            '((f("ü") if x == "ü" else y) if (z if q else r) else None)',
            ('(f("ü") if x == "ü" else y)', "(z if q else r)", "None"),
        ),
        ("(a) or (b)", None),
    ],
)
def test_the_parts_of_a_choice(code: str, parts: tuple[str, str, str] | None) -> None:
    assert parts_of_choice(code) == parts


def test_parentheses_around_the_whole_of_it_go() -> None:
    assert [bare(code) for code in ("((a))", "(a) or (b)", "(a, b)")] == ["a", "(a) or (b)", "(a, b)"]


@pytest.mark.parametrize(
    "part", ["a", "a or b", "a if b else c", "lambda: a", "not a", "(x := a)", "a\n    if b\n    else c"]
)
def test_a_choice_is_made_of_any_parts(part: str) -> None:
    whole = ast.parse(f"(\n{part}\n)", mode="eval").body
    for code in (choice(part, "y", "n"), choice("t", part, "n"), choice("t", "y", part)):
        made = ast.parse(f"({code}\n)", mode="eval").body
        assert isinstance(made, ast.IfExp)
        parts = [ast.dump(each) for each in (made.test, made.body, made.orelse)]
        assert ast.dump(whole) in parts, code


@pytest.mark.parametrize("part", ["a", "a.b", "a or b", "a if b else c", "not a", "a == b", "lambda: a"])
def test_an_operand_stays_one(part: str) -> None:
    made = ast.parse(f"{operand(part)} is None", mode="eval").body
    assert isinstance(made, ast.Compare) and ast.dump(made.left) == ast.dump(ast.parse(part, mode="eval").body)
