"""Calls the training of a module that only defines it, as the program that it belongs to would.

What that program would hand over is made up from the signature: numbers, texts and paths by name and annotation, rows
for a Dataset, an object of the project's own class (a dataclass, a pydantic model) with what it requires; without an
annotation by its uses (`unannotated`).
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...source.notebooks.program import program_text
from ..stand_ins.command_line.command_lines import project_of
from ..stand_ins.command_line.made_up_values import number_value, text_value
from ..stand_ins.command_line.project import project_sources
from ..world.platforms import Artifact
from .unannotated import Settings, as_settings, defaults_of, defaults_of_files, is_settings, made_up_by_use

DEEPEST = 4  # objects within objects that are made up
TEXTS = tuple(
    f"Question {number}: what is {number} plus one? Answer: {number + 1}. " * (number % 7 + 1) for number in range(64)
)
UNCALLED = "uncalled.txt"
GIVEN = "given.json"  # what the source's function was given, which the port's is given as well
UNMADE = "it only defines its training, and {name} wants {missing}, which nothing tells how to make up"
NOTE = "{script} only defines its training: {name} was called, with what is made up for its parameters"
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY,)


class CannotMakeUp(Exception):
    """A parameter of which nothing tells what it takes; the message names it."""


@dataclasses.dataclass
class Known:
    """What tells of parameters without an annotation: the project's modules, and what the other side was given."""

    trees: list[ast.Module] = dataclasses.field(default_factory=list)
    given: dict[str, Any] = dataclasses.field(default_factory=dict)
    project: Path | None = None

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Of the project's parsers and dataclasses, else of its YAML files."""
        files = defaults_of_files(self.project) if self.project is not None else {}
        return files | {name: value for name, value in defaults_of(self.trees).items() if value is not None}


def call_training(script: Path, names: Mapping[str, Any], folder: Path, note: Callable[[str], None]) -> None:
    """Call what trains of `script`, whose module-level names are `names`; nothing where it isn't certain.

    Where something that it wants can't be made up, `folder`/uncalled.txt says what. Whatever the call raises is the
    script's own.
    """
    found = training_of(program_text(script))
    if not found:
        return
    *owner, name = found.split(".")
    known = _known(script, folder)
    try:
        holder = names.get(owner[0]) if owner else None
        maker = made_up_object(holder, known=known) if isinstance(holder, type) else None
        function = names.get(name) if maker is None else getattr(maker, name)
        if not callable(function):
            return
        places, words = made_up_arguments(function, known=known)
        before = methods_before(program_text(script), found)
        firsts = [(each, made_up_arguments(getattr(maker, each), known=known)) for each in before]
    except CannotMakeUp as missing:
        (folder / UNCALLED).write_text(UNMADE.format(name=found, missing=missing), encoding="utf-8")
        return
    note(NOTE.format(script=script.name, name=found))
    (folder.parent / GIVEN).write_text(json.dumps(known.given, default=vars), encoding="utf-8")
    for each, (given, named) in firsts:
        note(f"{owner[0]}.{each} was called before, without which {name} ends")
        getattr(maker, each)(*given, **named)
    function(*places, **words)


def methods_before(text: str, training: str) -> list[str]:
    """The methods of its class that a method needs to have been called: `if self.model is None: raise`, where another
    one makes `self.model`. In the order of the class."""
    owner, _, name = training.rpartition(".")
    classes = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == owner)
    methods = {each.name: each for node in classes for each in node.body if isinstance(each, ast.FunctionDef)}
    found, waiting = set[str](), [name]
    while waiting:
        asked = methods.get(waiting.pop())
        wanted = _asked_of_self(asked) if asked is not None else set()
        makers = [each for each in methods if wanted & _made_of_self(methods[each])]
        new = {each for each in makers if each not in found and each not in ("__init__", name)}
        found |= new
        waiting += new
    return [each for each in methods if each in found]


def _asked_of_self(method: ast.FunctionDef) -> set[str]:
    """Attributes of its object without which a method raises at once."""
    return {
        part.attr
        for line in method.body
        if isinstance(line, ast.If) and isinstance(line.body[-1], ast.Raise)
        for part in ast.walk(line.test)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self"
    }


