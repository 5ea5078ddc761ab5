"""Dictionaries that a script spreads over calls, by the names that hold them: the keys that they are given."""

from __future__ import annotations

import ast

from .syntax import entries_of

GUARDED, IF_THERE = 1, 2  # how a use is guarded; 0 where it isn't


class Dictionaries(ast.NodeVisitor):
    """A reader that knows the keys of dictionaries, each with its line and how it is guarded."""

    def __init__(self) -> None:
        self.spread: dict[str, list[tuple[str, int, int]] | None] = {}  # by a name; by `class.name`, `name[key]` too

    def _place(self, node: ast.expr) -> str:
        """By what `spread` knows an expression; "" for what it doesn't know."""
        raise NotImplementedError

    def _how(self) -> int:
        """How what is read now is guarded."""
        raise NotImplementedError

    def _holds(self, place: str, value: ast.expr) -> None:
        """Note the keys of a dictionary, and of those in it, that `place` is given; only where nothing else is."""
        literal = entries_of(value)
        known = literal is not None and place not in self.spread
        self.spread[place] = [(word, line, self._how()) for word, line in literal or ()] if known else None
        for key, inner in zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(inner, ast.Dict):
                self._holds(f"{place}[{key.value!r}]", inner)

    def _adds_to(self, place: str, value: ast.expr) -> ast.expr | None:
        """What `kwargs = kwargs | {...}` and `kwargs = {**kwargs, ...}` give a dictionary besides its own keys."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr) and self._place(value.left) == place:
            return value.right
        if isinstance(value, ast.Dict) and value.keys[:1] == [None] and self._place(value.values[0]) == place:
            return value
        return None

    def _gets(self, target: ast.expr, more: ast.expr) -> None:
        """Note the keys that a dictionary is given besides its own: `kwargs |= {...}`, `kwargs.update(...)`."""
        known, words = self.spread.get(self._place(target)), entries_of(more)
        if known is not None and words is not None:
            known += [(word, line, self._how()) for word, line in words]

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.BitOr):
            self._gets(node.target, node.value)
        self.generic_visit(node)

    def _changes(self, method: ast.Attribute, call: ast.Call) -> None:
        """Note what a method of a dictionary gives it."""
        if method.attr == "update" and self.spread.get(self._place(method.value)) is not None:
            words = [word for word in call.keywords if word.arg]
            self._gets(method.value, ast.Call(ast.Name("dict"), [], words))
            for given in call.args[:1]:
                self._gets(method.value, given)

    def visit_Module(self, node: ast.Module) -> None:
        self._visit_all(node.body)

    def _visit_all(self, body: list[ast.stmt]) -> None:
        """Visit statements of which each runs, and note what they take out of dictionaries."""
        for one in body:
            self.visit(one)
            value = one.value if isinstance(one, ast.Expr | ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "pop":
                for key in value.args[:1]:
                    self._loses(value.func.value, key)
            for target in one.targets if isinstance(one, ast.Delete) else ():
                if isinstance(target, ast.Subscript):
                    self._loses(target.value, target.slice)

    def _loses(self, target: ast.expr, key: ast.expr) -> None:
        place = self._place(target)
        known = self.spread.get(place)
        if known is not None and isinstance(key, ast.Constant):
            self.spread[place] = [entry for entry in known if entry[0] != key.value]

    def _renamed(self, part: ast.AST) -> None:
        """`settings["new"] = settings.pop("old")` for the releases that have it: the old name dates nothing."""
        for node in ast.walk(part):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop"):
                continue
            word = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            name = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if known := self.spread.get(name):
                self.spread[name] = [(key, line, GUARDED if key == word else how) for key, line, how in known]
