"""Which functions and classes of a project's modules a run of a script can come to: what lies in others needs no port.

Names are followed, not objects, so that more is taken to be reached than is: a definition is, of whichever module,
where code that runs says its name, also as an attribute or in a string.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """What a run of `script` can come to in the files of its project, each with its text.

    `surely`: only what code names as that, be it itself or an imported module's; no text or attribute of another.
    """

    def __init__(self, texts: Mapping[Path, str], script: Path, *, surely: bool = False) -> None:
        self._texts, self._script, self._surely = texts, script, surely
        self._bodies = {file: _body(text) for file, text in texts.items()}

    @classmethod
    def of(cls, tree: SourceTree, script: Path) -> ReachedCode:
        """That of a script with all that it imports of its project."""
        return cls({file: tree.module(file).text for file in tree.reached(script)}, script)

    def changes(self, file: Path, edits: Iterable[Edit]) -> bool:
        """Whether a module's edits change what runs. Those that only add lines, an import or a mesh, serve others."""
        text = self._texts[file]
        return any(
            not _only_adds(text[edit.start : edit.end], edit.new) and self.reaches(file, edit.line) for edit in edits
        )

    def reaches(self, file: Path, line: int) -> bool:
        """Whether a line of a module (from 1) may run."""
        return not any(
            _first_line(node) <= line <= (node.end_lineno or node.lineno)
            for name, node in self._definitions[file].items()
            if (file, name) not in self._reached
        )

    @cached_property
    def _definitions(self) -> dict[Path, dict[str, Definition]]:
        """The functions and classes at each module's top, but for those that a decorator may have kept somewhere."""
        return {
            file: {
                node.name: node
                for node in body
                if isinstance(node, Definition) and all(_last_name(each) in PLAIN for each in node.decorator_list)
            }
            for file, body in self._bodies.items()
            if file != self._script
        } | {self._script: {}}

    @cached_property
    def _reached(self) -> set[tuple[Path, str]]:
        """The definitions that code names which runs: the script's, and what a module does when it is imported."""
        reached: set[tuple[Path, str]] = set()
        running: list[tuple[Path, ast.AST]] = []
        for file, body in self._bodies.items():
            own = {id(node) for node in self._definitions[file].values()}
            is_script = file == self._script
            running += [(file, node) for node in body if id(node) not in own and (is_script or not _is_guarded(node))]
        while running:
            said = {target for file, node in running for target in self._said(file, node)} - reached
            reached |= said
            running = [(file, self._definitions[file][name]) for file, name in said]
        return reached

    def _said(self, file: Path, node: ast.AST) -> Iterator[tuple[Path, str]]:
        """The definitions that code of a file may name: its own go before those of the same name elsewhere."""
        for word, is_name in _words(node, self._modules[file] if self._surely else None):
            if word == ANY and not self._surely:
                yield from self._all
            elif is_name and word in self._definitions[file]:
                yield file, word
            elif not (is_name and word in self._own[file]):
                yield from (
                    target for name in (word, *self._renamed.get(word, ())) for target in self._named.get(name, ())
                )

    @cached_property
    def _all(self) -> list[tuple[Path, str]]:
        return [(file, name) for file, definitions in self._definitions.items() for name in definitions]

    @cached_property
    def _named(self) -> dict[str, list[tuple[Path, str]]]:
        found: dict[str, list[tuple[Path, str]]] = {}
        for file, name in self._all:
            found.setdefault(name, []).append((file, name))
        return found

    @cached_property
    def _own(self) -> dict[Path, set[str]]:
        """The names of each file's own functions and classes, the script's too."""
        return {
            file: {node.name for node in body if isinstance(node, Definition)} for file, body in self._bodies.items()
        }

    @cached_property
    def _modules(self) -> dict[Path, set[str]]:
        """The names by which each file's imports call a module of the project, or what may be one."""
        stems = {file.parent.name if file.stem == "__init__" else file.stem for file in self._bodies}
        found: dict[Path, set[str]] = {}
        for file, body in self._bodies.items():
            names = [each for node in body for each in ast.walk(node) if isinstance(each, ast.alias)]
            found[file] = {name.asname or name.name for name in names if name.name.rpartition(".")[2] in stems}
        return found

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


def _words(node: ast.AST, modules: Collection[str] | None) -> Iterator[tuple[str, bool]]:
    """The words of code that may name a definition, and whether each is a name alone; ANY where it asks for names that
    it doesn't say. What it imports is none: names imported for nothing reach nothing.

    `modules`: names behind which alone an attribute counts, and no text does; None: all count.
    """
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield (ANY if each.id in BUILT_IN | OF_MODULES else each.id), True
        elif isinstance(each, ast.Attribute):
            if modules is None or ast.unparse(each.value) in modules:
                yield (ANY if each.attr in OF_MODULES else each.attr), False
        elif modules is None and isinstance(each, ast.Constant):
            if isinstance(each.value, str) and each.value.isidentifier():
                yield each.value, False
        elif isinstance(each, ast.Call) and _asks_by_name(each):
            yield ANY, False


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
