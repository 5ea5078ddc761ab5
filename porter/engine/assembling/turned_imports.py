"""What takes the place of an import whose classes are the runtime's now, each once in a file.

    from peft import LoraConfig
    from peft import LoraConfig, get_peft_model

is one `LoraConfig = trl_arguments("0.20.0", "LoraConfig")`, and `trl_arguments` is imported in front of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from ...source.module import Module
from ...source.scopes import inside
from ...text.import_lines import NewImport
from ..dating.argument_releases import MARK, ArgumentRelease


@dataclass
class Turned:
    """What the imports of a file that were turned bind for all that stands below them."""

    module: Module
    bound: set[NewImport]

    def imports(self, statement: cst.CSTNode, moved: Sequence[NewImport]) -> tuple[list[NewImport], list[str]]:
        """The imports that take the place of `moved`, and the statements that make the classes of an older release,
        without what is bound above."""
        top = is_top(self.module, statement)
        known = {item for item in moved if top and item in self.bound and not self._is_deleted(item.bound)}
        items = [item for item in dict.fromkeys(moved) if item not in known]
        plain, made = _versioned(items)
        plain = [item for item in plain if item in items or item not in self.bound]
        if top:
            self.bound.update(items, plain)
        return plain, made

    def note(self, statement: cst.CSTNode, new: Sequence[NewImport]) -> None:
        """New imports beside a statement, which bind for what stands below, too."""
        if is_top(self.module, statement):
            self.bound.update(new)

    def _is_deleted(self, name: str) -> bool:
        """Whether a name, which is no other class anywhere in the file, is gone at some place of it."""
        deleted = (node.target for node in self.module.parents if isinstance(node, cst.Del))
        return any(isinstance(each, cst.Name) and each.value == name for node in deleted for each in inside(node))


def is_top(module: Module, statement: cst.CSTNode) -> bool:
    """Whether a statement is one of the file itself, in no block."""
    return module.parents[statement] is module.tree


def _versioned(items: Sequence[NewImport]) -> tuple[list[NewImport], list[str]]:
    """The imports, and the statement that makes the classes of an older release."""
    plain = [item for item in items if MARK not in item.module]
    older = [item for item in items if MARK in item.module]
    if not older:
        return plain, []
    releases = [ArgumentRelease.behind(item.module) for item in older]
    beside = {name: version for release in reversed(releases) for name, version in release.beside}
    longest = sorted(releases, key=lambda release: -len(release.beside))
    names = dict.fromkeys(name for release in longest for name, _ in release.beside)
    bound = ", ".join(item.bound for item in older)
    function = releases[0].function
    made = ArgumentRelease(function, releases[0].release, tuple((name, beside[name]) for name in names))
    call = made.call([item.name for item in older])
    return [*plain, NewImport(older[0].module.partition(MARK)[0], function)], [f"{bound} = {call}"]
