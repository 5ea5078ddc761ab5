"""A script and the modules of its own project that it imports, as one module.

Each file keeps its own tree; offsets count through all their texts, the script's last. A name that one file imports
from another means what it means there, so that values, configs and helper functions are followed across files, and an
edit lands in the file that holds its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from .module import Module
from .scopes import Binding, Scope, collect_scopes, starred

BETWEEN = "\n"  # parts the texts of two files


@dataclass(frozen=True)
class Part:
    """One file: its module, where its text begins in the whole, and the lines before it."""

    module: Module
    start: int
    line: int

    @property
    def end(self) -> int:
        """Behind its text and the line end that parts it from the next."""
        return self.start + len(self.module.text) + len(BETWEEN)


class Merged(Module):
    """Several files as one module; `links` says for each file which of its imports mean a name of another.

    `links[i]` maps a qualified import of file i (`config.LR`, `..config.LR`) to a file's index and the name there.
    """

    def __init__(self, modules: Sequence[Module], links: Sequence[Mapping[str, tuple[int, str]]]) -> None:
        main = modules[-1]
        text = BETWEEN.join(module.text for module in modules)
        parsed = BETWEEN.join(module.parsed or module.text for module in modules)
        super().__init__(main.path, text, main.tree, main.bom, main.encoding, parsed)
        self.links = links
        parts, start, line = [], 0, 0
        for module in modules:
            parts.append(Part(module, start, line))
            start += len(module.text) + len(BETWEEN)
            line += len(module._line_starts)
        self.parts = tuple(parts)

    @property
    def newline(self) -> str:
        return self.parts[-1].module.newline

    @cached_property
    def _part_of(self) -> dict[cst.CSTNode, Part]:
        return {node: part for part in self.parts for node in (part.module.tree, *part.module.parents)}

    def part_of(self, node: cst.CSTNode) -> Part:
        """The file in which a node stands."""
        return self._part_of[node]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of `node` in the whole text."""
        part = self._part_of.get(node) or next(
            part
            for part in self.parts
            if node in part.module._spans  # white space and punctuation have no parent
        )
        start, end = part.module.span(node)
        return start + part.start, end + part.start

    def turn(self, node: cst.CSTNode) -> tuple[int, ...]:
        """A file runs where it is first imported; those that no import that can be followed leads to run first."""
        part = self._part_of[node]
        return (*self._turns.get(self.parts.index(part), (-1,)), part.module.span(node)[0])

    @cached_property
    def _turns(self) -> dict[int, tuple[int, ...]]:
        """By each file's place the imports that lead to it from the script, of which each is told by its offset."""
        found: dict[int, tuple[int, ...]] = {}
        pending: list[tuple[tuple[int, ...], int]] = [((), len(self.parts) - 1)]
        while pending:
            pending.sort()
            turn, number = pending.pop(0)
            if number not in found:
                found[number] = turn
                pending += [((*turn, start), file) for start, file in self._imports_in(number)]
        return found

    def member(self, node: cst.BaseExpression) -> list[Binding]:
        """What binds a name of another file that its module's is asked for: `conf.SETTINGS`."""
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            return []
        bound = self.meaning(node.value)
        qualified = bound[1][0].qualified if bound is not None and len(bound[1]) == 1 else ""
        file, there = self.links[self._index(node)].get(qualified, (0, "no module"))
        if there or not qualified:
            return []
        return self.scopes[self.parts[file].module.tree].bindings.get(node.attr.value, [])

    def _imports_in(self, number: int) -> Iterator[tuple[int, int]]:
        """Where a file imports others of the project, and their places."""
        module, links = self.parts[number].module, self.links[number]
        for binding in module.import_bindings:
            if binding.qualified in links:
                yield module.span(binding.node)[0], links[binding.qualified][0]
        for home, node in starred(module.tree).items():
            if f"{home}.*" in links:
                yield module.span(node)[0], links[f"{home}.*"][0]

    def line_in_file(self, node: cst.CSTNode) -> int:
        return self.location(node)[0] - self._part_of[node].line

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return {child: parent for part in self.parts for child, parent in part.module.parents.items()}

    @cached_property
    def scopes(self) -> dict[cst.CSTNode, Scope]:
        found = {node: scope for part in self.parts for node, scope in collect_scopes(part.module.tree).items()}
        roots = [found[part.module.tree] for part in self.parts]
        for node, scope in found.items():
            links = self.links[self._index(node)]
            for name, bindings in scope.bindings.items():
                target = links.get(bindings[0].qualified) if len(bindings) == 1 else None
                if target is not None and bindings[0].kind == "import":
                    index, there = self._settled(target, roots)
                    if there in roots[index].bindings:
                        scope.links[name] = (roots[index], there)
        for number, root in enumerate(roots):
            for name, meant in self._starred(number, roots, ()).items():
                if name not in root.bindings:
                    root.links[name] = meant
        return found

    def _starred(self, number: int, roots: Sequence[Scope], around: tuple[int, ...]) -> dict[str, tuple[Scope, str]]:
        """The names that a file takes by `from utils import *`, and where each is made."""
        found: dict[str, tuple[Scope, str]] = {}
        for home in starred(self.parts[number].module.tree):
            index = self.links[number].get(f"{home}.*", (None, ""))[0]
            if index is None or index in around:
                continue
            root = roots[index]
            own = {name: root.links.get(name, (root, name)) for name in root.bindings}
            given = self._starred(index, roots, (*around, number)) | own
            public = _said_public(root)
            found |= {
                name: meant
                for name, meant in given.items()
                if (name in public if public is not None else not name.startswith("_"))
            }
        return found

    def _index(self, node: cst.CSTNode) -> int:
        return self.parts.index(self._part_of[node])

    def _settled(self, target: tuple[int, str], roots: Sequence[Scope]) -> tuple[int, str]:
        """Through files that only pass a name on, to the one that makes it."""
        seen = set()
        while target not in seen:
            seen.add(target)
            index, name = target
            bindings = roots[index].bindings.get(name, ())
            if len(bindings) != 1 or bindings[0].kind != "import" or bindings[0].qualified not in self.links[index]:
                break
            target = self.links[index][bindings[0].qualified]
        return target


def _said_public(root: Scope) -> set[str] | None:
    """The names in a file's `__all__`; None where it has none that can be read."""
    bound = root.bindings.get("__all__", ())
    value = bound[0].value if len(bound) == 1 else None
    if not isinstance(value, cst.List | cst.Tuple):
        return None
    names = [each.value.evaluated_value for each in value.elements if isinstance(each.value, cst.SimpleString)]
    return {name for name in names if isinstance(name, str)}
