"""One source file: its names, what each means, and where it is used. Text and places are `SourceText`'s."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import libcst as cst

from .calls import find_callees, given_back, handed_module
from .scopes import Binding, Scope, collect_scopes, owner_of, walk
from .source_text import SourceText

MAX_ALIASES = 10  # names that stand for one another; two may do so in a circle
# Of `Module.memory`.
FLAT = "packages whose classes are re-exported at their top"
FULL_NAMES, BY_NAME = "full names", "calls by full name"


@dataclass
class Module(SourceText):
    """A parsed source file, or the Python cells of a notebook as one, and what its names mean."""

    @cached_property
    def scopes(self) -> dict[cst.CSTNode, Scope]:
        """Every scope by its node."""
        return collect_scopes(self.tree)

    @cached_property
    def memory(self) -> dict[object, Any]:
        """What questions about this file were answered: it never changes, and most are asked again and again."""
        return {}

    def scope(self, node: cst.CSTNode) -> Scope:
        """The scope in which `node` is evaluated."""
        path = []
        found = self._scope_of.get(node)
        while found is None:
            path.append(node)
            parent = self.parents.get(node)
            found = self._opened_by(parent, node) if parent is not None else self.scopes[self.tree]
            if found is None and parent is not None:
                node = parent
                found = self._scope_of.get(node)
        for inner in path:
            self._scope_of[inner] = found
        return found

    @cached_property
    def _scope_of(self) -> dict[cst.CSTNode, Scope]:
        return {}

    def _opened_by(self, parent: cst.CSTNode, node: cst.CSTNode) -> Scope | None:
        """The scope of what stands right under `parent`, where that opens one: its body, and its parameters."""
        if isinstance(node, cst.Param) and isinstance(parent, cst.Parameters):
            return self.scopes.get(self.parents[parent])
        if isinstance(parent, cst.Param) and node in (
            parent.default,
            parent.annotation,
        ):  # evaluated where it is defined
            return self.scope(self.parents[self.parents[parent]])
        inside = isinstance(parent, cst.Module) or node is getattr(parent, "body", None)
        return self.scopes.get(parent) if inside else None

    def qualified(self, node: cst.BaseExpression) -> str | None:
        """The full import name of a name or attribute, flattened; None when it is not imported.

        `import trl as t` then `t.SFTTrainer`, `from trl import SFTTrainer as S` then `S`, and
        `trl.trainer.sft_trainer.SFTTrainer` all give `trl.SFTTrainer`. A local class of that name gives None.
        """
        names: dict[cst.BaseExpression, str | None] = self.memory.setdefault(FULL_NAMES, {})
        if node not in names:
            name = self._qualified(node, self.scope(node))
            names[node] = flatten(name, self.flat) if name else None
        return names[node]

    @property
    def flat(self) -> Collection[str]:
        """Packages whose classes are re-exported at their top, as packs say: `trl.trainer.SFTTrainer` is TRL's own."""
        found: Collection[str] = self.memory.get(FLAT, ())
        return found

    def forget_names(self) -> None:
        """Full names are found anew: packs tell of further packages, or which modules functions are given is known."""
        self.memory[FULL_NAMES] = {}
        self.memory.pop(BY_NAME, None)

    def _qualified(self, node: cst.BaseExpression, scope: Scope, aliases: int = MAX_ALIASES) -> str | None:
        if isinstance(node, cst.Attribute):
            head = self._qualified(node.value, scope, aliases)
            return f"{head}.{node.attr.value}" if head else None
        if not isinstance(node, cst.Name):
            return None
        found = scope.lookup(node.value)
        if found is None:
            return None
        stands_for = self._stands_for(self.meant(node, found[1]))
        if stands_for is None and len(found[1]) == 1 and aliases:  # `SFTConfig, SFTTrainer = libraries()`
            if (handed := handed_module(self, found[1][0])) is not None:
                return handed
            given = given_back(self, found[1][0])
            return self._qualified(given, self.scope(given), aliases - 1) if given is not None else None
        if stands_for is None or isinstance(stands_for, str):
            return stands_for
        return self._qualified(stands_for, found[0], aliases - 1) if aliases else None

    def meant(self, node: cst.Name, bindings: list[Binding]) -> list[Binding]:
        """The bindings of a name that a use of it may mean: of `class Arguments(Arguments)` what was there before."""
        base = self.parents.get(node)
        holder = self.parents.get(base) if isinstance(base, cst.Arg) else None
        if not isinstance(holder, cst.ClassDef) or len(bindings) < 2:
            return bindings
        key = ("meant", holder, id(bindings), len(bindings))
        if key not in self.memory:
            self.memory[key] = [binding for binding in bindings if binding.node is not holder]
        found: list[Binding] = self.memory[key]
        return found

    def _stands_for(self, bindings: list[Binding]) -> str | cst.BaseExpression | None:
        """What a name with these bindings is for all of them: an import's full name, or the name that it is an alias of
        (`Trainer = trl.SFTTrainer`, said once or several times alike). A name may be bound as often as it is used."""
        key = ("stands for", id(bindings), len(bindings))  # the file keeps its scopes
        if key not in self.memory:
            self.memory[key] = _stands_for(bindings)
        found: str | cst.BaseExpression | None = self.memory[key]
        return found

    def meaning(self, node: cst.BaseExpression | None) -> tuple[Scope, list[Binding]] | None:
        """Where a name, or an attribute of `self`, is bound: the scope (of `self.x` the class) and its bindings."""
        if isinstance(node, cst.Name):
            return self.scope(node).lookup(node.value)
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            owner = owner_of(node, self.scope(node))
            name = node.attr.value
            for bindings in (owner.attributes, owner.bindings) if owner is not None else ():
                if owner is not None and name in bindings:
                    return owner, bindings[name]
        return None

    def single_binding(self, node: cst.BaseExpression) -> Binding | None:
        """The one binding of a name or of `self.x`, when it has exactly one and it is unconditional."""
        found = self.meaning(node)
        if found is None or len(found[1]) != 1 or found[1][0].conditional:
            return None
        return found[1][0]

    def references(self, name: str, scope: Scope) -> Sequence[cst.Name | cst.Attribute]:
        """Every loading use of `name` (or `self.x`) that means the binding in `scope`, in source order."""
        key = ("references", name, id(scope))  # the file keeps its scopes
        if key not in self.memory:
            self.memory[key] = self._references(name, scope)
        return list(self.memory[key])

    def _references(self, name: str, scope: Scope) -> Sequence[cst.Name | cst.Attribute]:
        if "." in name:
            return self._attribute_loads(name.rpartition(".")[2], scope)
        return self._loads_by_scope(name).get(scope, [])

    def _loads_by_scope(self, name: str) -> dict[Scope, list[cst.Name]]:
        """The loading uses of a name, by the scope that binds it there."""
        key = ("loads by scope", name)
        if key not in self.memory:
            found: dict[Scope, list[cst.Name]] = {}
            for use in self.loads(name):
                if (meant := self.scope(use).lookup(name)) is not None:
                    found.setdefault(meant[0], []).append(use)
            self.memory[key] = found
        by_scope: dict[Scope, list[cst.Name]] = self.memory[key]
        return by_scope

    def loads(self, name: str) -> list[cst.Name]:
        """Every loading use of `name`, whatever it means, in source order."""
        if name not in self._loads_of:
            self._loads_of[name] = self._loads(name)
        return self._loads_of[name]

    @cached_property
    def _loads_of(self) -> dict[str, list[cst.Name]]:
        return {}

    def _loads(self, name: str) -> list[cst.Name]:
        uses = []
        for node in self._names.get(name, ()):
            parent = self.parents[node]
            if self.is_member(node) or self._is_module_path(node):
                continue
            if isinstance(parent, cst.AssignTarget | cst.ImportAlias | cst.FunctionDef | cst.ClassDef | cst.AsName):
                continue
            if isinstance(parent, cst.Param) and parent.default is not node:
                continue
            if isinstance(parent, cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr) and parent.target is node:
                continue
            if self._is_unpacked(node):
                continue
            uses.append(node)
        return sorted(uses, key=lambda node: self.span(node)[0])

    def _is_unpacked(self, node: cst.CSTNode) -> bool:
        """Whether a name is one of several that an assignment, a loop or a `with` binds: `model, tokenizer = ...`."""
        around = node
        while isinstance(parent := self.parents[around], cst.Element | cst.StarredElement | cst.Tuple | cst.List):
            around = parent
        if around is node:
            return False
        if isinstance(parent, cst.For | cst.CompFor):
            return parent.target is around
        return isinstance(parent, cst.AssignTarget | cst.AsName)

    def _attribute_loads(self, name: str, owner: Scope) -> list[cst.Attribute]:
        uses = []
        for node in self._attributes.get(name, ()):
            if not self.is_set(node) and owner_of(node, self.scope(node)) is owner:
                uses.append(node)
        return sorted(uses, key=lambda node: self.span(node)[0])

    def is_set(self, node: cst.Attribute) -> bool:
        """Whether an attribute is given a value: `self.a = 1`, also in `self.a, self.b = 1, 2`."""
        parent = self.parents[node]
        alone = isinstance(parent, cst.AssignTarget | cst.AnnAssign | cst.AugAssign) and parent.target is node
        return alone or self._is_unpacked(node)

    def is_member(self, name: cst.CSTNode) -> bool:
        """Whether a name is the attribute or the keyword of something: `lr` of `args.lr` and of `Config(lr=1)`."""
        parent = self.parents.get(name)
        keyword = isinstance(parent, cst.Arg) and parent.keyword is name
        return keyword or (isinstance(parent, cst.Attribute) and parent.attr is name)

    def names_read(self, node: cst.CSTNode) -> list[cst.Name]:
        """The names that an expression reads, in source order: no attributes, no keywords."""
        return [name for name in walk(node) if isinstance(name, cst.Name) and not self.is_member(name)]

    def attributes_named(self, name: str) -> list[cst.Attribute]:
        """Every `x.name`, read or set, in source order."""
        return sorted(self._attributes.get(name, ()), key=lambda node: self.span(node)[0])

    @cached_property
    def _attributes(self) -> dict[str, list[cst.Attribute]]:
        found: dict[str, list[cst.Attribute]] = {}
        for node in self.parents:
            if isinstance(node, cst.Attribute):
                found.setdefault(node.attr.value, []).append(node)
        return found

    def _is_module_path(self, node: cst.CSTNode) -> bool:
        """Whether a name is a part of what an import statement names: the `tqdm` of `from tqdm.auto import tqdm`."""
        while isinstance(parent := self.parents[node], cst.Attribute):
            node = parent
        return isinstance(parent, cst.ImportFrom | cst.ImportAlias)

    @cached_property
    def _names(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = {}
        for node in self.parents:
            if isinstance(node, cst.Name):
                found.setdefault(node.value, []).append(node)
        return found

    @cached_property
    def bound_names(self) -> frozenset[str]:
        """Every name that any scope of the file binds."""
        return frozenset(name for scope in self.scopes.values() for name in scope.bindings)

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Every call, in source order."""
        return self.calls_that(lambda call: True)

    def calls_that(self, test: Callable[[cst.Call], bool]) -> list[cst.Call]:
        """The calls that a test takes, in source order. Where it takes one or none, nobody asks where nodes stand."""
        found = [*filter(test, self._unsorted_calls)]
        return sorted(found, key=lambda node: self.span(node)[0]) if len(found) > 1 else found

    @cached_property
    def _unsorted_calls(self) -> list[cst.Call]:
        return [node for node in self.parents if type(node) is cst.Call]

    @property
    def calls_by_name(self) -> Mapping[str, list[cst.Call]]:
        """The calls of what is imported, by its full name, each in source order."""
        if BY_NAME not in self.memory:
            found: dict[str, list[cst.Call]] = {}
            for call in self.calls:
                if name := self.qualified(call.func):
                    found.setdefault(name, []).append(call)
            self.memory[BY_NAME] = found
        by_name: Mapping[str, list[cst.Call]] = self.memory[BY_NAME]
        return by_name

    @cached_property
    def callees(self) -> Mapping[cst.Call, cst.FunctionDef]:
        """The functions and methods of this file that its calls mean."""
        return find_callees(self)

    @cached_property
    def roots(self) -> frozenset[str]:
        """The top-level packages that the file imports anywhere."""
        return frozenset(binding.qualified.split(".", 1)[0] for binding in self.import_bindings)

    @cached_property
    def import_bindings(self) -> list[Binding]:
        """What the file's imports bind, in all of its scopes."""
        named = (bindings for scope in self.scopes.values() for bindings in scope.bindings.values())
        return [binding for bindings in named for binding in bindings if binding.kind == "import"]


def _stands_for(bindings: Sequence[Binding]) -> str | cst.BaseExpression | None:
    names = {binding.qualified for binding in bindings if binding.kind == "import"}
    others = [binding for binding in bindings if binding.kind != "import"]
    if len(names) == 1 and not others:
        return names.pop()
    if names or not others or any(binding.kind != "assign" for binding in others):
        return None
    value = others[0].value
    if not isinstance(value, cst.Attribute | cst.Name):
        return None
    alike = all(other.value is not None and other.value.deep_equals(value) for other in others[1:])
    return value if alike else None


def flatten(name: str, packages: Collection[str]) -> str:
    """`trl.trainer.sft_trainer.SFTTrainer` → `trl.SFTTrainer`: module parts between package and class removed."""
    parts = name.split(".")
    if parts[0] not in packages or len(parts) < 3:
        return name
    for index, part in enumerate(parts[1:-1], start=1):
        if part[:1].isupper():
            return ".".join([parts[0], *parts[index:]])
    return f"{parts[0]}.{parts[-1]}"
