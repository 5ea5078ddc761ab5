"""The words of a command that a script starts, as far as the script says them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import libcst as cst

from porter.packs.script import Module, Unknown, evaluate, origins

UNKNOWN = "{}"  # a word that only the run knows
CONTINUED = re.compile(r"\\\r?\n")
PARTS = re.compile(r"&&|\|\||;|\n")


def words_of(module: Module, value: cst.BaseExpression) -> list[str]:
    """The words of a command, a list of them or a text."""
    if isinstance(value, cst.List | cst.Tuple):
        return [
            UNKNOWN if isinstance(part, cst.StarredElement) else word_of(module, part.value) for part in value.elements
        ]
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        left, right = (_followed(module, side) for side in (value.left, value.right))
        text = text_of(module, value)
        return [*left, *right] if not text else [text]
    if isinstance(value, cst.Call) and value.args:
        name = module.qualified(value.func)
        joins = isinstance(value.func, cst.Attribute) and value.func.attr.value == "join" and name is None
        if joins or name == "shlex.split":
            return _followed(module, value.args[0].value)
    text = text_of(module, value)
    return [text] if text else []


def _followed(module: Module, value: cst.BaseExpression) -> list[str]:
    return next((words for each in origins(module, value) if (words := words_of(module, each))), [])


def word_of(module: Module, value: cst.BaseExpression) -> str:
    """A word of a command, or {}."""
    if module.qualified(value) == "sys.executable":
        return "python"
    if module.code(value) == "__file__":
        return "__file__"
    return next((text for each in origins(module, value) if (text := text_of(module, each))), "") or UNKNOWN


def texts_of_loop(module: Module, value: cst.BaseExpression) -> list[str]:
    """What a name stands for in a loop over texts: `for script in ["sft.py", "dpo.py"]:`."""
    found = module.meaning(value) if isinstance(value, cst.Name) else None
    for binding in found[1] if found is not None else ():
        if isinstance(binding.node, cst.For):
            try:
                held = evaluate(module, binding.node.iter)
            except Unknown:
                continue
            return [each for each in held if isinstance(each, str)] if isinstance(held, list | tuple) else []
    return []


def text_of(module: Module, value: cst.BaseExpression) -> str:
    """A text or a path, with {} for what only the run knows."""
    match value:
        case cst.SimpleString():
            held = value.evaluated_value
            return held if isinstance(held, str) else ""
        case cst.ConcatenatedString():
            return text_of(module, value.left) + text_of(module, value.right)
        case cst.FormattedString():
            return "".join(_part_of(module, part) for part in value.parts)
        case cst.BinaryOperation(operator=cst.Add()) if left := text_of(module, value.left):
            return left + word_of(module, value.right)
        case cst.BinaryOperation(operator=cst.Divide()):
            return f"{word_of(module, value.left)}/{word_of(module, value.right)}"
        case cst.Call() if module.qualified(value.func) == "os.path.join":
            return "/".join(word_of(module, argument.value) for argument in value.args)
        case cst.Call() if value.args and module.code(value.func) in ("str", "os.fspath", "Path", "pathlib.Path"):
            found = word_of(module, value.args[0].value)
            return "" if found == UNKNOWN else found
    return ""


def _part_of(module: Module, part: cst.BaseFormattedStringContent) -> str:
    if isinstance(part, cst.FormattedStringText):
        return part.value
    return word_of(module, part.expression) if isinstance(part, cst.FormattedStringExpression) else ""


def commands_of(words: list[str]) -> Iterator[list[str]]:
    """The words of each command: those of a list are one, a text may hold several."""
    if len(words) != 1:
        yield words
        return
    for part in PARTS.split(CONTINUED.sub(" ", words[0])):
        try:
            yield shlex.split(part, comments=True)
        except ValueError:
            yield part.split()
