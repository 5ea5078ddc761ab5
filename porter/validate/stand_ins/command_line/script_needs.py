"""What a script needs of its command line without a parser's saying so: words by number, settings it insists on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

READING = ("load_dataset", "load_from_disk", "read_csv", "read_json", "read_parquet", "from_json", "from_csv", "open")
LOADING = ("from_pretrained",)


def insisted_on(tree: ast.AST) -> set[str]:
    """Names of settings without which the script stops: `assert args.model`, `if not base_model: raise ...`, and where
    an `else:` does; and what holds several: `missing = [name for name, value in asked.items() if not value]`, `if
    missing: raise ...`."""
    found: set[str] = set()
    lists = dict(_lists_of_missing(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.update(_wanted(node.test))
        elif isinstance(node, ast.If) and any(_stops(line) for line in node.body):
            found.update(_missing(node.test))
            named = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)} & {*lists}
            found.update(name for each in named for name in (each, *lists[each]))
        elif isinstance(node, ast.If) and any(_stops(line) for line in node.orelse):
            found.update(_wanted(node.test))
    return found


def _lists_of_missing(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Names that hold those of several settings which have no value, each with the names of what holds these."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.ListComp | ast.SetComp):
            continue
        loop = node.value.generators[0]
        if any(isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) for test in loop.ifs):
            held = {part.id for part in ast.walk(loop.iter) if isinstance(part, ast.Name)}
            yield from ((name, held) for target in node.targets for name in _names(target))


def read_unasked(tree: ast.AST, modules: Sequence[ast.AST] = ()) -> set[str]:
    """Settings that name the data or the model that the script reads, and that it nowhere asks about:
    `load_dataset(args.data)`, `from_pretrained(args.model)`.

    Functions and classes of the script and of `modules` that read what they are given count as reading it.
    """
    asked, read = set[str](), set[str]()
    readers = _readers([tree, *modules])
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            asked |= {part.attr for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
        elif isinstance(node, ast.BoolOp):
            asked |= {part.attr for part in node.values if isinstance(part, ast.Attribute)}
        elif isinstance(node, ast.Call):
            read |= {part.attr for part in _read_by(node, readers) if isinstance(part, ast.Attribute)}
    return read - asked


def _readers(trees: Sequence[ast.AST]) -> dict[str, set[tuple[int, str]]]:
    """What the functions and classes of these modules read as it is given: places and names of their parameters."""
    found: dict[str, set[tuple[int, str]]] = {}
    bodies: list[tuple[str, list[str], list[ast.Call]]] = []
    for node in (node for tree in trees for node in ast.walk(tree)):
        name, made = getattr(node, "name", ""), node
        if isinstance(node, ast.ClassDef):
            made = next((one for one in node.body if getattr(one, "name", "") == "__init__"), node)
        if isinstance(made, ast.FunctionDef) and name != "__init__":
            asked = {name for part in ast.walk(made) for name in _asked_in(part)}
            names = [one.arg for one in made.args.args[1 if made is not node else 0 :]]
            names = ["" if one in asked else one for one in names]
            bodies.append((name, names, [part for part in ast.walk(made) if isinstance(part, ast.Call)]))
    count = -1
    while count != (count := sum(map(len, found.values()))):
        for name, names, calls in bodies:
            read = {part.id for call in calls for part in _read_by(call, found) if isinstance(part, ast.Name)}
            found.setdefault(name, set()).update((names.index(one), one) for one in read & {*names})
    return found


def _read_by(call: ast.Call, readers: dict[str, set[tuple[int, str]]]) -> Iterator[ast.expr]:
    """What a call reads of its arguments."""
    name = next(_names(call.func), "")
    places = {(0, "path"), (-1, "data_files")} if name in READING else readers.get(name, set())
    places = {(0, "pretrained_model_name_or_path")} if name in LOADING else places
    for place, parameter in places:
        given = [word.value for word in call.keywords if word.arg == parameter]
        for value in [*(call.args[place : place + 1] if place >= 0 else []), *given]:
            yield from value.values if isinstance(value, ast.Dict) else [value]


def _asked_in(node: ast.AST) -> Iterator[str]:
    """Names that are asked for being empty here."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield from _wanted(node.test)
        yield from _missing(node.test)
    elif isinstance(node, ast.BoolOp):
        yield from (part.id for part in node.values if isinstance(part, ast.Name))


def streams(text: str) -> bool:
    """Whether the script may train on rows that have no number, for which a trainer wants `max_steps`."""
    rows = re.search(r"\bstreaming\s*=\s*(?!False)|\bConstantLengthDataset\(|\bIterableDataset\b", text)
    return rows is not None and "max_steps" not in text


