"""Which functions and classes of a project's modules a run of a script can come to: what lies in others needs no port.

Names are followed, not objects, so that more is taken to be reached than is: a definition is, of whichever module,
where code that runs says its name, also as an attribute or in a string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from ...source.folder import SourceTree
from ...text.edit import Edit

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# What reaches definitions by names that no code says: as a function, and of whichever module.
BUILT_IN = {"globals", "eval", "exec", "__import__"}
OF_MODULES = {"import_module", "instantiate", "Fire"}
ANY = "*"
# Decorators that keep nothing of what they get.
PLAIN = {"no_grad", "inference_mode", "dataclass", "lru_cache", "cache", "contextmanager", "total_ordering"}


class ReachedCode:
    """What a run of `script` can come to in the files of `tree` that it imports."""

    def __init__(self, tree: SourceTree, script: Path) -> None:
        files = tree.reached(script)
        self._bodies = {file: _body(tree.module(file).text) for file in files}
        self._texts = {file: tree.module(file).text for file in files}
        self._script = script

    def changes(self, file: Path, edits: Iterable[Edit]) -> bool:
        """Whether a module's edits change what runs. Those that only add lines, an import or a mesh, serve others."""
        text = self._texts[file]
        return any(
            not _only_adds(text[edit.start : edit.end], edit.new) and self.reaches(file, edit.line) for edit in edits
        )

    def reaches(self, file: Path, line: int) -> bool:
        """Whether a line of a module stands in none of the definitions that no run comes to."""
        unreached = (node for node in self._definitions(file) if node.name not in self._words)
        return not any(_first_line(node) <= line <= (node.end_lineno or node.lineno) for node in unreached)

    def _definitions(self, file: Path) -> list[Definition]:
        """The functions and classes at a module's top, but for those that a decorator may have kept somewhere."""
        return [
            node
            for node in self._bodies[file]
            if isinstance(node, Definition) and all(_last_name(each) in PLAIN for each in node.decorator_list)
        ]

    @cached_property
    def _words(self) -> set[str]:
        """The names that code says which runs."""
        waiting: dict[str, list[Definition]] = {}
        running: list[ast.AST] = list(self._bodies[self._script])
        for file in self._bodies.keys() - {self._script}:
            definitions = self._definitions(file)
            running += [node for node in self._bodies[file] if node not in definitions and not _is_guarded(node)]
            for node in definitions:
                waiting.setdefault(node.name, []).append(node)
        words: set[str] = set()
        while running:
            said = {word for node in running for word in _words(node)}
            said |= {name for word in said for name in self._renamed.get(word, ())}
            words |= waiting.keys() if ANY in said else said
            running = [node for name in waiting.keys() & words for node in waiting.pop(name)]
        return words

    @cached_property
    def _renamed(self) -> dict[str, set[str]]:
        """By the names that imports give, the names of what they import: `from models import load as load_model`."""
        found: dict[str, set[str]] = {}
        for body in self._bodies.values():
            for alias in (each for node in body for each in ast.walk(node) if isinstance(each, ast.alias)):
                if alias.asname:
                    found.setdefault(alias.asname, set()).add(alias.name)
        return found


def _body(text: str) -> list[ast.stmt]:
    """A module's statements. What this Python can't read, as f-strings of 3.12, may say any name."""
    try:
        return ast.parse(text).body
    except SyntaxError:
        return ast.parse("globals()").body


def _only_adds(old: str, new: str) -> bool:
    """Whether lines are added, and all of a text stay: imports are put in order with what is added to them."""
    return "\n" in new and {line.strip() for line in old.splitlines()} - {""} <= {
        line.strip() for line in new.splitlines()
    }


def _words(node: ast.AST) -> Iterator[str]:
    """The names, attributes and strings of code, without what it imports: names imported for nothing reach nothing.
    ANY where it asks for names that it doesn't say.
    """
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield ANY if each.id in BUILT_IN | OF_MODULES else each.id
        elif isinstance(each, ast.Attribute):
            yield ANY if each.attr in OF_MODULES else each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            yield each.value
        elif isinstance(each, ast.Call) and _asks_by_name(each):
            yield ANY


def _last_name(node: ast.expr) -> str:
    """`no_grad` of `@torch.no_grad()`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _asks_by_name(call: ast.Call) -> bool:
    """Whether it's getattr() with a name that the code doesn't say."""
    is_getattr = isinstance(call.func, ast.Name) and call.func.id == "getattr"
    return is_getattr and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _is_guarded(node: ast.stmt) -> bool:
    """Whether it's `if __name__ == "__main__":`, which a module that is imported passes over."""
    names: Sequence[ast.AST] = [*ast.walk(node.test)] if isinstance(node, ast.If) else []
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in names)
