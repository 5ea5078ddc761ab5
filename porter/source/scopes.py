"""What every name of a file means: the scopes and what binds names in them, collected in one walk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Literal

import libcst as cst

BindingKind = Literal["import", "assign", "unpack", "parameter", "definition", "other"]
ScopeNode = cst.Module | cst.FunctionDef | cst.ClassDef | cst.Lambda
SEQUENCES = (list, tuple)

# Fields that hold white space, comments and punctuation: nothing in them has a meaning to look up.
SPACE = re.compile(
    r"whitespace|lines|header|footer|[lr](par|bracket|brace)|comma|semicolon|dot$|equal$|indent$|encoding"
)


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind) if not SPACE.search(part.name))


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and all that stands in it and means something; no order is promised."""
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(children(found))


def inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and all that stands in it and means something, in source order."""
    yield node
    for child in children(node):
        yield from inside(child)


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes in `node` that mean something, in source order; libcst's own `children` is a visit of everything."""
    for name in _parts(type(node)):
        value = getattr(node, name)
        if _is_node(type(value)):
            yield value
        elif isinstance(value, SEQUENCES):
            for item in value:
                if _is_node(type(item)):
                    yield item


_NODES: dict[type, bool] = {}


def _is_node(kind: type) -> bool:
    """The same as issubclass(kind, cst.CSTNode), which asks an abstract class every time."""
    found = _NODES.get(kind)
    if found is None:
        found = _NODES[kind] = issubclass(kind, cst.CSTNode)
    return found


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its meaning.

    `qualified` for imports; `value` for `name = value`; `node` is the statement, definition or parameter. Of
    `a, b = value` the value is the whole and `index` says which part.
    """

    kind: BindingKind
    node: cst.CSTNode
    qualified: str = ""
    value: cst.BaseExpression | None = None
    conditional: bool = False
    index: int | None = None


@dataclass(eq=False)
class Scope:
    """A module, function, class or lambda with the names it binds; of a class also what its methods set on `self`."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    links: dict[str, tuple[Scope, str]] = field(default_factory=dict)  # names that mean those of another file

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The innermost enclosing scope that binds `name`, class scopes skipped as Python does."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, cst.ClassDef)
            if visible and (name in scope.bindings or name in scope.links) and name not in scope.outside:
                scope, name = scope.links.get(name, (scope, name))
                return scope, scope.bindings[name]
            scope = scope.parent
        return None


def collect_scopes(tree: cst.Module) -> dict[cst.CSTNode, Scope]:
    """Every scope of a file by its node, with its bindings."""
    return _Scopes(tree).collect()


# The nodes that bind names, or under which a binding is conditional; most are neither, and a look at the type is quick.
BINDING = frozenset(
    {
        cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal, cst.Assign,
        cst.AnnAssign, cst.NamedExpr, cst.AugAssign, cst.For, cst.CompFor, cst.AsName, cst.If, cst.While, cst.Try,
        cst.TryStar, cst.Match,
    }
)  # fmt: skip


