"""Rows that the script pads on the left: their first token is predicted from padding, which has nothing to see.

tokenizer.padding_side = "left"
tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
"""

from __future__ import annotations

import libcst as cst

from ....source.module import Module
from ...script.porting import Porting

UNTRAINED = (
    "The rows are padded on the left: on the GPU the last padding predicts each row's first token, from what the "
    "attention's kernel lets it see. The port's rows have no padding in front, and train all tokens but that one."
)
FIX = 'One token a row; padding_side="right" on the GPU trains what the port does.'


def pads_left(module: Module) -> cst.CSTNode | None:
    """The last place where a tokenizer is told to pad on the left, unless a later one says right."""
    if "padding_side" not in module.text:
        return None
    said = [(module.location(node), node, value) for node in module.parents if (value := _side(node)) is not None]
    if not said:
        return None
    _, node, value = max(said, key=lambda each: each[0])
    return node if isinstance(value, cst.SimpleString) and value.evaluated_value == "left" else None


def _side(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What a statement or a keyword sets `padding_side` to."""
    if isinstance(node, cst.Arg):
        return node.value if node.keyword is not None and node.keyword.value == "padding_side" else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0].target
    return node.value if isinstance(target, cst.Attribute) and target.attr.value == "padding_side" else None


def say_untrained(porting: Porting) -> None:
    """A finding where the source's collator trains what the port's rows leave out."""
    node = pads_left(porting.module)
    if node is not None and porting.trainer is not None:
        porting.find(porting.trainer.rule, "warning", UNTRAINED, FIX, *porting.module.location(node))


def attention_of_padding(porting: Porting) -> str:
    """The source's attn_implementation where it decides what its left padding sees; empty where none is given."""
    if porting.model is None or pads_left(porting.module) is None:
        return ""
    given = porting.model.argument("attn_implementation")
    if given is not None and isinstance(given.value.literal, str) and given.value.literal != "sdpa":
        return given.value.literal
    older = porting.model.argument("use_flash_attention_2")
    return "flash_attention_2" if older is not None and older.value.is_literal(True) else ""
