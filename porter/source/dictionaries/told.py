"""What the project's files of settings say that an expression is, if the run finds no others: `cfg["lora"]["r"]`."""

from __future__ import annotations

import libcst as cst

from ..module import Module
from ..project.around import with_what_it_imports
from ..project.usual.settings_files import CONFIG
from .places import DEEPEST, Places

CASTS = ("int", "float", "bool")


def told_by_files(module: Module, node: cst.BaseExpression, call: cst.Call) -> cst.BaseExpression | None:
    """The node that a keyword of `call` is by a file of settings, which stands nowhere in the script; None where none
    tells, or several could be meant."""
    found = _told_by_files(module, node, call)
    if found is None and CONFIG.search(module.text) is not None:
        whole = with_what_it_imports(module)
        found = _told_by_files(whole, node, call) if whole is not module else None
    return found


def _told_by_files(module: Module, node: cst.BaseExpression, call: cst.Call) -> cst.BaseExpression | None:
    places = Places(module, call)
    for _ in range(DEEPEST):
        binding = module.single_binding(node) if isinstance(node, cst.Name) else None
        if isinstance(node, cst.Call) and module.code(node.func) in CASTS and len(node.args) == 1:
            node = node.args[0].value
        elif binding is not None and binding.kind == "assign" and binding.value is not None:
            node = binding.value
        else:
            break
    found: list[cst.BaseExpression] = []
    if isinstance(node, cst.Attribute | cst.Subscript):
        found = places.held(node, 0)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get":
        found = places.items(node.func.value, node.args[0].value, 0) if node.args else []
    return found[0] if len(found) == 1 and found[0] not in module.parents else None