class _Scopes:
    """Collects the bindings of every scope in one walk."""

    def __init__(self, tree: cst.Module) -> None:
        self.tree = tree
        self.found: dict[cst.CSTNode, Scope] = {}
        self.imported: frozenset[str] = frozenset()  # by the try whose handler for a missing library is visited

    def collect(self) -> dict[cst.CSTNode, Scope]:
        tree = self.tree
        self.found[tree] = Scope(tree, None)
        for statement in tree.body:
            self.visit(statement, self.found[tree], False)
        return self.found

    def bind(self, scope: Scope, name: str, binding: Binding) -> None:
        if name in self.imported and binding.kind != "import":
            return  # what stands in for a library that the run had
        scope.bindings.setdefault(name, []).append(binding)

    def visit(self, node: cst.CSTNode, scope: Scope, conditional: bool) -> None:
        if type(node) not in BINDING:
            for child in children(node):
                self.visit(child, scope, conditional)
            return
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.bind(scope, node.name.value, Binding("definition", node, conditional=conditional))
            inner = self.found[node] = Scope(node, scope)
            for decorator in node.decorators:
                self.visit(decorator, scope, conditional)
            if isinstance(node, cst.FunctionDef):
                self.parameters(node.params, inner, scope)
            else:
                for argument in (*node.bases, *node.keywords):
                    self.visit(argument, scope, conditional)
            self.visit(node.body, inner, False)
            return
        if isinstance(node, cst.Lambda):
            inner = self.found[node] = Scope(node, scope)
            self.parameters(node.params, inner, scope)
            self.visit(node.body, inner, False)
            return
        if isinstance(node, cst.Import | cst.ImportFrom):
            self.imports(node, scope, conditional)
            return
        if isinstance(node, cst.Global | cst.Nonlocal):
            scope.outside.update(item.name.value for item in node.names)
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                self.assign(target.target, node.value, node, scope, conditional)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self.assign(node.target, node.value, node, scope, conditional)
        elif isinstance(node, cst.NamedExpr):
            self.assign(node.target, None, node, scope, True)
        elif isinstance(node, cst.AugAssign | cst.For | cst.CompFor):
            self.assign(node.target, None, node, scope, conditional)
        elif isinstance(node, cst.AsName):
            self.assign(node.name, None, node, scope, conditional)
        nested = conditional or isinstance(node, cst.If | cst.For | cst.While | cst.Try | cst.TryStar | cst.Match)
        if isinstance(node, cst.If) and is_main_guard(node):
            nested = conditional
        if isinstance(node, cst.Try):
            self.tries(node, scope, conditional)
            return
        for child in children(node):
            self.visit(child, scope, nested)

    def tries(self, node: cst.Try, scope: Scope, conditional: bool) -> None:
        """`try: import x`, `except ImportError: x = None`: the name is the library's. Where every handler ends the run,
        what stands in the `try:` has run to its end for all that comes behind."""
        before = {name: len(held) for name, held in scope.bindings.items()}
        self.visit(node.body, scope, conditional or not all(ends_the_run(handler.body) for handler in node.handlers))
        new = {
            name
            for name, held in scope.bindings.items()
            if any(binding.kind == "import" for binding in held[before.get(name, 0) :])
        }
        for child in children(node):
            if child is node.body:
                continue
            outer = self.imported
            if isinstance(child, cst.ExceptHandler) and catches_missing(child):
                self.imported = outer | new
            self.visit(child, scope, True)
            self.imported = outer

    def parameters(self, params: cst.Parameters, inner: Scope, outer: Scope) -> None:
        every = [*params.posonly_params, *params.params, *params.kwonly_params]
        stars = [star for star in (params.star_arg, params.star_kwarg) if isinstance(star, cst.Param)]
        for param in (*every, *stars):
            self.bind(inner, param.name.value, Binding("parameter", param, value=param.default))
            if param.default is not None:
                self.visit(param.default, outer, False)

    def imports(self, node: cst.Import | cst.ImportFrom, scope: Scope, conditional: bool) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        base = ""
        if isinstance(node, cst.ImportFrom):
            home = dotted(node.module) if node.module is not None else ""
            base = "." * len(node.relative) + home
        for alias in node.names:
            name = dotted(alias.name)
            full = f"{base}.{name}" if base else name
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                self.bind(scope, alias.asname.name.value, Binding("import", node, full, conditional=conditional))
            elif base:
                self.bind(scope, name, Binding("import", node, full, conditional=conditional))
            else:
                head = name.split(".", 1)[0]
                self.bind(scope, head, Binding("import", node, head, conditional=conditional))

    def assign(
        self,
        target: cst.BaseExpression,
        value: cst.BaseExpression | None,
        node: cst.CSTNode,
        scope: Scope,
        conditional: bool,
    ) -> None:
        if isinstance(target, cst.Name):
            kind: BindingKind = "assign" if value is not None else "other"
            self.bind(scope, target.value, Binding(kind, node, value=value, conditional=conditional))
        elif isinstance(target, cst.Tuple | cst.List):
            pairs: list[cst.BaseExpression | None] = [None] * len(target.elements)
            if isinstance(value, cst.Tuple | cst.List) and len(value.elements) == len(target.elements):
                if not any(isinstance(e, cst.StarredElement) for e in (*value.elements, *target.elements)):
                    pairs = [element.value for element in value.elements]
            for index, (element, part) in enumerate(zip(target.elements, pairs, strict=True)):
                if part is not None or not isinstance(element.value, cst.Name | cst.Attribute):
                    self.assign(element.value, part, node, scope, conditional)
                    continue
                unpacked = Binding("unpack", node, value=value, conditional=conditional, index=index)
                if isinstance(element.value, cst.Name):
                    self.bind(scope, element.value.value, unpacked)
                elif (owner := owner_of(element.value, scope)) is not None:
                    owner.attributes.setdefault(element.value.attr.value, []).append(unpacked)
        elif isinstance(target, cst.Attribute) and (owner := owner_of(target, scope)) is not None:
            kind = "assign" if value is not None else "other"
            bound = Binding(kind, node, value=value, conditional=conditional)
            owner.attributes.setdefault(target.attr.value, []).append(bound)


def starred(tree: cst.Module) -> dict[str, cst.ImportFrom]:
    """The modules all of whose names a file takes at its top (`from .utils import *` → `.utils`), in its order, and
    where it does."""
    found = {}
    for line in tree.body:
        for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                home = dotted(node.module) if node.module is not None else ""
                found["." * len(node.relative) + home] = node
    return found


def dotted(node: cst.BaseExpression) -> str:
    """`a.b` of a name or an attribute; "" of anything else."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def owner_of(node: cst.BaseExpression, scope: Scope) -> Scope | None:
    """The class whose object `self` is, for `self.x` in one of its methods (whatever the first parameter's name)."""
    if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
        return None
    found = scope.lookup(node.value.value)
    method = found[0] if found is not None else None
    if method is None or not isinstance(method.node, cst.FunctionDef) or method.parent is None:
        return None
    if not isinstance(method.parent.node, cst.ClassDef) or first_parameter(method.node) != node.value.value:
        return None
    return method.parent


def first_parameter(function: cst.FunctionDef) -> str | None:
    """`self` of a method; None for a static method and a function without parameters."""
    decorators = (decorator.decorator for decorator in function.decorators)
    if any(isinstance(name, cst.Name) and name.value == "staticmethod" for name in decorators):
        return None
    every = (*function.params.posonly_params, *function.params.params)
    return every[0].name.value if every else None


def catches_missing(handler: cst.ExceptHandler) -> bool:
    """Whether a handler is there for a library that isn't installed."""
    if handler.type is None:
        return True
    names = {node.value for node in walk(handler.type) if isinstance(node, cst.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception"})


def ends_the_run(block: cst.BaseSuite) -> bool:
    """Whether a block ends by raising, or with the run."""
    last = block.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
        func = last.value.func
        named = func.value if isinstance(func, cst.Name) else ""
        if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
            named = f"{func.value.value}.{func.attr.value}"
        return named in ("exit", "quit", "sys.exit", "os._exit")
    return isinstance(last, cst.Raise)


def is_main_guard(node: cst.If) -> bool:
    """`if __name__ == "__main__":`."""
    test = node.test
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
