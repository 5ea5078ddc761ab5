"""What is made of a folder's name: the whole path that it stands in, and the call that takes it."""

from __future__ import annotations

import libcst as cst

from porter.packs.script import Module

JOINS = frozenset("join joinpath Path PurePath str fspath abspath realpath expanduser resolve absolute".split())
WRAPS = (cst.Arg, cst.FormattedStringExpression, cst.Attribute, cst.Element)
CHOSEN_OR_LISTED = (cst.BooleanOperation, cst.IfExp, cst.List, cst.Tuple)  # `best or last`, `["cp", "-r", best]`


def whole_path(module: Module, node: cst.BaseExpression, *, listed: bool = False) -> cst.BaseExpression:
    """The whole path that a part of it stands in; where that is `listed`, the choice or the command that it is of."""
    while True:
        parent = module.parents[node]
        if isinstance(parent, WRAPS):
            parent = module.parents[parent]
        joins = isinstance(parent, cst.Call) and called(module, parent) in JOINS
        holds = listed and isinstance(parent, CHOSEN_OR_LISTED)
        holds = holds and not (isinstance(parent, cst.IfExp) and parent.test is node)
        if not joins and not holds and not isinstance(parent, cst.BinaryOperation | cst.FormattedString):
            return node
        assert isinstance(parent, cst.BaseExpression)
        node = parent


def called(module: Module, call: cst.Call) -> str:
    """The last name of what is called: `copytree` of `shutil.copytree(...)`."""
    return module.code(call.func).rsplit(".", 1)[-1]