def _made_of_self(method: ast.FunctionDef) -> set[str]:
    """Attributes of its object that a method sets."""
    nodes = (part for part in ast.walk(method) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
    return {part.attr for part in nodes if ast.unparse(part.value) == "self"}


def training_of(text: str) -> str:
    """`train` or `Class.method`: the definition of a module that trains and that nothing of it calls; "" where the
    module runs something itself, or there isn't one alone."""
    tree = ast.parse(text)
    if any(_runs(line) for line in tree.body):
        return ""
    definitions = dict(_definitions(tree))
    calls = {name: set(_called(node, name.rpartition(".")[0], definitions)) for name, node in definitions.items()}
    reached = {name: _closure(name, calls) for name in definitions}
    said = {
        name: "".join(ast.unparse(definitions[each]) for each in sorted(each_reached))
        for name, each_reached in reached.items()
    }
    training = [
        name for name in definitions if re.search(r"Trainer\(", said[name]) and re.search(r"\.train\(", said[name])
    ]
    roots = [name for name in training if not any(name in reached[other] for other in training if other != name)]
    return roots[0] if len(roots) == 1 else ""


def _known(script: Path, folder: Path) -> Known:
    trees: list[ast.Module] = []
    for text in [program_text(script), *project_sources(script)]:
        with contextlib.suppress(SyntaxError, ValueError):
            trees.append(ast.parse(text))
    file = next((each / GIVEN for each in list(folder.parents)[:2] if (each / GIVEN).is_file()), None)
    given = as_settings(json.loads(file.read_text(encoding="utf-8"))) if file is not None else {}
    return Known(trees, given, project_of(script))


def made_up_arguments(
    function: Callable[..., Any], depth: int = 0, known: Known | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """What a call must give, by place and by keyword.

    CannotMakeUp names the parameter of which nothing tells what it takes.
    """
    hints = _hints(function)
    required = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    own = Known() if known is None else known

    def value_of(name: str) -> Any:
        mapping = _is_mapping(hints.get(name))
        if known is None or (name in hints and not mapping and not _says_nothing(hints[name])):
            return made_up(name, hints.get(name), depth, known)
        made = own.given[name] if name in own.given else _by_use(function, name, own, mapping)
        if isinstance(made, bool | int | float | str | Settings):
            own.given[name] = made
        if not mapping or not isinstance(made, Settings):
            return made
        kind = hints[name]  # a dict of the project's own may answer as attributes, too
        own_kind = (
            isinstance(kind, type) and kind is not dict and not inspect.isabstract(kind) and not _of_library(kind)
        )
        return kind(made.as_dict()) if own_kind else made.as_dict()

    made = {
        kinds: [(each.name, value_of(each.name)) for each in required if each.kind in kinds]
        for kinds in (BY_PLACE, BY_KEYWORD)
    }
    given = dict(made[BY_KEYWORD])
    for names in wanted_one_of(function) if known is not None else ():
        for name in names:
            with contextlib.suppress(CannotMakeUp):
                given[name] = made_up(name, _without_none(hints.get(name)), depth, known)
                break
    return [value for _, value in made[BY_PLACE]], given


def wanted_one_of(function: Callable[..., Any]) -> Iterator[list[str]]:
    """Parameters that are None unless given and of which the function wants one: `if rows: ... elif path: ... else:
    raise`, `if rows is None and path is None: raise`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    optional = {each.name for each in inspect.signature(function).parameters.values() if each.default is None}
    inner: set[int] = set()  # links of a chain
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or id(node) in inner:
            continue
        tests, last = [node.test], node
        while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
            inner.add(id(last))
            tests.append(last.test)
        ends = last.orelse or (node.body if _absent(node.test) else [])
        tested = [each.id for test in tests for each in ast.walk(test) if isinstance(each, ast.Name)]
        if ends and isinstance(ends[-1], ast.Raise) and tested and set(tested) <= optional:
            yield tested


def _absent(test: ast.expr) -> bool:
    """Whether a test is that nothing was given: `not rows`, `rows is None`, each `and` the next."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and all(map(_absent, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Is) and isinstance(test.left, ast.Name)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Name)


def _without_none(kind: Any) -> Any:
    """What an `Optional[...]` is of."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next((inner for inner in typing.get_args(kind) if inner is not type(None)), kind)
    return kind


def _is_mapping(kind: Any) -> bool:
    """Whether an annotation is that of a dict, of which the fields aren't told."""
    origin = typing.get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _says_nothing(kind: Any) -> bool:
    """`Any`, `object`, `argparse.Namespace`: any value, or settings with whatever fields are asked for."""
    return kind in (Any, object, types.SimpleNamespace) or getattr(kind, "__name__", "") in ("Namespace", "DictConfig")


def _by_use(function: Callable[..., Any], name: str, known: Known, mapping: bool = False) -> Any:
    """A value by what the function, or its class, does with a parameter; settings go on into others of that name.

    `mapping`: it is annotated as one, which says that it holds settings.
    """
    try:
        node: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # a notebook's
        node = ast.Module([], [])
    if is_settings(name):
        node = ast.Module([line for tree in known.trees for line in tree.body], [])
    try:
        return made_up_by_use(name, node, known.defaults, mapping)
    except LookupError as error:
        raise CannotMakeUp(name) from error


def made_up_object(cls: type, depth: int = 0, known: Known | None = None) -> Any:
    """An object of a class with what it requires."""
    if depth > DEEPEST:
        raise CannotMakeUp(cls.__name__)
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict):  # pydantic
        needed = {name: field.annotation for name, field in fields.items() if field.is_required()}
        return cls(**{name: made_up(name, kind, depth + 1) for name, kind in needed.items()})
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        missing = dataclasses.MISSING
        wanted = [
            f for f in dataclasses.fields(cls) if f.init and f.default is missing and f.default_factory is missing
        ]
        return cls(**{each.name: made_up(each.name, hints.get(each.name), depth + 1) for each in wanted})
    places, words = made_up_arguments(cls, depth + 1, known)
    return cls(*places, **words)


def made_up(name: str, kind: Any, depth: int = 0, known: Known | None = None) -> Any:
    """A value for a parameter or field of this name and annotation."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if type(None) in inner else made_up(name, inner[0], depth)
    if origin is typing.Literal:
        return inner[0]
    if kind is bool:
        return False
    if kind is int:
        return int(number_value(name)) or 1
    if kind is float:
        return float(number_value(name))
    if kind is str:
        return text_value(name)
    if isinstance(kind, type) and issubclass(kind, Artifact):
        return kind(name)
    if isinstance(kind, type) and issubclass(kind, Path):
        return Path(text_value(name))
    if origin in (list, Sequence) and inner[:1] == (str,):
        return list(TEXTS)
    if origin in (list, Sequence) and inner and _is_mapping(inner[0]):  # rows, of whatever is read of them
        return _rows(None)
    if getattr(kind, "__module__", "").startswith("datasets."):
        return _rows(kind)
    if not isinstance(kind, type) or kind.__module__ in ("builtins", "typing") or _of_library(kind):
        raise CannotMakeUp(name)
    try:
        return made_up_object(kind, depth + 1, known)
    except CannotMakeUp:
        raise
    except Exception as error:  # its own checks don't take what is made up
        raise CannotMakeUp(f"{name} ({kind.__name__}: {type(error).__name__})") from error


def _rows(kind: Any) -> Any:
    """A Dataset, a DatasetDict or, for None, a list of rows."""
    import datasets

    if kind is None:
        return datasets.load_dataset("tpu-port/data", split="train").to_list()
    if kind is datasets.Dataset:
        return datasets.load_dataset("tpu-port/data", split="train")
    if kind is datasets.DatasetDict:
        return datasets.load_dataset("tpu-port/data")
    raise CannotMakeUp(kind.__name__)


def _of_library(kind: type) -> bool:
    """Whether a class is of an installed library: an object of it isn't made by its fields."""
    try:
        return "site-packages" in inspect.getfile(kind)
    except (TypeError, OSError):
        return kind.__module__ != "__main__"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    asked = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    try:
        return typing.get_type_hints(asked)
    except Exception:  # a name that is imported for the type checker alone
        return {}


def _runs(line: ast.stmt) -> bool:
    """Whether a module's line does more than define: a call for itself, a block that is entered as a program's."""
    if isinstance(line, ast.If):
        return "__main__" in ast.unparse(line.test)
    return isinstance(line, ast.For | ast.While)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{each.name}", each) for each in node.body if isinstance(each, ast.FunctionDef))


def _called(node: ast.FunctionDef, owner: str, definitions: Mapping[str, ast.FunctionDef]) -> Iterator[str]:
    """Definitions of the file that one calls; a class's are all of its methods. A method's object was made before."""
    if owner:
        yield from (name for name in definitions if name == f"{owner}.__init__")
    for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
        function = call.func
        if isinstance(function, ast.Name):
            yield from (name for name in definitions if name == function.id or name.startswith(f"{function.id}."))
        elif (
            isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self"
        ):
            yield from (name for name in definitions if name == f"{owner}.{function.attr}")


def _closure(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    found, waiting = {name}, [name]
    while waiting:
        new = calls[waiting.pop()] - found
        found |= new
        waiting += new
    return found
