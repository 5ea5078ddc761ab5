"""`len(tokenizer.apply_chat_template(messages))`: of a list of token ids before transformers 5, then of a dictionary.

Under 5 such a line counts the dictionary's keys, or ends: the script was run on a release of before.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.indexes import index_of
from ...source.module import Module
from ...source.values import Unknown, evaluate
from ..script.training import Training

METHOD = "apply_chat_template"
GIVES_MORE = "5.0.0"  # the first transformers whose method gives a dictionary unasked
SETTLES = frozenset({"return_dict", "return_tensors"})
GROWS = frozenset({"append", "extend", "index", "insert"})


def takes_ids_as_a_list(porting: Training) -> bool:
    """Whether the script counts, cuts or joins what the method gives, as only a list of ids can be."""
    module = porting.module
    if METHOD not in module.text:
        return False
    made = (call for call in module.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == METHOD)
    return any(_is_list(module, use) for call in made if _gives_ids(module, call) for use in _uses(module, call))


def _gives_ids(module: Module, call: cst.Call) -> bool:
    said = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    if not call.args or not SETTLES.isdisjoint(said) or any(argument.star for argument in call.args):
        return False
    try:
        return "tokenize" not in said or evaluate(module, said["tokenize"]) is True
    except Unknown:
        return False


def _uses(module: Module, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The call, and where the variable that it alone is assigned to is read."""
    yield call
    assign = module.parents[call]
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    found = module.meaning(target) if isinstance(target, cst.Name) else None
    if isinstance(target, cst.Name) and found is not None and len(found[1]) == 1:
        yield from (use for use in module.references(target.value, found[0]) if isinstance(use, cst.BaseExpression))


def _is_list(module: Module, use: cst.BaseExpression) -> bool:
    above = module.parents[use]
    if isinstance(above, cst.Arg):
        call = module.parents[above]
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
    if isinstance(above, cst.BinaryOperation):
        return isinstance(above.operator, cst.Add)
    if isinstance(above, cst.Subscript) and above.value is use:
        at = index_of(above)
        return at is None or isinstance(at, cst.Integer | cst.UnaryOperation)
    return isinstance(above, cst.Attribute) and above.value is use and above.attr.value in GROWS
