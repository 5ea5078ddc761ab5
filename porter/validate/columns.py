"""Which columns of its dataset a script reads, found in its source, and made-up rows that have them.

Reading is a guess that `--data FILE` overrides: subscripts of the row in functions given to `map`, `filter` or
`formatting_func`, the names in `rename_column` and `remove_columns`, `dataset_text_field`.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Sequence
from typing import Any, Literal

Kind = Literal["text", "messages", "sharegpt", "number", "choice"]

ROW_FUNCTIONS = ("map", "filter")
CONVERSATIONS = ("messages", "conversations", "conversation", "chat")
NUMBERS = ("label", "score", "idx", "id", "length", "rating")
COUNT, MOST = 512, 2_000
SAMPLES = re.compile(r"\b(GRPO|RLOO)Trainer\b")
OF_TRL = {"self", "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}

VERILOG = (
    "a adder always and array assign begin bit buffer by case check clock counter cycle data decode delay device "
    "driver each edge else enable encode end every event false field first flag for from gate given high hold if in "
    "index initial input integer into is it last latch least left level line load loop low mask memory mode module "
    "most next no not of on one only or order out output parity path port pulse queue rate ready register reset "
    "result return right rising sample select sequence shift signal sign size so stage start state step stop store "
    "sum table test than that the then this time to true two type until valid value wait when wide wire with word "
    "write zero"
)
WORDS = VERILOG.split()


def find_columns(sources: Sequence[str], arguments: Sequence[str] = ()) -> dict[str, Kind]:
    """Columns that scripts with these texts read from their dataset, with what each holds.

    `arguments` are command line words (`--dataset_text_field body`). Without any sign of a column the answer is one
    conversational column, `messages`.
    """
    columns: dict[str, Kind] = {}
    made: set[str] = set()
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for function in _row_functions(tree):
            columns.update(_read_by(function))
            made |= _returned_by(function)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for name in _named_by(call, made):
                columns.setdefault(name, _kind(name))
    if any(SAMPLES.search(text) for text in sources):
        columns = {**_rewarded(sources), **columns}
        if "prompt" not in made | set(columns):
            talks = any("[0]" in text and '"content"' in text.replace("'", '"') for text in sources)
            columns["prompt"] = "messages" if talks else "text"
    words = list(arguments)
    for flag, value in itertools.pairwise(words):
        if flag.lstrip("-") == "dataset_text_field":
            columns.setdefault(value, "text")
    if not columns:
        if any(re.search(r"\bKTO(Trainer|Batches)\b", text) for text in sources):
            return {"prompt": "text", "completion": "text", "label": "choice"}
        if any(re.search(r"\b(DPO|ORPO|CPO)Trainer\b", text) for text in sources):
            return {"prompt": "text", "chosen": "text", "rejected": "text"}
        prompted = any("completion_only_loss=True" in text.replace(" ", "") for text in sources)
        return {"prompt": "text", "completion": "text"} if prompted else {"messages": "messages"}
    return columns


def rows_wanted(sources: Sequence[str], least: int) -> int:
    """How many rows to make up: what `.select(range(N))` asks for up to 2,000, but no fewer than `least` and 512."""
    most = max(least, COUNT)
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "min"):
                ends = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and type(arg.value) is int]
                most = max([most, *(min(end, MOST) for end in ends)])
    return most


def made_up_rows(columns: dict[str, Kind], count: int, seed: int = 0) -> list[dict[str, Any]]:
    """`count` rows with these columns; one in four is long, since a wrong rotary embedding hides in short ones."""
    draw = random.Random(seed)
    return [{name: _value(name, kind, draw, index) for name, kind in columns.items()} for index in range(count)]


def _value(name: str, kind: Kind, draw: random.Random, index: int) -> Any:
    if kind == "choice":
        return index % 3 != 0
    if kind == "number":
        return draw.randrange(100)
    long = index % 4 == 3
    if kind == "text":
        return _sentence(draw, 24, 48) if long and name != "prompt" else _sentence(draw, 4, 16)
    role, content = ("from", "value") if kind == "sharegpt" else ("role", "content")
    user, assistant = ("human", "gpt") if kind == "sharegpt" else ("user", "assistant")
    turns = []
    for _ in range(2 if index % 3 == 2 else 1):
        turns.append({role: user, content: _sentence(draw, 4, 12)})
        turns.append({role: assistant, content: _sentence(draw, 24, 40) if long else _sentence(draw, 4, 16)})
    return turns


def _sentence(draw: random.Random, least: int, most: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))


def _row_functions(tree: ast.Module) -> list[ast.FunctionDef | ast.Lambda]:
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found: list[ast.FunctionDef | ast.Lambda] = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given: list[ast.expr] = [word.value for word in call.keywords if word.arg in ("function", "formatting_func")]
        if isinstance(call.func, ast.Attribute) and call.func.attr in ROW_FUNCTIONS:
            given += call.args[:1]
        for value in given:
            if isinstance(value, ast.Lambda):
                found.append(value)
            elif isinstance(value, ast.Name) and value.id in defined:
                found.append(defined[value.id])
    return found


def _read_by(function: ast.FunctionDef | ast.Lambda) -> dict[str, Kind]:
    parameters = function.args.posonlyargs + function.args.args
    if not parameters:
        return {}
    row = parameters[0].arg
    columns: dict[str, Kind] = {}
    for node in ast.walk(function):
        name = _column(node, row)
        if name is not None:
            columns.setdefault(name, _kind(name))
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
            name = _column(node.iter, row)
            inner = {key for key in (_column(part, node.target.id) for part in ast.walk(function)) if key}
            if name is not None and inner:
                columns[name] = "sharegpt" if inner & {"from", "value"} else "messages"
        elif isinstance(node, ast.Compare):
            numbers = [part for part in node.comparators if isinstance(part, ast.Constant)]
            name = _column(node.left, row)
            if name is not None and any(type(part.value) in (int, float) for part in numbers):
                columns[name] = "number"
        elif isinstance(node, ast.Attribute) and node.attr in ("split", "strip", "replace", "lower", "format"):
            name = _column(node.value, row)
            if name is not None:
                columns[name] = "text"
    return columns


def _column(node: ast.AST, row: str) -> str | None:
    """`x` for `row["x"]` and `row.get("x")` where they are read."""
    owner: ast.expr
    key: ast.expr
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        owner, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        owner, key = node.func.value, node.args[0]
    else:
        return None
    if isinstance(owner, ast.Name) and owner.id == row and isinstance(key, ast.Constant):
        return key.value if isinstance(key.value, str) else None
    return None


def _returned_by(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    if isinstance(function, ast.Lambda):
        values.append(function.body)
    keys = [key for value in values if isinstance(value, ast.Dict) for key in value.keys]
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _rewarded(sources: Sequence[str]) -> dict[str, Kind]:
    """Columns that reward functions, which have a parameter `completions` or `completion_ids`, take by name."""
    found: dict[str, Kind] = {}
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {word.arg for word in (*node.args.args, *node.args.kwonlyargs)}
                if names & {"completions", "completion_ids"}:
                    found |= {name: _kind(name) for name in sorted(names - OF_TRL)}
    return found


def _named_by(call: ast.Call, made: set[str]) -> list[str]:
    names: list[ast.expr] = []
    attribute = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if attribute in ("rename_column", "remove_columns", "select_columns") and call.args:
        names.append(call.args[0])
    names += [word.value for word in call.keywords if word.arg in ("dataset_text_field", "remove_columns")]
    flat = [part for name in names for part in (name.elts if isinstance(name, ast.List | ast.Tuple) else [name])]
    strings = [part.value for part in flat if isinstance(part, ast.Constant)]
    return [text for text in strings if isinstance(text, str) and text not in made]


def _kind(name: str) -> Kind:
    if name in CONVERSATIONS:
        return "sharegpt" if name == "conversations" else "messages"
    return "number" if name in NUMBERS else "text"
