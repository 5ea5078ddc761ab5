"""Signatures of functions and classes as their source gives them: parameters, defaults, what else is taken."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

CLOSED, EXTENDS, ANY = "closed", "extends", "any"
UNKNOWN = "?"
"""Stands for a default that isn't a literal."""


@dataclass
class Signature:
    """Parameters with the text of their defaults (None where one is required), and what happens to other keywords.

    `mode`: "closed" refuses them, "extends" hands them to the class that is extended, "any" takes them. `idle` are
    deprecated fields that are taken, warned about and never looked at again.
    """

    takes: dict[str, str | None] = field(default_factory=dict)
    mode: str = CLOSED
    deprecated: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_signature(node: Function, *, method: bool = False) -> Signature:
    """Of a function as it is written; old names that its decorators translate count as parameters."""
    found = Signature()
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(arguments.defaults)), *arguments.defaults]
    static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
    for place, (argument, default) in enumerate(zip(plain, defaults, strict=True)):
        if not (method and place == 0 and not static):
            found.takes[argument.arg] = _text(default)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.takes[argument.arg] = _text(default)
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            _decorated(decorator, found)
    if arguments.kwarg is not None:
        found.mode = EXTENDS if _hands_on(node, arguments.kwarg.arg) else ANY
    return found


def _decorated(decorator: ast.Call, found: Signature) -> None:
    """`@deprecate_kwarg("tokenizer", new_name=...)` takes an old name, `_deprecate_arguments` warns of some."""
    name = ast.unparse(decorator.func).rpartition(".")[2]
    words = {keyword.arg: keyword.value for keyword in decorator.keywords}
    if name in ("deprecate_kwarg", "deprecated_kwarg") and (decorator.args or "old_name" in words):
        old = decorator.args[0] if decorator.args else words["old_name"]
        if isinstance(old, ast.Constant) and isinstance(old.value, str):
            found.takes.setdefault(old.value, UNKNOWN)
            found.deprecated.add(old.value)
    elif name == "_deprecate_arguments" and isinstance(words.get("deprecated_args"), ast.List | ast.Set | ast.Tuple):
        listed = ast.literal_eval(words["deprecated_args"])
        found.deprecated.update(set(listed) & set(found.takes))


def class_signatures(node: ast.ClassDef) -> tuple[dict[str, Signature], set[str]]:
    """By name ("" for the constructor) what a class's methods take, and the names of all its members."""
    calls: dict[str, Signature] = {}
    members: set[str] = set()
    fields = Signature(mode=EXTENDS)
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            signature = function_signature(part, method=True)
            if part.name == "__init__":
                calls[""] = signature
            elif not part.name.startswith("__") or part.name == "__call__":
                members.add(part.name)
                read = any(re.search(r"property|setter", ast.unparse(one)) for one in part.decorator_list)
                if (not part.name.startswith("_") or part.name == "__call__") and signature.takes and not read:
                    calls[part.name] = signature
            members.update(_assigned(part))
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            _field(part, part.target.id, fields)
            members.add(part.target.id)
        elif isinstance(part, ast.Assign):
            members.update(target.id for target in part.targets if isinstance(target, ast.Name))
    dataclass_ = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    if "" not in calls:
        calls[""] = fields if dataclass_ else Signature(mode=EXTENDS)
    if dataclass_:
        members -= set(fields.takes)
        fields.idle = {name for name in fields.deprecated if not _looked_at(node, name)}
    return calls, {name for name in members if not name.startswith("__")}


def _field(part: ast.AnnAssign, name: str, fields: Signature) -> None:
    if "ClassVar" in ast.unparse(part.annotation):
        return
    default = _text(part.value)
    if isinstance(part.value, ast.Call) and ast.unparse(part.value.func).rpartition(".")[2] in ("field", "HfArg"):
        words = {keyword.arg: keyword.value for keyword in part.value.keywords}
        if "init" in words and ast.unparse(words["init"]) == "False":
            return
        default = _text(words.get("default"))
        if "default_factory" in words:
            made = {"list": "[]", "dict": "{}", "tuple": "()", "set": "set()"}
            factory = words["default_factory"]
            default = made.get(ast.unparse(factory), UNKNOWN)
            if isinstance(factory, ast.Lambda):
                default = _text(factory.body)
        help_ = words.get("metadata") or words.get("help")
        parts = [one.value for one in ast.walk(help_) if isinstance(one, ast.Constant)] if help_ else []
        said = " ".join(part for part in parts if isinstance(part, str))
        if re.search(r"(?i)^\W*(help)?\W*(this (parameter|argument) is )?deprecated", said):
            fields.deprecated.add(name)
    fields.takes[name] = default


def _text(value: ast.expr | None) -> str | None:
    """The text of a literal default, "?" of another, None where there is none."""
    if value is None:
        return None
    try:
        text = repr(ast.literal_eval(value))
    except ValueError:
        return UNKNOWN
    return text if len(text) <= 60 else UNKNOWN


def _looked_at(node: ast.ClassDef, name: str) -> bool:
    """Whether a class reads one of its fields for more than to ask whether it was given."""
    tests = {id(part) for one in ast.walk(node) if isinstance(one, ast.If) for part in ast.walk(one.test)}
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == name
        and isinstance(part.ctx, ast.Load)
        and id(part) not in tests
        for part in ast.walk(node)
    )


def _assigned(function: Function) -> set[str]:
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
    return found


def _hands_on(function: Function, kwargs: str) -> bool:
    """Whether a method gives its further keywords to the one that it extends: `super().__init__(**kwargs)`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == function.name:
            if ast.unparse(node.func.value).startswith("super("):
                return any(word.arg is None and ast.unparse(word.value) == kwargs for word in node.keywords)
    return False