def words_by_number(tree: ast.AST) -> dict[int, str]:
    """The words of `sys.argv` that the script takes without asking how many there are: their numbers and names."""
    found: dict[int, str] = {}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        number = _argument(node)
        if number is not None and not _guarded(node, parents):
            found[number] = _name(node, parents) or found.get(number, f"argument{number}")
        elif isinstance(node, ast.If) and any(_stops(line) for line in node.body):
            for count in _counts(node.test):
                for wanted in range(1, count):
                    found.setdefault(wanted, f"argument{wanted}")
    return {number: found.get(number, f"argument{number}") for number in range(1, max(found, default=0) + 1)}


def assigned_at(tree: ast.AST, line: int) -> set[str]:
    """Names that get a value in this line."""
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno)
        for target in node.targets
        for name in _names(target)
    }


def put_back(tree: ast.AST, line: int) -> bool:
    """Whether what the line asks the environment for goes into the environment, which takes texts alone:
    `os.environ["CUDA_VISIBLE_DEVICES"] = os.getenv("GPU")`."""
    return any(
        isinstance(node, ast.Assign)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and isinstance(node.value, ast.Call)
        and any(isinstance(one, ast.Subscript) and ast.unparse(one.value) == "os.environ" for one in node.targets)
        for node in ast.walk(tree)
    )


def caught(tree: ast.AST, line: int) -> bool:
    """Whether a KeyError in this line is caught where it is raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            names = {part.id for handler in node.handlers for part in ast.walk(handler) if isinstance(part, ast.Name)}
            if names & {"KeyError", "LookupError", "Exception"} or any(one.type is None for one in node.handlers):
                return True
    return False


def _wanted(test: ast.expr) -> Iterator[str]:
    """Names that must hold something for `test` to hold."""
    if isinstance(test, ast.BoolOp):
        for value in test.values if isinstance(test.op, ast.And) else test.values[:1]:
            yield from _wanted(value)
    elif (
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot | ast.NotEq) and _empty(test.comparators[0])
    ):
        yield from _names(test.left)
    else:
        yield from _names(test)


def _missing(test: ast.expr) -> Iterator[str]:
    """Names whose being empty makes `test` hold; the first of those that must be empty together."""
    if isinstance(test, ast.BoolOp):
        for value in test.values if isinstance(test.op, ast.Or) else test.values[:1]:
            yield from _missing(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _names(test.operand)
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq) and _empty(test.comparators[0]):
        yield from _names(test.left)


def _names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr


def _empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, "")


def _stops(line: ast.stmt) -> bool:
    if isinstance(line, ast.Raise):
        return True
    calls = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(calls, ast.Call):
        return False
    called = calls.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("exit", "_exit", "quit", "error", "abort")


def _argument(node: ast.AST) -> int | None:
    """N of `sys.argv[N]` or `argv[N]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or "argv" not in _names(node.value):
        return None
    number = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return number if isinstance(number, int) and number > 0 else None


def _guarded(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    while node in parents:
        above = parents[node]
        if isinstance(above, ast.If | ast.IfExp) and "argv" in ast.dump(above.test) and node is not above.test:
            return True
        if isinstance(above, ast.BoolOp) and node is not above.values[0] and "argv" in ast.dump(above.values[0]):
            return True
        if isinstance(above, ast.Try) and node in above.body:
            return True
        node = above
    return False


def _name(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str | None:
    """What a word is assigned to, with the type that it is made: `int:steps` for `steps = int(sys.argv[1])`."""
    kind = ""
    while node in parents:
        node = parents[node]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
            kind = f"{node.func.id}:"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Attribute):
            return kind + next(_names(node.targets[0]))
        elif isinstance(node, ast.keyword) and node.arg:
            return kind + node.arg
        elif isinstance(node, ast.stmt):
            return None
    return None


def _counts(test: ast.expr) -> Iterator[int]:
    """How many words `sys.argv` must have for `test` not to hold: 3 for `len(sys.argv) != 3` or `< 3`."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or "argv" not in ast.dump(node.left) or "len" not in ast.dump(node.left):
            continue
        limit = node.comparators[0].value if isinstance(node.comparators[0], ast.Constant) else None
        if isinstance(limit, int):
            if isinstance(node.ops[0], ast.Lt | ast.NotEq):
                yield limit
            elif isinstance(node.ops[0], ast.LtE | ast.Eq):
                yield limit + 1
