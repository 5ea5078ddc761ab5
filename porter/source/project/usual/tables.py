"""Dictionaries and lists that the modules of a project write out, and what stands in them: `CONFIG["model"]["name"]`.

Through other modules, functions that return one, two put together, and what one is made into: `EasyDict({...})`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .trees import (
    declarations_of,
    functions_of,
    has_class,
    held_by_objects,
    items_set_in,
    returned_by,
    set_to_in,
    unpacked_in,
)

DEEPEST = 12  # tables in tables, and names that lead to one another
Entry = tuple[ast.expr, str]  # an expression, and the module in which it stands


class Tables:
    """What reads the modules of a project, by their files; "" is the script."""

    trees: dict[str, ast.Module]

    def of(self, node: ast.expr, place: str = "", depth: int = 0) -> tuple[str, str] | None:
        """The text that an expression holds, and where that stands."""
        raise NotImplementedError

    def imported(self, name: str, place: str) -> tuple[str, str] | None:
        """The module of the project that a name is, or is from, and its name there."""
        raise NotImplementedError

    def read_text(self, text: str) -> ast.expr | None:
        """What a text of settings holds, `json.loads("{...}")`."""
        raise NotImplementedError

    def entry(self, node: ast.expr, place: str, depth: int) -> Entry | None:
        """What stands in a table, `MODELS[args.model]["id"]`, its key by what that usually is."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.Subscript):
            owner, key = node.value, self._key(node.slice, place, depth)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner, key = node.func.value, self._key(node.args[0], place, depth) if node.args else None
        elif isinstance(node, ast.Attribute):
            owner, key = node.value, node.attr
        else:
            return None
        if key is None:
            return None
        table = self.table(owner, place, depth + 1)
        held = None
        within = isinstance(owner, ast.Attribute) and self.entry(owner, place, depth + 1) is not None
        if table is not None and (not isinstance(node, ast.Attribute) or within or not self._is_plain(table)):
            held = self._at_key(*table, key, depth + 1)
        later = items_set_in(self.trees[place], owner.id, key) if isinstance(owner, ast.Name) else []
        if not later:
            return held
        is_empty = held is None or (isinstance(held[0], ast.Constant) and not held[0].value)
        return (later[0], place) if len(later) == 1 and is_empty else None

    def _key(self, node: ast.expr, place: str, depth: int) -> str | int | None:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str | int) else None
        found = self.of(node, place, depth + 1)
        return found[0] if found is not None else None

    def _is_plain(self, table: Entry) -> bool:
        """Whether a table has no attributes: a dictionary, a list, or an object of a class of the project, whose fields
        are read elsewhere."""
        node, place = table
        if not isinstance(node, ast.Call):
            return True
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        return name == "dict" or self._defined(name, place) is not None

    def _defined(self, name: str, place: str) -> tuple[str, str] | None:
        """The module and the name by which the project defines a function or a class; None where it doesn't."""
        if name in functions_of(self.trees[place]) or has_class(self.trees[place], name):
            return place, name
        return self.imported(name, place) if name else None

    def table(self, node: ast.expr, place: str, depth: int) -> Entry | None:
        """The display or the call that makes the table which an expression is."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.BinOp):
            return node, place
        if isinstance(node, ast.Name):
            return self._named_table(node.id, place, depth + 1)
        if isinstance(node, ast.Call):
            return self._made_table(node, place, depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self.imported(node.value.id, place)
            if module is not None and not module[1]:
                return self._named_table(node.attr, module[0], depth + 1)
            if (held := self._held(node.value.id, node.attr, place)) is not None:
                return self.table(*held, depth + 1)
        found = self.entry(node, place, depth + 1)
        return self.table(*found, depth + 1) if found is not None else None

    def _named_table(self, name: str, place: str, depth: int) -> Entry | None:
        values = set_to_in(self.trees[place], name)
        if values:
            return self.table(values[0], place, depth) if len(values) == 1 else None
        module = self.imported(name, place)
        if module is not None:
            return self._named_table(module[1], module[0], depth + 1) if module[1] and depth < DEEPEST else None
        parts = unpacked_in(self.trees[place], name)
        return self.table(parts[0], place, depth) if len(parts) == 1 else None

    def _made_table(self, node: ast.Call, place: str, depth: int) -> Entry | None:
        """The table that a call gives: what a function returns, what an object is made of, or its own keywords."""
        if (result := self.result(node, place)) is not None:
            return self.table(*result, depth)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found = self.entry(node, place, depth)
            return self.table(*found, depth) if found is not None else None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
            return self.table(node.func.value, place, depth)
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Constant):
            text = node.args[0].value
            read = self.read_text(text) if isinstance(text, str) and ast.unparse(node.func).endswith(READS) else None
            return (read, place) if read is not None else None
        return node, place

    def result(self, node: ast.Call, place: str) -> Entry | None:
        """The one expression that a function of the project returns to a call of it."""
        name, home = "", place
        if isinstance(node.func, ast.Name):
            name, home = node.func.id, place
            if name not in functions_of(self.trees[place]) and (module := self.imported(name, place)) is not None:
                home, name = module
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            module = self.imported(node.func.value.id, place)
            if module is None or module[1]:
                return self._result_of_method(node.func.value.id, node.func.attr, place)
            home, name = module[0], node.func.attr
        function = functions_of(self.trees[home]).get(name)
        value = returned_by(function) if function is not None else None
        return (value, home) if value is not None else None

    def _result_of_method(self, owner: str, name: str, place: str) -> Entry | None:
        """The one expression that a method returns: of `self`, of a class of the project or of an object of one."""
        home, classes = self._classes(owner, place)
        methods = [
            each for node in classes for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name
        ]
        value = returned_by(methods[0]) if len(methods) == 1 else None
        return (value, home) if value is not None else None

    def _held(self, owner: str, name: str, place: str) -> Entry | None:
        """What an attribute holds whose only value is a call's or a table: `self.config = self.read()`."""
        home, classes = self._classes(owner, place)
        values = [value for node in classes for value in held_by_objects(node).get(name, ())]
        one = len({ast.dump(value) for value in values}) == 1 and isinstance(values[0], ast.Call | ast.Dict)
        return (values[0], home) if one else None

    def _classes(self, owner: str, place: str) -> tuple[str, list[ast.ClassDef]]:
        """The classes of the project that `self`, a class or an object of one may be, and their module."""
        made = set_to_in(self.trees[place], owner)
        if len(made) == 1 and isinstance(made[0], ast.Call) and isinstance(made[0].func, ast.Name):
            owner = made[0].func.id
        home, named = (place, "") if owner in ("self", "cls") else self._defined(owner, place) or (place, owner)
        found = [node for node in declarations_of(self.trees[home]) if isinstance(node, ast.ClassDef)]
        return home, [node for node in found if named in ("", node.name)]

    def _at_key(self, node: ast.expr, place: str, key: str | int, depth: int) -> Entry | None:
        """What a table holds at a key: what stands last."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.List | ast.Tuple):
            fits = isinstance(key, int) and -len(node.elts) <= key < len(node.elts)
            return (node.elts[int(key)], place) if fits else None
        for name, value in self._items(node):
            if name is not None:
                if name == key:
                    return value, place
                continue
            inner = self.table(value, place, depth + 1)
            found = self._at_key(*inner, key, depth + 1) if inner is not None else None
            if found is not None:
                return found
        return None

    def _items(self, node: ast.expr) -> Iterator[tuple[object, ast.expr]]:
        """The items of a table, the last first; of a table that is put into it no key, and itself."""
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys[::-1], node.values[::-1], strict=True):
                if key is None or isinstance(key, ast.Constant):
                    yield key.value if key is not None else None, value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield None, node.right
            yield None, node.left
        elif isinstance(node, ast.Call):
            yield from ((word.arg, word.value) for word in node.keywords[::-1])
            yield from ((None, each) for each in node.args[::-1] if not isinstance(each, ast.Starred))


READS = ("loads", "safe_load", "full_load")
