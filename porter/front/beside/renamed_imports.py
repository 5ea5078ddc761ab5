"""Imports of modules whose ports are written under other names, beside the script's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from ...errors import InputError
from ...files import is_file
from ...port import Port
from ...recipe import Receipt
from ...source.folder import SourceTree
from ...source.parsing import parse_module
from ...text.edit import Edit
from ...text.edits import apply_edits

SUFFIX = "_tunix"  # of the name of a module's port
RULE, REASON = "TP001", "the port of that module, which is written beside this file"
FROM = re.compile(r"from[ \t]+([.\w]+)(?=\s)")


class NotRenamed(Exception):
    """An import that can't be written with the new name alone."""


@dataclass(frozen=True)
class Renaming:
    """The modules of a project that are written beside a script, each with its new name."""

    tree: SourceTree
    script: Path
    names: Mapping[Path, str]

    @cached_property
    def dot(self) -> str:
        """ "." where the script is a module of a package, which its relative imports say."""
        body = ast.walk(syntax_tree(self.tree.module(self.script).text))
        return "." if any(isinstance(node, ast.ImportFrom) and node.level for node in body) else ""

    @cached_property
    def highest(self) -> int:
        """The folders above its own that the script's relative imports go up to."""
        body = ast.walk(syntax_tree(self.tree.module(self.script).text))
        return max([0, *(node.level - 1 for node in body if isinstance(node, ast.ImportFrom))])

    @cached_property
    def is_found(self) -> bool:
        """Whether Python looks for modules where the script lies: some scripts are started from above their folder."""
        if self.dot or "sys.path" in self.tree.module(self.script).text:
            return True
        names = [name for _, name in _imports(self.tree.module(self.script).text)]
        return all(self._start(name) == self.script.parent for name in names)

    def _start(self, name: str) -> Path:
        found = self.tree.find(name, self.script)
        depth = len(name.split(".")) - (1 if found is not None and found[1] else 0)
        if found is None:
            return self.script.parent
        file = found[0].parent if found[0].stem == "__init__" else found[0].with_suffix("")
        return Path(*file.parts[: len(file.parts) - depth])

    def target(self, name: str, user: Path) -> tuple[str, str] | None:
        """The new name of the module that an import of `user` means, and the name in it; None of any other."""
        found = self.tree.find(name, user)
        return (self.names[found[0]], found[1]) if found is not None and found[0] in self.names else None

    def imported(self, file: Path) -> tuple[int, str]:
        """Where the script imports a file of the project, line and name; the first line where only others do."""
        names = _imports(self.tree.module(self.script).text)
        found = ((line, name, self.tree.find(name, self.script)) for line, name in names)
        return next(((line, name) for line, name, at in found if at is not None and at[0] == file), (1, ""))

    def from_the_script(self, home: str, user: Path) -> str:
        """How the script would say what a relative import of `user` says: by the folder that its own imports start
        from, or relative to its own. NotRenamed where it can't."""
        level = len(home) - len(home.lstrip("."))
        place = Path(*user.parts[: len(user.parts) - level], *filter(None, home[level:].split(".")))
        if self.dot:
            above, own = 0, self.script.parent
            while own.parts and not place.is_relative_to(own):
                above, own = above + 1, own.parent
            if above > self.highest and not is_file(self.tree.root / own / "__init__.py"):
                raise NotRenamed
            return "." * (above + 1) + ".".join(place.relative_to(own).parts)
        for _, name in _imports(self.tree.module(self.script).text):
            start = self._start(name)
            if self.tree.find(name, self.script) and place.is_relative_to(start / name.partition(".")[0]):
                return ".".join(place.relative_to(start).parts)
        raise NotRenamed

    def stays(self, name: str, user: Path) -> bool:
        """Whether a relative import of `user` leads to the same file from beside the script."""
        return user.parent == self.script.parent and (bool(self.dot) or not name.startswith("."))


def renamed(port: Port, renaming: Renaming, user: Path) -> Port | None:
    """The port whose imports name the modules beside the script; None where one can't be written so."""
    text = port.after
    try:
        found = list(_replacements(syntax_tree(text), text, renaming, user))
        if user == renaming.script and not renaming.is_found:
            found += _path_lines(text, found)
        edits = _with(port.before, port.edits, found)
    except (NotRenamed, SyntaxError, InputError):
        return None
    after = apply_edits(port.before, edits)
    added = [(text.count("\n", 0, start) + 1, new.count("\n")) for start, _, new in found if "\n" in new]
    fields = tuple(_moved(row, added) if isinstance(row, Receipt) else row for row in port.fields)
    return replace(port, after=after, edits=tuple(edits), recipe=replace(port.recipe, fields=fields))


