"""Values: what is certain at port time, and what only the running script can say."""

from __future__ import annotations

from typing import Any

import pytest

from porter.engine.packs.facts import note_facts
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from porter.source.dictionaries.items import dict_items
from porter.source.module import Module
from porter.source.parsing import parse_module
from porter.source.read_value import read_value
from porter.source.values import Unknown, evaluate

FACTS = facts_in(load_packs())


def known(text: str) -> Module:
    """The module of a text, with what the packs say of their libraries' names."""
    module = parse_module(text.encode(), "train.py")
    note_facts(module, FACTS)
    return module


def value(text: str) -> Any:
    """The value of `f`'s argument in the last call of `f`; Unknown when it isn't certain."""
    module = known(text)
    call = [call for call in module.calls if module.code(call.func) == "f"][-1]
    return evaluate(module, call.args[0].value)


@pytest.mark.parametrize(
    "text",
    [
        "f(x)",
        "x = g()\nf(x)",
        "x = 1\nx = 2\nf(x)",
        "x = 1\nx = True\nf(x)",
        "x = 1\nx = g()\nf(x)",
        "x = 1\nx = 1\nx += 1\nf(x)",
        "x = [1]\nx = [1]\nf(x)",
        "if a:\n    x = 1\nf(x)",
        "def g(x=1):\n    f(x)",
        "for x in y:\n    f(x)",
        "x = [1]\nx.append(2)\nf(x)",
        "d = {'a': 1}\nd['a'] = 2\nf(d)",
        "f(2 ** 10 ** 9)",
        "f('a' * 10 ** 9)",
        "f(1 / 0)",
        "f([*x])",
        "f(f'{x!r}')",
        "int = g\nf(int('3'))",
        "a, b = g()\nf(a)",
        "f(not_imported.bfloat16)",
    ],
)
def test_not_certain(text: str) -> None:
    with pytest.raises(Unknown):
        value(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f(2e-4)", 2e-4),
        ("LR = 2e-4\nf(LR)", 2e-4),
        ("N = 8\nf(N)\nN = 4 * 2\nf(N)", 8),
        ("KIND = None\nif g():\n    KIND = None\nf(KIND)", None),
        ("A, B = 'x', 3\nf(B)", 3),
        ("LR: float = 1e-5\nf(LR)", 1e-5),
        ("B = 8\nf(64 // B)", 8),
        ("N = 'a'\nf(f'out/{N}-{3:02d}')", "out/a-03"),
        ("T = False\nf(1 if T else 4)", 4),
        ("D = dict(a=1, **{'b': 2})\nf(D)", {"a": 1, "b": 2}),
        ("D = {'a': 1}\nf(D['a'])", 1),
        ("f('a' 'b')", "ab"),
        ("f(-1)", -1),
        ("f(1_000)", 1000),
        ("f(None or 3)", 3),
        ("f(int('12'))", 12),
        ("X = 1\ndef g():\n    f(X)", 1),
        ("import torch\nf(torch.bfloat16)", "bfloat16"),
        ("import torch\nf(getattr(torch, 'float16'))", "float16"),
        ("from peft import TaskType\nf(TaskType.CAUSAL_LM)", "CAUSAL_LM"),
        ("from transformers import IntervalStrategy as I\nf(I.EPOCH)", "epoch"),
        ("import torch\nf(torch.cuda.is_bf16_supported())", True),
    ],
)
def test_certain(text: str, want: Any) -> None:
    got = value(text)
    assert got == want and type(got) is type(want)


def test_a_value_keeps_its_spelling_and_its_place() -> None:
    module = parse_module(b"LR = 2e-4\nf(LR)\n", "train.py")
    got = read_value(module, module.calls[0].args[0].value, "TP101")
    assert (got.kind, got.code, got.text) == ("literal", "0.0002", "LR")
    assert got.origin is not None and (got.origin.line, got.origin.column, got.origin.rule) == (2, 3, "TP101")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f(**{'a': 1, 'b': g()})", ["a", "b"]),
        ("D = dict(a=1)\nf(**D)", ["a"]),
        ("D = {'a': 1}\nE = {**D, 'b': 2}\nf(**E)", ["a", "b"]),
        ("D = {'a': 1}\nD['b'] = 2\nf(**D)", None),
        ("D = {'a': 1}\nD.update(b=2)\nf(**D)", None),
        ("f(**g())", None),
        ("f(**{k: 1})", None),
        ("class C:\n    d = {'a': 1}\nc = C()\nprint(c.d['a'])\nf(**c.d)", ["a"]),
        ("class C:\n    d = dict(a=1)\n    def m(self):\n        f(**self.d)", ["a"]),
        ("class C:\n    d = {'a': 1}\nf(**C.d)", ["a"]),
        ("class C:\n    x = 1\n    d = {'a': x}\nf(**C.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C()\nc.d['b'] = 2\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C()\nc.d.update(b=2)\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C()\nc.d = {}\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C()\ne = c.d\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C(**g())\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = C()\nsetattr(c, 'd', {})\nf(**c.d)", None),
        ("class C:\n    d = {'a': 1}\nc = g()\nf(**c.d)", None),
    ],
)
def test_the_keywords_of_a_spread_argument(text: str, want: list[str] | None) -> None:
    module = known(text)
    call = next(call for call in module.calls if module.code(call.func) == "f")
    items = dict_items(module, call.args[0].value)
    assert (None if items is None else [name for name, _ in items]) == want


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('("q_proj", "v_proj")', '("q_proj", "v_proj")'),
        ("(1,)", "(1,)"),
        ("(*names, 2)", "(*names, 2)"),
        ("((a, b))", "(a, b)"),
        ("(name for name in names)", "(name for name in names)"),
        ("(chosen := names)", "(chosen := names)"),
        ("(1 + b)", "1 + b"),
    ],
)
def test_what_is_nothing_without_its_parentheses_keeps_them(written: str, text: str) -> None:
    module = parse_module(f"f(x={written})\n".encode(), "train.py")
    assert read_value(module, module.calls[0].args[0].value).text == text
