"""`tokenizer.special_tokens_map` of transformers 4, which had `additional_special_tokens`, too.

    prefix, middle = tokenizer.special_tokens_map["additional_special_tokens"][1:3]

transformers 5 has named tokens alone in it: the key is a KeyError there, which the script may even expect, and a loop
over the dictionary passes these tokens over. Nothing changes where one named token is read, or the whole is printed.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import Module, is_tokenizer, release_of, text_index

PART_OF = "TP366"
MAP, KEY = "special_tokens_map", "additional_special_tokens"
REASON = f"transformers 5 leaves {KEY} out of it"
PRINTS = frozenset("print pprint debug info warning error log".split())


@step(Phase.NAME, reads=("columns",), fills=("maps of tokens",), anywhere=True)
def read_maps(porting: Porting) -> None:
    """The port reads what the map of a tokenizer of transformers 4 holds."""
    module = porting.module
    if MAP not in module.text or not _is_of_4(porting):
        return
    for node in module.attributes_named(MAP):
        if porting.covered(module.span(node)[0]) or module.is_set(node) or not is_tokenizer(module, node.value):
            continue
        if _reads_a_named_one(module, node) or _is_shown(module, node):
            continue
        (start, end), stop = module.span(node.value), module.span(node)[1]
        porting.edit(start, start, f"{porting.rt(MAP)}(", PART_OF, REASON)
        porting.edit(end, stop, ")", PART_OF, REASON)


def _is_of_4(porting: Porting) -> bool:
    """Whether the script is one for transformers 4; where no release is told, it is if it has the key."""
    if release_of(porting, "transformers") is None and KEY in porting.module.text:
        return True
    return is_before(porting, "transformers", "5")


def _reads_a_named_one(module: Module, node: cst.Attribute) -> bool:
    """`["eos_token"]`, `.get("eos_token")`, `"eos_token" in`: of a token that isn't among the additional ones."""
    parent = module.parents[node]
    match parent:
        case cst.Subscript():
            key = text_index(parent)
        case cst.Attribute(attr=cst.Name("get")):
            call = module.parents[parent]
            key = _text(call.args[0].value) if isinstance(call, cst.Call) and call.args else None
        case cst.ComparisonTarget(operator=cst.In() | cst.NotIn()):
            comparison = module.parents[parent]
            key = _text(comparison.left) if isinstance(comparison, cst.Comparison) else None
        case _:
            return False
    return key is not None and key != KEY


def _text(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _is_shown(module: Module, node: cst.Attribute) -> bool:
    """Whether the whole is only written out."""
    parent = module.parents[node]
    call = module.parents[parent] if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call):
        return module.code(call.func).rpartition(".")[2] in PRINTS
    return isinstance(parent, cst.FormattedStringExpression)