def _moved(row: Receipt, added: Sequence[tuple[int, int]]) -> Receipt:
    """The receipt, its own file's lines counted behind those that were put in."""

    def line(old: int) -> int:
        return old + sum(lines for start, lines in added if start <= old)

    return replace(
        row, places=tuple(place if place.file else replace(place, line=line(place.line)) for place in row.places)
    )


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """The line and the full name of what a file imports, `..config.LR`."""
    for node in ast.walk(syntax_tree(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (f"{node.module}." if node.module else "")
            yield from ((node.lineno, (home + alias.name).removesuffix(".*")) for alias in node.names)


def _replacements(tree: ast.Module, text: str, renaming: Renaming, user: Path) -> Iterator[tuple[int, int, str]]:
    """Start, end and new text of what changes in a file's import statements."""
    starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]

    def offset(node: ast.stmt | ast.alias) -> int:
        start = starts[node.lineno - 1]
        line = re.match(r"[^\r\n]*", text[start:])
        return start + len((line[0] if line else "").encode()[: node.col_offset].decode())

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (found := renaming.target(alias.name, user)) is not None:
                    yield _of_alias(alias, found, text, offset(alias), renaming)
        elif isinstance(node, ast.ImportFrom):
            yield from _of_from(node, text, offset(node), renaming, user)


def _of_alias(
    alias: ast.alias, found: tuple[str, str], text: str, start: int, renaming: Renaming
) -> tuple[int, int, str]:
    name, inner = found
    if inner or renaming.dot or (alias.asname is None and "." in alias.name):
        raise NotRenamed
    end = start + len(alias.name)
    if text[start:end] != alias.name:
        raise NotRenamed
    return start, end, name if alias.asname else f"{name} as {alias.name}"


def _of_from(
    node: ast.ImportFrom, text: str, start: int, renaming: Renaming, user: Path
) -> Iterator[tuple[int, int, str]]:
    home = "." * node.level + (node.module or "")
    dot = "" if home.endswith(".") else "."
    names = [home if alias.name == "*" else f"{home}{dot}{alias.name}" for alias in node.names]
    found = [renaming.target(name, user) for name in names]
    made = FROM.match(text, start)
    if not any(found):
        if node.level and user != renaming.script and not renaming.stays(home, user):
            if made is None:
                raise NotRenamed
            yield made.start(1), made.end(1), renaming.from_the_script(home, user)
        return
    modules = {target[0] for target in found if target is not None}
    if made is None or None in found or len(modules) > 1:
        raise NotRenamed
    (name,) = modules
    alias = node.names[0]
    if all(target is not None and target[1] for target in found) or alias.name == "*":
        yield made.start(1), made.end(1), f"{renaming.dot}{name}"
        return
    end = _end_of(node, text, start)
    if len(found) > 1 or end is None:
        raise NotRenamed
    first = f"from {renaming.dot} import" if renaming.dot else "import"
    yield start, end, f"{first} {name} as {alias.asname or alias.name}"


def _end_of(node: ast.ImportFrom, text: str, start: int) -> int | None:
    """The end of a statement that stands on one line."""
    if node.end_lineno != node.lineno or node.end_col_offset is None:
        return None
    return start + node.end_col_offset - node.col_offset


def _path_lines(text: str, found: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Where Python is told of the script's folder: in front of the first import that names a module there."""
    lines = [text.rfind("\n", 0, start) + 1 for start, _, _ in found]
    top = [line for line in lines if text[line : line + 1] in ("f", "i")]
    if not lines:
        return []
    start = min(top) if top and min(top) == min(lines) else _behind_imports(text)
    plain = re.findall(r"^import ([\w, ]+)$", text[:start], re.MULTILINE)
    bound = {name.strip() for names in plain for name in names.split(",")}
    newline = "\r\n" if "\r\n" in text else "\n"
    imports = "".join(f"import {name}{newline}" for name in ("os", "sys") if name not in bound)
    told = "sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # the modules written beside this file"
    return [(start, start, f"{imports}{newline if imports else ''}{told}{newline}")]


def _behind_imports(text: str) -> int:
    """Where the imports at the top of a file end, for what functions import when they are called."""
    lines = text.splitlines(keepends=True)
    body = syntax_tree(text).body
    heads = [index for index, node in enumerate(body) if not isinstance(node, ast.Import | ast.ImportFrom)]
    is_text = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    last = next((index for index in heads if index > 0 or not is_text), len(body)) - 1
    return sum(map(len, lines[: body[last].end_lineno])) if last >= 0 else 0


def syntax_tree(text: str) -> ast.Module:
    """The file's tree; its f-strings are taken out where this Python can't read them, as 3.12's own."""
    try:
        return ast.parse(text)
    except SyntaxError:
        module = parse_module(text.encode(), "")
        for node in module.parents:
            if isinstance(node, cst.FormattedString):
                start, end = module.span(node)
                inner = re.sub(r"[^\r\n]", " ", text[start + 3 : end - 3])
                blank = f'"""{inner}"""' if end - start >= 6 else '""'.ljust(end - start)
                text = text[:start] + blank + text[end:]
        return ast.parse(text)


def _with(before: str, edits: Sequence[Edit], found: Sequence[tuple[int, int, str]]) -> list[Edit]:
    """The edits of a port, and replacements in its text, as edits of what it was made from."""
    spans, moved = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        start = edit.start + moved
        spans.append((start, start + len(edit.new), edit))
        moved += len(edit.new) - (edit.end - edit.start)
    made: list[Edit] = []
    inside: dict[int, list[tuple[int, int, str]]] = {}
    for start, end, new in sorted(found):
        around = [index for index, (first, last, _) in enumerate(spans) if first < max(end, start + 1) and start < last]
        if not around:
            passed = [edit for _, last, edit in spans if last <= start]
            back = sum(len(edit.new) - (edit.end - edit.start) for edit in passed)
            place = start - back
            line = before.count("\n", 0, place) + 1
            column = place - (before.rfind("\n", 0, place) + 1) + 1
            made.append(Edit(place, end - back, new, RULE, REASON, line, column))
        elif len(around) == 1 and spans[around[0]][0] <= start and end <= spans[around[0]][1]:
            inside.setdefault(around[0], []).append((start, end, new))
        else:
            raise NotRenamed
    for index, (first, _, edit) in enumerate(spans):
        text = edit.new
        for start, end, new in sorted(inside.get(index, ()), reverse=True):
            text = text[: start - first] + new + text[end - first :]
        made.append(replace(edit, new=text))
    return sorted(made, key=lambda edit: (edit.start, edit.end))
