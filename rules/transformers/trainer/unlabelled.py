"""A Trainer on rows that have no labels: its source ends at its first step, and so does the port.

Rows are known to have none where a function of the script that returns the tokenizer's output alone made them, no
collator makes any and the script names no label anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Module, is_tokenizer, reaching, returned
from porter.packs.training import Training, is_given

PART_OF = "transformers"

# Collators that make no labels of what has none.
MAKE_NONE = ("default_data_collator", "DefaultDataCollator", "DataCollatorWithPadding", "DataCollatorForSeq2Seq")
# What gives a dataset back with the columns that it had, or fewer.
KEEPS = ("select", "shuffle", "filter", "remove_columns", "with_format", "train_test_split", "shard", "flatten_indices")
MOST = 20  # names and calls that a dataset is followed through


@step(Phase.READ, of="trainer", reads=("model", "script values"))
def say_unlabelled(porting: Training) -> None:
    """An error where neither the GPU run nor the port has a loss."""
    site, module = porting.trainer, porting.module
    if site is None or site.qualified != "transformers.Trainer" or porting.model is None or site.unknown_keywords:
        return
    if not isinstance(site.node, cst.Call) or module.qualified(site.node.func) != site.qualified:  # a subclass
        return
    given, collator = site.argument("train_dataset"), site.argument("data_collator")
    if given is None or is_given(site.argument("compute_loss_func")):
        return
    if collator is not None and is_given(collator) and not _makes_none(module, collator.node):
        return
    if not _is_tokens_alone(module, given.node) or _names_labels(module):
        return
    message = (
        "The rows have no labels, and no collator makes any: the GPU run ends at its first step (the model did not "
        "return a loss), and the port as it makes its batches."
    )
    fix = "Give the Trainer data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False), or the rows labels."
    porting.find(site.rule, "error", message, fix, site.line, site.column)


def _makes_none(module: Module, node: cst.CSTNode | None) -> bool:
    node = _held(module, node) if isinstance(node, cst.Name) else node
    name = module.qualified(node.func if isinstance(node, cst.Call) else node) if isinstance(node, _NAMES) else None
    return name is not None and name.startswith("transformers.") and name.rsplit(".", 1)[-1] in MAKE_NONE


_NAMES = (cst.Call, cst.Name, cst.Attribute)


def _is_tokens_alone(module: Module, node: cst.CSTNode | None) -> bool:
    """Whether a dataset is what a function of the script mapped, which gives back the tokenizer's output."""
    for _ in range(MOST):
        if isinstance(node, cst.Name):
            node = _held(module, node)
        elif isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value == "map":
                return _maps_to_tokens(module, node)
            node = node.func.value if node.func.attr.value in KEEPS else None
        elif isinstance(node, cst.Call) and (function := module.callees.get(node)) is not None:
            values = returned(module, function)
            node = values[0] if len(values) == 1 else None
        else:
            return False
    return False


def _held(module: Module, name: cst.Name) -> cst.CSTNode | None:
    """What a name surely holds where it is read: the value of its one assignment, a function of the script."""
    found = reaching(module, name)
    if len(found) != 1 or found[0].conditional or found[0].kind not in ("assign", "definition"):
        return None
    return found[0].node if found[0].kind == "definition" else found[0].value


def _maps_to_tokens(module: Module, call: cst.Call) -> bool:
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "function"]
    function: cst.CSTNode | None = named[0] if named else call.args[0].value if call.args else None
    function = _held(module, function) if isinstance(function, cst.Name) else function
    if isinstance(function, cst.Lambda):
        return _is_tokens(module, [function.body])
    return isinstance(function, cst.FunctionDef) and _is_tokens(module, returned(module, function))


def _is_tokens(module: Module, values: Iterable[cst.BaseExpression]) -> bool:
    """Whether all of what a function returns are calls of a tokenizer, which is given no target to make labels of."""
    made = [_held(module, value) if isinstance(value, cst.Name) else value for value in values]
    return bool(made) and all(
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Name | cst.Attribute)
        and is_tokenizer(module, value.func)
        and not any(arg.star or (arg.keyword is not None and arg.keyword.value == "text_target") for arg in value.args)
        for value in made
    )


def _names_labels(module: Module) -> bool:
    """Whether the script says "label" anywhere but in a comment: a key, a keyword, a name of its own."""
    return any(
        isinstance(node, cst.Name | cst.SimpleString | cst.FormattedStringText) and "label" in node.value.lower()
        for node in module.parents
    )
