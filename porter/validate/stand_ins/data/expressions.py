"""What expressions hold: subscripts and attributes of data, texts made of it, comparisons that tell its kind."""

from __future__ import annotations

import ast
import re
from typing import Any

from .calls import Calls
from .shapes import LEAST, Shape, find, kind_by_name, merge

MOST_KEYS = 50
DYNAMIC = ("key", "col", "field", "name")
SAME = ("iloc", "loc", "values", "at", "iat", "T", "data")
COMPARED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
TURN_MARK = re.compile(r"[\[\]<>#|]")  # in what begins the part that a model is to write


class Expressions(Calls):
    """Evaluates expressions to shapes."""

    def value(self, node: ast.AST | None, scope: Any) -> Shape:
        """The shape of what `node` holds."""
        if node is None:
            return Shape()
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return find(method(node, scope))
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.value(part, scope)
        return Shape()

    def _name(self, node: ast.Name, scope: Any) -> Shape:
        held = scope.look(node.id)
        if held is None:
            outermost = scope
            while outermost.outer is not None:
                outermost = outermost.outer
            held = outermost[node.id] = Shape()
        return held

    def _constant(self, node: ast.Constant, scope: Any) -> Shape:
        held = Shape()
        if isinstance(node.value, str):
            held.constants.append(node.value)
        return held

    def _joinedstr(self, node: ast.JoinedStr, scope: Any) -> Shape:
        held = Shape()
        held.use("str")
        literals = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(part.value, scope).use("shown")
                literals.append("x")
            elif isinstance(part, ast.Constant):
                literals.append(str(part.value))
        held.constants.append("".join(literals))
        return held

    def _attribute(self, node: ast.Attribute, scope: Any) -> Shape:
        base = self.value(node.value, scope)
        if node.attr in SAME and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return base
        if node.attr in self.class_of(node.value):
            held = Shape()
            held.functions.append(self.class_of(node.value)[node.attr])
            return held
        held = base.field(f"\0.{node.attr}")
        for text in self.defaults.get(node.attr, ()):
            if text not in held.constants:
                held.constants.append(text)
        return held

    def _subscript(self, node: ast.Subscript, scope: Any) -> Shape:
        base = self.value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            return base
        key = node.slice
        if isinstance(key, ast.Tuple):  # df.loc[index, "column"]
            named = [part.value for part in key.elts if isinstance(part, ast.Constant)]
            texts = [name for name in named if isinstance(name, str)]
            return base.load(texts[0]) if texts else base.item()
        if isinstance(key, ast.List):
            for name in self.texts(key, scope):
                base.load(name)
            return base
        chosen = self.value(key, scope)
        names = chosen.constants
        self.looked_up(base, chosen)
        if names:
            held = base.load(names[-1])
            for name in names[:-1]:
                base.load(name)
            return held
        number = _integer(key)
        if number is not None:
            place = f"\0#{number}"
            if place in find(base).fields:
                return base.field(place)
            if isinstance(node.value, ast.Call) and number >= 0:
                self.separated(node.value, number, scope)
            base.use("indexed")
            if number > 0:
                base.use(f"{LEAST}{number + 1}")
            return base.item()
        if isinstance(key, ast.Compare | ast.BoolOp | ast.UnaryOp):  # a mask of rows
            return base
        if "mapping" not in base.uses and isinstance(key, ast.Name) and any(word in key.id.lower() for word in DYNAMIC):
            return Shape()
        base.use("indexed")
        return base.item()

    def looked_up(self, base: Shape, key: Shape) -> None:
        """What is looked up in a mapping or a sequence that the script writes out is one of its keys."""
        keys = find(base).keys or [index for text in base.constants[:1] for index in range(len(text))][:MOST_KEYS]
        if keys and not key.constants:
            key.among += [each for each in keys if each not in key.among]

    def separated(self, call: ast.Call, parts: int, scope: Any) -> None:
        """A text of which a part after the first is taken has the separator in it, and one of which the first part is
        taken has a separator that looks like one: `text.split("[/INST]")[0]`."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("split", "partition", "rsplit") and call.args:
            held = self.value(call.func.value, scope)
            for text in self.value(call.args[0], scope).constants:
                if len(text.strip()) > 1 and text not in held.markers and (parts or TURN_MARK.search(text)):
                    held.markers.append(text)

    def asked_for(self, test: ast.expr, scope: Any) -> None:
        """Texts without a mark are left out where `test` holds, so they have it: `if "</think>" not in answer:`."""
        for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]:
            if not isinstance(part, ast.Compare) or not isinstance(part.ops[0], ast.NotIn):
                continue
            mark, held = part.left, self.value(part.comparators[0], scope)
            if isinstance(mark, ast.Constant) and isinstance(mark.value, str) and TURN_MARK.search(mark.value):
                if len(mark.value.strip()) > 1 and not held.keys and mark.value not in held.markers:
                    held.markers.append(mark.value)

    def _dict(self, node: ast.Dict, scope: Any) -> Shape:
        held = Shape()
        for key, part in zip(node.keys, node.values, strict=False):
            if key is None:
                merge(held, self.value(part, scope))
                continue
            inner = self.value(part, scope)
            for name in self.value(key, scope).constants[:1]:
                held.store(name, inner)
        if all(isinstance(key, ast.Constant) for key in node.keys):
            find(held).keys += [key.value for key in node.keys if isinstance(key, ast.Constant)][:MOST_KEYS]
        return find(held)

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: Any) -> Shape:
        held = Shape()
        for index, part in enumerate(node.elts):
            inner = self.value(part, scope)
            if isinstance(node, ast.Tuple):
                merge(held.field(f"\0#{index}"), inner)
            elif isinstance(part, ast.Starred):
                merge(held, inner)
            else:
                merge(held.item(), inner)
        if isinstance(node, ast.List) and all(isinstance(part, ast.Constant) for part in node.elts):
            held.keys += list(range(len(node.elts)))[:MOST_KEYS]
        return held

    _tuple = _set = _list

    def _starred(self, node: ast.Starred, scope: Any) -> Shape:
        return self.value(node.value, scope)

    _await = _starred

    def _namedexpr(self, node: ast.NamedExpr, scope: Any) -> Shape:
        held = scope[node.target.id] = self.value(node.value, scope)
        return held

    def _listcomp(self, node: Any, scope: Any) -> Shape:
        inner = type(scope)(scope)
        made = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        for generator in node.generators:
            self.loop(generator.target, generator.iter, [*made, *generator.ifs], inner)
            for test in generator.ifs:
                self.value(test, inner)
        held = Shape()
        if isinstance(node, ast.DictComp):
            named = self.value(node.key, inner).constants
            part = self.value(node.value, inner)
            for name in named:
                held.store(name, part)
            return held
        merge(held.item(), self.value(node.elt, inner))
        return held

    _generatorexp = _setcomp = _dictcomp = _listcomp

    def _lambda(self, node: ast.Lambda, scope: Any) -> Shape:
        return self.define(node, scope)

    def _binop(self, node: ast.BinOp, scope: Any) -> Shape:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if isinstance(node.op, ast.Mod) and left.constants:
            right.use("shown")
        elif isinstance(node.op, ast.Add):
            for one, other in ((node.left, right), (node.right, left)):
                if isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str)):
                    other.use("str")
            self.added(node, scope)
            if isinstance(node.left, ast.Name | ast.Call) and isinstance(node.right, ast.Name | ast.Call):
                if not left.constants and not right.constants:
                    merge(left, right)
                    return left
            held = Shape()
            held.constants += [one + other for one in left.constants for other in right.constants][:4]
            return held
        elif isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow):
            for held in (left, right):
                held.use("numeral")
            if not isinstance(node.op, ast.Sub):
                return self.path(node, left, right)
        return Shape()

    def added(self, node: ast.BinOp, scope: Any) -> None:
        """What is put together with a column whose name says a text is text, whatever its own name says: an id."""
        parts: list[ast.expr] = [node]
        while isinstance(parts[0], ast.BinOp) and isinstance(parts[0].op, ast.Add):
            parts[:1] = [parts[0].left, parts[0].right]
        keys = [_key(part) for part in parts if isinstance(part, ast.Subscript) and _key(part)]
        if len(keys) == len(parts) and any(kind_by_name(key) == "text" for key in keys):
            for part in parts:
                self.value(part, scope).use("str")

    def path(self, node: ast.BinOp, left: Shape, right: Shape) -> Shape:
        """`folder / "file.json"`: a path by the name at its end."""
        held = Shape()
        if isinstance(node.op, ast.Div):
            held.constants += right.constants
            for one in (left, right):
                find(one).uses.discard("numeral")
        return held

    def _compare(self, node: ast.Compare, scope: Any) -> Shape:
        left = self.value(node.left, scope)
        for operator, other in zip(node.ops, node.comparators, strict=False):
            held = self.value(other, scope)
            if _is_length(other) and isinstance(node.left, ast.Name):  # `i < len(rows)` of an index
                left.literals += [] if 0 in left.literals else [0]
            constants = [part for part in ast.walk(other) if isinstance(part, ast.Constant)]
            if isinstance(operator, ast.In | ast.NotIn) and isinstance(node.left, ast.Constant):
                continue
            for one, known in ((left, constants), (held, [node.left])):
                for part in known:
                    if not isinstance(part, ast.Constant) or part.value is None:
                        continue
                    number = type(part.value) in (int, float)
                    if (isinstance(operator, COMPARED) or number) and part.value not in one.literals:
                        one.literals.append(part.value)
        return Shape()

    def _boolop(self, node: ast.BoolOp, scope: Any) -> Shape:
        held = [self.value(part, scope) for part in node.values]
        if isinstance(node.op, ast.Or):
            for part, other in zip(node.values[1:], held[1:], strict=False):
                if not isinstance(part, ast.Constant | ast.Compare | ast.UnaryOp | ast.BoolOp):
                    if held[0].items is not None or other.items is not None or held[0].uses or other.uses:
                        continue
                    if not held[0].constants and not other.constants:
                        merge(held[0], other)
            return held[0]
        return held[-1]

    def _ifexp(self, node: ast.IfExp, scope: Any) -> Shape:
        self.value(node.test, scope)
        one, other = self.value(node.body, scope), self.value(node.orelse, scope)
        if self.comes_from(one, other):
            return one
        if not isinstance(node.orelse, ast.Constant) and not isinstance(node.body, ast.Constant):
            merge(one, other)
        return other if isinstance(node.body, ast.Constant) else one

    def _call(self, node: ast.Call, scope: Any) -> Shape:
        return self.call(node, scope)

    def texts(self, node: ast.expr | None, scope: Any) -> list[str]:
        """The strings that an expression names: one, or a list of them."""
        if node is None:
            return []
        held = self.value(node, scope)
        inner = find(held).items
        return [*held.constants, *(find(inner).constants if inner is not None else [])]


def _is_length(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _key(node: ast.Subscript) -> str:
    return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""


def _integer(node: ast.expr) -> int | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    return sign * node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
