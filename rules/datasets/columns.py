"""Columns of a dataset: lists, as they were before datasets 4.

What it does: `rows["text"]` of a `datasets.Dataset` becomes `list(rows["text"])` where a tokenizer takes it, where it
is added to, changed or written as JSON, and in a script of before datasets 4 wherever else only a list may do.
Why: a port runs with today's datasets, whose columns are read row by row; tokenizers refuse them, and
`apply_chat_template` takes one for an empty conversation.
Example: `tokens = tokenizer(rows["text"])`
Use instead: `tokens = tokenizer(list(rows["text"]))`
Safety: exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, is_tokenizer, plain_version, reaching, release_of, text_index, version_key

from ._made_datasets import SPLITS, is_dataset

ID = "TP529"
REASON = "datasets 4 gives a column that is no list"
# What a list can and a column can't.
METHODS = frozenset("append copy extend insert pop remove reverse sort clear".split())
TAKES_LISTS = frozenset(["json.dump", "json.dumps", "pickle.dump", "random.shuffle", "torch.tensor", "yaml.dump"])
TOKENIZES = frozenset("apply_chat_template batch_encode_plus encode_plus encode batch_decode".split())
# What takes any sequence: a column does as well as a list.
READS = re.compile(
    r"len|set|list|tuple|sorted|sum|max|min|any|all|zip|enumerate|map|filter|iter|str|print|type|reversed|Counter"
    r"|(?:collections|itertools|numpy|random|statistics)\.[\w.]+|tqdm(?:\.[\w.]+)?"
)
READ_BY = frozenset("join extend update writelines".split())  # methods that do
FIRST_LAZY = (0, 20)  # the first TRL of after datasets 4


@step(Phase.NAME, reads=("tensors",), fills=("columns",))
def list_columns(porting: Porting) -> None:
    """Columns are lists again where the script does with them what only a list can."""
    module = porting.module
    if "datasets" not in module.roots or "_format(" in module.text:
        return
    if version_key(release_of(porting, "datasets") or "0") >= (4,):
        return
    older = version_key(plain_version(porting.versions.get("trl", "9"))) < FIRST_LAZY
    for node in list(module.parents):
        if not isinstance(node, cst.Subscript) or text_index(node) is None or text_index(node) in SPLITS:
            continue
        start, end = module.span(node)
        if not is_dataset(module, node.value) or porting.covered(start):
            continue
        if any(_needs_list(module, use, older) for use in _uses(module, node)):
            porting.edit(start, start, "list(", ID, REASON)
            porting.edit(end, end, ")", ID, REASON)


def _uses(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A column, and the uses of the variable that it is bound to."""
    yield node
    assign = module.parents[node]
    target: cst.BaseExpression | None = None
    if isinstance(assign, cst.Assign) and assign.value is node and len(assign.targets) == 1:
        target = assign.targets[0].target
    elif isinstance(assign, cst.AnnAssign) and assign.value is node:
        target = assign.target
    found = module.meaning(target)
    if target is not None and found is not None:
        for use in module.references(module.code(target), found[0]):
            if any(binding.node is assign for binding in reaching(module, use)):
                yield use


def _needs_list(module: Module, node: cst.BaseExpression, older: bool) -> bool:
    around = module.parents[node]
    match around:
        case cst.Arg():
            call = module.parents[around]
            return isinstance(call, cst.Call) and call.func is not node and _wants_list(module, call, older)
        case cst.BinaryOperation(operator=cst.Add() | cst.Multiply()):
            return True
        case cst.AugAssign():
            return True
        case cst.Attribute(attr=cst.Name(name)):
            return name in METHODS
        case cst.Subscript() if around.value is node:
            return isinstance(module.parents[around], cst.AssignTarget | cst.Del)
        case cst.Return() | cst.Element() | cst.DictElement():
            return older
    return False


def _wants_list(module: Module, call: cst.Call, older: bool) -> bool:
    name = module.qualified(call.func) or module.code(call.func)
    if name in TAKES_LISTS or is_tokenizer(module, call.func):
        return True
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in TOKENIZES:
        return is_tokenizer(module, call.func.value)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in READ_BY:
        return False
    return older and name != "isinstance" and READS.fullmatch(name) is None
