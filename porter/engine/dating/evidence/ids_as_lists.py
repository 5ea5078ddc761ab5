"""`tokenizer.apply_chat_template(messages) + [end]`: a list of token ids before transformers 5, then a dictionary.

Under 5 such a line ends: the script was run on a release of before. `len(...)` of it doesn't, and tells nothing: it is
the number of the dictionary's keys, 2, and whoever keeps rows by it keeps them all, or none.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ....source.indexes import index_of
from ....source.module import Module
from ....source.values import Unknown, evaluate
from ...script.training import Training

METHOD = "apply_chat_template"
GIVES_MORE = "5.0.0"  # the first transformers whose method gives a dictionary unasked
SETTLES = frozenset({"return_dict", "return_tensors"})
GOES_BY = (cst.Comparison, cst.ComparisonTarget, cst.Slice, cst.BinaryOperation)
GROWS = frozenset({"append", "extend", "index", "insert"})


def takes_ids_as_a_list(porting: Training) -> bool:
    """Whether the script cuts or joins what the method gives, as only a list of ids can be."""
    return any(_is_list(porting.module, use) for _, use in _ids(porting.module))


def calls_counted(porting: Training) -> list[cst.Call]:
    """The calls whose ids the script counts, and goes by: `len(tokenizer.apply_chat_template(messages)) <= 1024`,
    `labels[:start]`, `[-100] * start`; not those that it prints."""
    module = porting.module
    found = []
    for call, use in _ids(module):
        count = _counted(module, use)
        if count is not None and any(isinstance(module.parents[each], GOES_BY) for each in _uses(module, count)):
            found.append(call)
    return list(dict.fromkeys(found))


def _ids(module: Module) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The calls that give token ids before transformers 5, each with itself and where its variable is read."""
    if METHOD not in module.text:
        return
    made = (call for call in module.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == METHOD)
    for call in made:
        if _gives_ids(module, call):
            yield from ((call, use) for use in _uses(module, call))


def _gives_ids(module: Module, call: cst.Call) -> bool:
    said = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    if not call.args or not SETTLES.isdisjoint(said) or any(argument.star for argument in call.args):
        return False
    try:
        return "tokenize" not in said or evaluate(module, said["tokenize"]) is True
    except Unknown:
        return False


def _counted(module: Module, use: cst.BaseExpression) -> cst.Call | None:
    """The call of `len` that an expression stands in."""
    above = module.parents[use]
    call = module.parents[above] if isinstance(above, cst.Arg) else None
    is_len = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
    return call if is_len and isinstance(call, cst.Call) else None


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
    if isinstance(above, cst.BinaryOperation):
        return isinstance(above.operator, cst.Add)
    if isinstance(above, cst.Subscript) and above.value is use:
        at = index_of(above)
        if at is not None and isinstance(module.parents[above], cst.Comparison | cst.ComparisonTarget):
            return False  # an Encoding, equal to no number
        return at is None or isinstance(at, cst.Integer | cst.UnaryOperation)
    return isinstance(above, cst.Attribute) and above.value is use and above.attr.value in GROWS
