"""Settings that a script gives its arguments, or its adapters' config, behind the call that makes them.

    args.eval_delay = 2
    setattr(args, "eval_delay", 2)

The port keeps the object, which refuses then what it would have refused of the call: that is better known before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from ...recipe import Field
from ...source.calls import set_by_name
from ...source.dictionaries.items import dict_items
from ...source.dictionaries.possible import BY_CONDITION, depends
from ...source.module import Module
from ...source.read_value import read_value
from ...source.values import Unknown, evaluate
from ..script.fill_from_tables import argument_at, follow, judge, plain_versions, short_name, table_of
from ..script.sites import Site, shown
from ..script.training import Training
from ..script.uses_of_training import Use, uses
from ..steps.step import Phase, step

CONFIG = "lora.config"  # where tables put the config of adapters


@step(Phase.READ, of="trainer", reads=("config", "arguments_object", "inject", "lora", "lora_object", "values"))
def refuse_set_later(porting: Training) -> None:
    """An error at each value that the port's object would refuse where the script surely sets it."""
    taker = porting.inject or porting.trainer
    adapters = porting.lora
    if taker is not None and adapters is None and porting.lora_object not in ("", "None"):
        adapters = follow(porting, argument_at(porting, taker, CONFIG), "lora")
    kept = (("arguments", porting.config, porting.arguments_object), ("lora", adapters, porting.lora_object))
    for role, site, text in kept:
        if site is not None and site.variable is not None and text not in ("", "None"):
            for use in uses(porting, role, site.variable, site.home):
                for name, value in _sets(porting.module, use):
                    _judge(porting, site, name, value)


def _judge(porting: Training, site: Site, name: str, node: cst.BaseExpression) -> None:
    module, rule = porting.module, table_of(porting, site)
    row = rule.table.rows(plain_versions(porting)).get(name)
    value = read_value(module, node)
    if row is None or not value.known:
        return
    fate, reason = judge(value, row)
    if fate != "manual" or row.verdict(value.literal)[0] != "manual":
        return
    source, text = f"{short_name(site)}.{name}", shown(module.code(node))
    line, column = module.location(node)
    porting.fate(Field(source, text, fate, "", reason, rule.id, line, column))
    porting.find(rule.id, "error", f"{source}={text}: {reason}", "", line, column, key=f"{source} set later")


def _sets(module: Module, use: Use) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The fields that a use of an object surely sets, each with its value."""
    target = module.parents[use.outer]
    if use.kind == "assign" and "." not in use.chain:
        assign = module.parents[target] if isinstance(target, cst.AssignTarget) else target
        if isinstance(assign, cst.Assign | cst.AnnAssign) and assign.value is not None and not depends(module, assign):
            yield use.chain, assign.value
    if use.asker != "setattr" or not (given := set_by_name(module, call := module.parents[target])):
        return
    _, key, value = given
    try:
        name = evaluate(module, key)
    except Unknown:
        yield from _of_loop(module, call, module.code(key), module.code(value))
        return
    if isinstance(name, str) and not depends(module, call):
        yield name, value


def _of_loop(module: Module, call: cst.CSTNode, *names: str) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The items of the dictionary that a loop goes through: `for name, value in {...}.items(): setattr(...)`, also
    where it asks whether the object has them."""
    around = takewhile(lambda each: not isinstance(each, cst.FunctionDef), module.ancestors(call))
    blocks = [each for each in around if isinstance(each, BY_CONDITION)]
    while blocks and isinstance(blocks[0], cst.If) and module.code(blocks[0].test).startswith("hasattr("):
        del blocks[0]
    loop = blocks[0] if blocks else None
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Tuple) or depends(module, loop):
        return
    over = loop.iter.func if isinstance(loop.iter, cst.Call) else None
    same = [module.code(each.value) for each in loop.target.elements] == [*names]
    if same and isinstance(over, cst.Attribute) and over.attr.value == "items":
        yield from dict_items(module, over.value) or ()
