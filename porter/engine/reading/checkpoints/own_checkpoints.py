"""A script that looks for the last of its own checkpoints by transformers' names, which Orbax doesn't give them.

    checkpoints = [name for name in os.listdir(OUTPUT_DIR) if name.startswith("checkpoint-")]
    if checkpoints:
        last = os.path.join(OUTPUT_DIR, max(checkpoints, key=...))
    trainer.train(resume_from_checkpoint=last)

or asks a module of its project for `get_last_checkpoint(OUTPUT_DIR)`, resumes from `rt.get_last_checkpoint`,
which can be asked at the trainer, wherever the script does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

import libcst as cst

from ....errors import InputError
from ....files import read_file
from ....source.project.modules import find_project_file
from ....source.scopes import Binding, inside
from ...script.training import Training
from .checkpoint_tests import WRAPPED

LAST = "get_last_checkpoint"
LISTS = re.compile(r"\b(listdir|i?glob|iterdir|scandir|walk)\(")
BEGINS = re.compile(r"""["']([^"'\n]*/)?checkpoint[-_*?\d\\]*""")
ASKS_FOR_ONE = re.compile(r"\b(exists|lexists|isdir|is_dir|listdir|i?glob|iterdir|scandir|len|any)\(")

Found = Literal["last", "elsewhere", ""]


def finds_last(porting: Training, value: cst.BaseExpression) -> Found:
    """Whether `value` is the last checkpoint in the folder that the trainer saves to, or None where there is none.

    "elsewhere" when it looks for checkpoints in another folder, or on a condition of another kind.
    """
    found = _search(porting, value, set())
    if found is None:
        return ""
    folders = folders_of(porting)
    apart = {folder for folder in folders if folder.isidentifier()}  # how that was chosen decides nothing here
    code, asks = _search(porting, value, apart) or found
    return "last" if asks and any(_names_folder(code, folder) for folder in folders) else "elsewhere"


def _search(porting: Training, value: cst.BaseExpression, names: set[str]) -> tuple[str, bool] | None:
    """The code that looks for checkpoints to make `value`, and whether it asks for nothing else; None where none does.

    `names`: those that aren't followed.
    """
    module = porting.module
    texts: list[str] = []
    elsewhere: list[str] = []
    tests: list[cst.BaseExpression] = []
    waiting: list[cst.BaseExpression] = [value]
    mixed = False
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.IfExp):
            tests.append(node.test)
            waiting += [node.body, node.orelse]
            continue
        mixed = mixed or isinstance(node, cst.BooleanOperation)
        texts.append(module.code(node))
        elsewhere += _of_project(porting, node)
        for binding in _bindings(porting, node, names):
            if isinstance(binding.node, cst.FunctionDef):
                texts.append(module.code(binding.node.body))
                continue
            tests += _conditions(porting, binding)
            made = _made_from(binding)
            if made is not None:
                waiting.append(made)
    code = "\n".join([*texts, *elsewhere])
    by_library = any(f"{LAST}(" in text for text in elsewhere)
    if not by_library and (LISTS.search(code) is None or BEGINS.search(code) is None):
        return None
    asks = not mixed and all(_asks_for_one(porting, test, names) for test in tests)
    return code, asks


def folders_of(porting: Training) -> list[str]:
    """The code of the folder that the trainer saves to; where its arguments stay an object also what the file gives as
    `output_dir=`, if that is one thing, and `folder` where that is `str(folder)`."""
    given = {
        porting.module.code(argument.value)
        for call in (porting.module.calls if porting.arguments_object else ())
        for argument in call.args
        if argument.keyword is not None and argument.keyword.value == "output_dir"
    }
    plain = [match[1] for folder in given if (match := WRAPPED.fullmatch(folder)) is not None]
    return [porting.output_dir(), *((*given, *plain) if len(given) == 1 else ())]


def _bindings(porting: Training, node: cst.BaseExpression, names: set[str]) -> Iterator[Binding]:
    """What gives the names in an expression their values; each name once."""
    module = porting.module
    try:
        tree = ast.parse(module.code(node).strip(), mode="eval")
    except SyntaxError:
        return
    for name in sorted({part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} - names):
        names.add(name)
        found = module.scope(node).lookup(name)
        for binding in found[1] if found is not None else ():
            if binding.kind not in ("import", "parameter"):
                yield binding


def _of_project(porting: Training, value: cst.BaseExpression) -> Iterator[str]:
    """The bodies of functions that `value` calls in other modules of the script's project."""
    module = porting.module
    for call in inside(value):
        name = module.qualified(call.func) if isinstance(call, cst.Call) else None
        holder, _, function = (name or "").rpartition(".")
        found = find_project_file(module.path, holder) if holder else None
        if found is None:
            continue
        try:
            tree = ast.parse(text := read_file(found[0]).decode("utf-8", "replace"))
        except (OSError, InputError, SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                yield ast.get_source_segment(text, node) or ""


def _made_from(binding: Binding) -> cst.BaseExpression | None:
    return binding.node.iter if isinstance(binding.node, cst.For) else binding.value


def _conditions(porting: Training, binding: Binding) -> Iterator[cst.BaseExpression]:
    """What decides whether a binding is made at all, beside what decides whether there is a trainer."""
    assert porting.trainer is not None
    around = {porting.trainer.node, *porting.module.ancestors(porting.trainer.node)}
    if porting.module.code(binding.node).strip().endswith("None"):
        return
    for ancestor in porting.module.ancestors(binding.node):
        if ancestor in around or isinstance(ancestor, cst.FunctionDef):
            return
        if isinstance(ancestor, cst.If):
            yield ancestor.test


def _asks_for_one(porting: Training, test: cst.BaseExpression, names: set[str]) -> bool:
    """Whether a condition asks for nothing but that there is a checkpoint, or a folder for them."""
    if isinstance(test, cst.BooleanOperation):
        return _asks_for_one(porting, test.left, names) and _asks_for_one(porting, test.right, names)
    code = porting.module.code(test)
    return code.strip() in names or ASKS_FOR_ONE.search(code) is not None


def _names_folder(code: str, folder: str) -> bool:
    """Whether code speaks of the folder that is written `folder`, or of an `output_dir` of arguments."""
    literal = re.fullmatch(r"""[rbfu]?(["'])(.*)\1""", folder)
    if literal is not None:
        return re.search(rf"""["']{re.escape(literal[2].rstrip("/"))}[/"']""", code) is not None
    return re.search(rf"(?<![\w.]){re.escape(folder)}(?!\w)|\.output_dir\b", code) is not None
