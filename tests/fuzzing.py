"""Scripts of ours, mutated: what people write in other ways than expected, and what nobody writes."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*ROOT.glob("rules/*/cases/*/before.py"), *ROOT.glob("examples/*[!_]*.py")])
SEEDS = [
    path.read_bytes().decode() for path in SOURCES if path.stat().st_size < 6_000 and b"\0" not in path.read_bytes()
]
ODD = [
    "None",
    "()",
    "[]",
    "{}",
    "0",
    "-1",
    "1e999",
    "float('nan')",
    "''",
    "'\\x1b[2J'",
    "b'x'",
    "...",
    "x",
    "lambda: x",
    "(yield_ := 1)",
    "[*x]",
    "{**x}",
    "f'{x!r:>{y}}'",
    "x if y else z",
    "x[0]",
    "x.y.z",
    "f(*a, **k)",
    "not x",
    "1 + 's'",
    "'%d' % 'a'",
    "open('/dev/zero')",
    "'/dev/zero'",
    "'" + "a" * 300 + "'",
    "{'a': {'b': [1, {2: 3}]}}",
    "10 ** 10 ** 10",
    "True",
    "'no'",
    "'auto'",
    "__import__('os')",
    "await_",
    "x @ y",
    "~1",
    "[i for i in x if i]",
    "'\\ud800'",
    "x\n    if y\n    else z",
    "x(\n    1\n)\n    .y()",
    "x  # why\n    or y",
    "'é漢\\u202e'",
]
AROUND = [
    "if {}:",
    "if not {}:",
    "while True:",
    "for i in range(3):",
    "with open('x') as f:",
    "def main({}=None):",
    "class A:",
    "async def run():",
    "try:",
]
LINES = [
    "# a comment",
    "# TODO(tpu-port TP190): old",
    "",
    "\f",
    "pass",
    "import torch",
    "from trl import *",
    "global x",
    "model = model",
    "trainer = trainer2 = None",
    "del model",
    "model, trainer = trainer, model",
    "args = vars(args)",
    "model = torch.nn.DataParallel(model)",
    "kwargs = dict(**kwargs)",
    "print(f'{args.learning_rate!r} {model}')",
    "x: int = 1; y = 2",
    "@decorated",
    "trainer.train()",
    "trainer.train(resume_from_checkpoint=x)",
    "return trainer",
    "SFTTrainer = type('T', (), {})",
    "model.train().cuda().eval()",
    "assert trainer",
    "if x: trainer.train()",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of our scripts after one to five changes; it may be no Python any more."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 5))):
        text = draw(st.sampled_from(CHANGES))(draw, text)
    return text


def _move(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at, to, count = draw(_index(lines)), draw(_index(lines)), draw(st.integers(1, 4))
    taken = lines[at : at + count]
    rest = lines[:at] + lines[at + count :]
    return "".join(rest[:to] + taken + rest[to:])


def _double(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at, count = draw(_index(lines)), draw(st.integers(1, 6))
    return "".join(lines[: at + count] + lines[at : at + count] + lines[at + count :])


def _drop(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = draw(_index(lines))
    return "".join(lines[:at] + lines[at + draw(st.integers(1, 3)) :])


def _insert(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = draw(_index(lines))
    space = lines[at][: len(lines[at]) - len(lines[at].lstrip(" \t"))] if lines else ""
    return "".join([*lines[:at], f"{space}{draw(st.sampled_from(LINES))}\n", *lines[at:]])


def _wrap(draw: st.DrawFn, text: str) -> str:
    """Whole statements of the top level below an if, a loop, a try or in a function."""
    spans = _statements(text)
    if not spans:
        return text
    lines = text.splitlines(keepends=True)
    first = draw(st.integers(0, len(spans) - 1))
    start, end = spans[first][0], spans[min(len(spans) - 1, first + draw(st.integers(0, 5)))][1]
    head = draw(st.sampled_from(AROUND)).format(
        draw(st.sampled_from(["x", "args", "torch.cuda.is_available()", "a==1"]))
    )
    head = head.replace("def main(torch.cuda.is_available()", "def main(b").replace("def main(a==1", "def main(a")
    tail = "except Exception as e:\n    raise\n" if head == "try:" else ""
    inside = [f"    {line}" if line.strip() else line for line in lines[start:end]]
    return "".join([*lines[:start], f"{head}\n", *inside, tail, *lines[end:]])


def _value(draw: st.DrawFn, text: str) -> str:
    """The value of a keyword, or of an assignment, becomes an odd one."""
    return _replaced(draw, text, _values(text), draw(st.sampled_from(ODD)))


def _spread(draw: st.DrawFn, text: str) -> str:
    """`f(a, k=v)` → `f(a, **dict(k=v))`, or `f(a, **{'k': v})`."""
    keywords = [node for node in _nodes(text) if isinstance(node, ast.keyword) and node.arg]
    if not keywords:
        return text
    node = draw(st.sampled_from(keywords))
    code = ast.get_source_segment(text, node.value) or "x"
    new = draw(
        st.sampled_from(
            [f"**dict({node.arg}={code})", f"**{{'{node.arg}': {code}}}", f"**({{}} | dict({node.arg}={code}))"]
        )
    )
    return _replaced(draw, text, [_place(text, node)], new)


def _split(draw: st.DrawFn, text: str) -> str:
    """The value of a keyword gets a name of its own in front of the statement."""
    spans, values = _statements(text), _values(text)
    if not spans or not values:
        return text
    start, end = draw(st.sampled_from(values))
    line = text.count("\n", 0, start)
    lines = text.splitlines(keepends=True)
    first = max((begin for begin, _ in spans if begin <= line), default=0)
    whole = text[:start] + "part" + text[end:]
    lines = whole.splitlines(keepends=True)
    code = " ".join(text[start:end].split()) if "#" not in text[start:end] else "None"
    return "".join([*lines[:first], f"part = {code}\n", *lines[first:]])


def _rename(draw: st.DrawFn, text: str) -> str:
    names = sorted({node.id for node in _nodes(text) if isinstance(node, ast.Name)})
    if len(names) < 2:
        return text
    one, other = (
        draw(st.sampled_from(names)),
        draw(st.sampled_from([*names, "é", "rt", "mesh", "batches", "optimizer"])),
    )
    import re

    return re.sub(rf"\b{re.escape(one)}\b", other, text)


def _characters(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    piece = draw(
        st.sampled_from(
            ["\\\n", "  # é漢\u202e\x1b", "\t", "(", ")", "'", '"""', ";", "\r\n", "\f", ",", "*", "**", "\u00a0"]
        )
    )
    return text[:at] + piece + text[at:]


