"""Columns of a dataset, `rows["text"]`: lists before datasets 4, and objects that are read row by row since.

    tokens = tokenizer(rows["text"])

ends a port, whose datasets is today's; `apply_chat_template(rows["messages"])` gives one empty text, and says nothing.
`list(...)` makes the list again where something is done with it that such an object can't.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ....runtime.facts.field_tables import version_key
from ....source.module import Module
from ...script.dating import release_of
from ...script.fill_from_tables import bindings_of, plain_version
from ...script.flow import origins
from ...script.porting import Porting
from ..transformers.end_tokens import is_tokenizer

RULE = "TP529"
REASON = "datasets 4 gives a column that is no list"
MAKES = re.compile(r"datasets\.(?:Dataset\.from_\w+|concatenate_datasets|interleave_datasets)")
LOADS = re.compile(r"datasets\.(?:load_dataset|load_from_disk)")
# Methods of a dataset, or of a dictionary of them, that give one back.
CHAINS = frozenset(
    """
    map filter select shuffle sort remove_columns rename_column rename_columns cast cast_column take skip shard flatten
    add_column select_columns add_item unique_by flatten_indices
    """.split()
)
SPLITS = frozenset("train test validation valid dev eval train_sft test_sft train_prefs test_prefs".split())
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


def list_columns(porting: Porting) -> None:
    """Columns are lists again where the script does with them what only a list can."""
    module = porting.module
    if "datasets" not in module.roots or not porting.options.active(RULE) or "_format(" in module.text:
        return
    if version_key(release_of(porting, "datasets") or "0") >= (4,):
        return
    older = version_key(plain_version(porting.versions.get("trl", "9"))) < FIRST_LAZY
    for node in list(module.parents):
        if not isinstance(node, cst.Subscript) or _key(node) is None or not _is_dataset(module, node.value):
            continue
        start, end = module.span(node)
        if not porting.covered(start) and any(_needs_list(module, use, older) for use in _uses(module, node)):
            porting.edit(start, start, "list(", RULE, REASON)
            porting.edit(end, end, ")", RULE, REASON)


def _uses(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """A column, and the uses of the name that it is bound to."""
    yield node
    assign = module.parents[node]
    if isinstance(assign, cst.Assign) and assign.value is node and len(assign.targets) == 1:
        target = assign.targets[0].target
        if isinstance(target, cst.Name) and len(bindings_of(module, target)) == 1:
            yield from module.references(target.value, module.scope(target))
        else:
            yield target


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


def _is_dataset(module: Module, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an expression surely is one dataset of the library's, and no dictionary of them nor a batch."""
    made = _made(module, node)
    match made:
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name(name))) if name in CHAINS and depth < 20:
            return _is_dataset(module, held, depth + 1)
        case cst.Call():
            name = module.qualified(made.func) or ""
            return MAKES.fullmatch(name) is not None or (name == "datasets.load_dataset" and _has_split(made))
        case cst.Subscript(value=held):
            return _key(made) in SPLITS and depth < 20 and _is_dictionary(module, held, depth + 1)
    return False


def _is_dictionary(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression is a dictionary of datasets."""
    made = _made(module, node)
    match made:
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name("train_test_split"))) if depth < 20:
            return _is_dataset(module, held, depth + 1)
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name(name))) if name in CHAINS and depth < 20:
            return _is_dictionary(module, held, depth + 1)
        case cst.Call():
            name = module.qualified(made.func) or ""
            return name == "datasets.DatasetDict" or (LOADS.fullmatch(name) is not None and not _has_split(made))
    return False


def _made(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression that gave a variable its value, where there is one alone."""
    chain = [*origins(module, node)]
    return chain[-1] if chain else node


def _has_split(call: cst.Call) -> bool:
    return any(argument.keyword is not None and argument.keyword.value == "split" for argument in call.args)


def _key(node: cst.Subscript) -> str | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    text = value.evaluated_value if isinstance(value, cst.SimpleString) else None
    return text if isinstance(text, str) else None
