"""Expressions that hold a text, taken apart: what joins it, the method that changes it, the keys that lead to it."""

from __future__ import annotations

import ast
from typing import Any

from .trees import last_name

CHANGED = frozenset("replace lower upper strip lstrip rstrip removeprefix removesuffix".split())
PARTED = frozenset("split rsplit partition rpartition".split())


def parts_of(node: ast.expr) -> list[ast.expr | str]:
    """The parts of a text that an f-string, `+`, a path's `/` or a call joins."""
    if isinstance(node, ast.JoinedStr):
        held = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        plain = all(part.format_spec is None for part in node.values if isinstance(part, ast.FormattedValue))
        return list(held) if plain else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        between: list[ast.expr | str] = ["/"] if isinstance(node.op, ast.Div) else []
        return [node.left, *between, node.right]
    given = node.args if isinstance(node, ast.Call) else []
    return [part for each in given for part in ("/", each)][1:]


def text_method(node: ast.Call | ast.Subscript) -> tuple[ast.expr, str, list[Any], Any] | None:
    """The text that a method of str is called on, the method, its arguments, and which of its result is taken."""
    taken: Any = None
    if isinstance(node, ast.Subscript):
        try:
            taken = ast.literal_eval(node.slice)
        except ValueError:
            return None
        if not isinstance(node.value, ast.Call):
            return None
        node = node.value
    if not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    name = node.func.attr
    if name not in PARTED if isinstance(taken, int) else taken is not None or name not in CHANGED:
        return None
    values = [each.value for each in node.args if isinstance(each, ast.Constant)]
    return (node.func.value, name, values, taken) if len(values) == len(node.args) else None


def changed_text(text: str, name: str, values: list[Any], taken: Any) -> str:
    """What the method gives; an empty text where it fails."""
    try:
        result = getattr(text, name)(*values)
        return str(result if taken is None else result[taken])
    except (TypeError, ValueError, IndexError):
        return ""


def keys_of(node: ast.expr) -> tuple[str, list[str]] | None:
    """The name that `node` begins with and the keys behind it: `config["model"].get("name")`, `args.model`."""
    root, keys = _parted(node)
    return (root.id, keys) if isinstance(root, ast.Name) and keys else None


def keys_loaded(node: ast.expr) -> list[str]:
    """The keys behind a call that reads a file: `yaml.safe_load(open(PATH))["model"]`."""
    root, keys = _parted(node)
    reads = isinstance(root, ast.Call) and ast.unparse(root.func).endswith("load")
    return keys if reads else []


def option_of(node: ast.expr) -> list[str]:
    """The section and the option of an INI file that a call asks for: `config.get("model", "name")`."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "get" or len(node.args) != 2:
        return []
    asked = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return asked if len(asked) == 2 else []


def _parted(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """What keys and attributes are asked of, and those."""
    keys: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            keys.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.append(str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            if not node.args or not isinstance(node.args[0], ast.Constant):
                break
            keys.append(str(node.args[0].value))
            node = node.func.value
        elif isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
            if not isinstance(node.args[1], ast.Constant):
                break
            keys.append(str(node.args[1].value))
            node = node.args[0]
        else:
            break
    return node, keys[::-1]