def _newlines(draw: st.DrawFn, text: str) -> str:
    return text.replace("\n", draw(st.sampled_from(["\r\n", "\r"]))) if "\r" not in text else text


def _tabs(draw: st.DrawFn, text: str) -> str:
    return text.replace("    ", draw(st.sampled_from(["\t", "  "])))


def _localise(draw: st.DrawFn, text: str) -> str:
    """The imports of the top level go into the functions, or away."""
    spans = [(start, end) for start, end in _statements(text) if _is_import(text, start)]
    heads = [
        node.body[0].lineno - 1
        for node in _nodes(text)
        if isinstance(node, ast.FunctionDef) and node.col_offset == 0 and node.body[0].lineno > node.lineno
    ]
    if not spans:
        return text
    lines = text.splitlines(keepends=True)
    taken = draw(st.lists(st.sampled_from(spans), min_size=1, unique=True))
    moved = [f"    {line}" if line.strip() else line for start, end in sorted(taken) for line in lines[start:end]]
    gone = {line for start, end in taken for line in range(start, end)}
    found = []
    for number, line in enumerate(lines):
        if number in heads:
            found += moved
        if number not in gone:
            found.append(line)
    return "".join(found)


def _is_import(text: str, line: int) -> bool:
    return text.splitlines()[line].startswith(("import ", "from "))


def _bare(draw: st.DrawFn, text: str) -> str:
    """A call loses all or some of its arguments."""
    calls = [node for node in _nodes(text) if isinstance(node, ast.Call) and (node.args or node.keywords)]
    if not calls:
        return text
    node = draw(st.sampled_from(calls))
    everything = [*node.args, *node.keywords]
    kept = [] if draw(st.booleans()) else draw(st.lists(st.sampled_from(everything), unique=True))
    code = [ast.get_source_segment(text, item) or "x" for item in everything if item in kept]
    function = ast.get_source_segment(text, node.func) or "f"
    return _replaced(draw, text, [_place(text, node)], f"{function}({', '.join(code)})")


CHANGES = [
    _move,
    _double,
    _drop,
    _insert,
    _wrap,
    _wrap,
    _value,
    _value,
    _value,
    _spread,
    _split,
    _localise,
    _bare,
    _rename,
    _characters,
    _newlines,
    _tabs,
]


def _index(lines: list[str]) -> st.SearchStrategy[int]:
    return st.integers(0, max(0, len(lines) - 1))


def _nodes(text: str) -> list[ast.AST]:
    """The nodes of the text; none where `ast` counts other lines than `_place` does."""
    if "\r" in text or "\f" in text:
        return []
    try:
        return list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return []


def _statements(text: str) -> list[tuple[int, int]]:
    """First line and the line behind of every statement of the top level, from 0."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [(node.lineno - 1, node.end_lineno or node.lineno) for node in body]


def _place(text: str, node: ast.AST) -> tuple[int, int]:
    """Start and end of a node; columns of `ast` count bytes."""
    lines = text.split("\n")

    def offset(line: int, column: int) -> int:
        before = sum(len(part) + 1 for part in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:column].decode(errors="ignore"))

    return (
        offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
        offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def _values(text: str) -> list[tuple[int, int]]:
    return [_place(text, node.value) for node in _nodes(text) if isinstance(node, ast.keyword | ast.Assign)]


def _replaced(draw: st.DrawFn, text: str, places: list[tuple[int, int]], new: str) -> str:
    if not places or "\r" in text or "\f" in text:
        return text
    start, end = draw(st.sampled_from(places))
    return text[:start] + new + text[end:]
