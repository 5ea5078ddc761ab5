"""`model.generation_config.eos_token_id = ...`: settings that are saved with a whole model, and that sampling takes.

`model.config.pad_token_id = ...` is saved with it, too; what the script reads of `model.config` is transformers' own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from ...runtime.facts.generation_settings import BUILT
from ..packs.pack import Rewrite
from ..script.porting import Porting
from ..script.sites import shortened
from ..script.uses_of_training import Use
from ..settling.decisions import decide

RULE = "TP316"
REASON = "saved in generation_config.json, and taken by rt.generate"
LOOKS = ("print", "getattr", "hasattr", "str", "repr")
CONFIG = "transformers' config of the same model"
TOKENS = ("pad_token_id", "eos_token_id", "bos_token_id")
SAVES = re.compile(r"\.(save_model|save_pretrained|push_to_hub)\(")
SAMPLES = ("merge", ".generate(", "pipeline(")  # where an adapter's run takes the settings, too


def is_setting(use: Use) -> bool:
    """Whether a use of the model is of its settings, which `keep_setting` and `read_config` answer."""
    return use.chain.partition(".")[0] in ("config", "generation_config")


def keep_setting(porting: Porting, use: Use, variable: str) -> bool:
    """`model.generation_config` of Tunix's model, where a setting of it is read or set; whether it was that.

    A run that saves adapters alone, and samples nothing, has no use for them: those that are set are left to the rules.
    """
    parts = use.chain.split(".")
    own = parts[1:] if use.role == "trainer" and parts[0] == "model" else parts
    if use.kind not in ("assign", "read") or len(own) != 2 or (use.role == "trainer" and own is parts):
        return False
    text = porting.module.text
    if own[0] == "config":
        whole = not porting.saves_adapter or "merge" in text
        if use.kind != "assign" or own[1] not in (*TOKENS, *BUILT):
            return False
        if own[1] in BUILT:
            message = f"{shortened(porting.module.code(use.outer))} is set behind the model: transformers has made it,"
            message += " and the GPU run trains without that"
            message += (
                ", which is saved in config.json alone, there and in the port." if whole else "; so does the port."
            )
            porting.find(RULE, "warning", message, "", *porting.module.location(use.name))
        if not whole or SAVES.search(text) is None:
            return False
        function, reason = "model_config", "saved in config.json"
    elif own[0] == "generation_config":
        if use.kind == "assign" and porting.saves_adapter and not any(word in text for word in SAMPLES):
            return False
        function, reason = "generation_config", REASON
    else:
        return False
    setting = use.outer
    assert isinstance(setting, cst.Attribute)
    model = f"{variable}.model" if use.role == "trainer" else variable
    porting.edit(*porting.module.span(setting.value), f"{porting.rt(function)}({model})", RULE, reason)
    return True


def answer_guard(porting: Porting, use: Use) -> bool:
    """`hasattr(model, "generation_config")`, `getattr(model, "generation_config", None) is not None`; whether it was
    one: a model of transformers that samples always has it, and Tunix's has it elsewhere."""
    module = porting.module
    argument = module.parents[use.name]
    call = module.parents[argument]
    if use.match != "@model" or not isinstance(call, cst.Call) or len(call.args) < 2 or call.args[0] is not argument:
        return False
    asked = module.code(call.func)
    if asked not in ("hasattr", "getattr") or module.code(call.args[1].value).strip("\"'") != "generation_config":
        return False
    reason = "every model of transformers that samples has one"
    compared = module.parents[call]
    if isinstance(compared, cst.Comparison) and compared.left is call and len(compared.comparisons) == 1:
        (said,) = compared.comparisons
        if isinstance(said.operator, cst.Is | cst.IsNot) and module.code(said.comparator) == "None":
            there = isinstance(said.operator, cst.IsNot)
            decide(porting, compared, lambda part: there if part is compared else None, RULE, reason)
            return True
    tested = isinstance(compared, cst.BooleanOperation | cst.UnaryOperation)
    tested = tested or (isinstance(compared, cst.If | cst.IfExp | cst.While | cst.Assert) and compared.test is call)
    if asked == "hasattr" or tested:
        decide(porting, call, lambda part: True if part is call else None, RULE, reason)
        return True
    model = module.code(use.name)
    porting.edit(*module.span(call), f"{porting.rt('generation_config')}({model})", RULE, REASON)
    return True


def read_config(porting: Porting, use: Use, variable: str) -> bool:
    """`model.config` where the script reads it, calls a method of it or hands it on; whether it was that."""
    parts = use.chain.split(".")
    place = int(use.role == "trainer" and parts[0] == "model")
    if (
        parts[place : place + 1] != ["config"]
        or use.kind not in ("read", "call")
        or (use.role, place) == ("trainer", 0)
    ):
        return False
    if len(parts) == place + 1 and not _is_looked_at(porting, use.outer):
        return False
    node = use.outer.func if isinstance(use.outer, cst.Call) else use.outer
    for _ in parts[place + 1 :]:
        assert isinstance(node, cst.Attribute)
        node = node.value
    model = f"{variable}.model" if use.role == "trainer" else variable
    porting.edit(*porting.module.span(node), f"{porting.rt('model_config')}({model})", RULE, CONFIG)
    return True


def _is_looked_at(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether an object is printed, asked for a value, or gets a name, or a cell ends with it and shows it: what
    transformers itself is given is another."""
    module = porting.module
    parent = module.parents[node]
    call = module.parents[parent]
    if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
        return module.code(call.func) in LOOKS
    return isinstance(parent, cst.FormattedStringExpression | cst.Assign | cst.Expr)


def unused_setting(rules: Mapping[str, object], use: Use) -> Rewrite | None:
    """The rule that takes out a setting of `model.generation_config`, or one of `model.config` that goes unread."""
    head, _, name = use.chain.removeprefix("model.").partition(".")
    rule = rules.get("@model.generation_config.eos_token_id=")
    is_unused = head == "generation_config" or (head == "config" and name in BUILT)
    return rule if is_unused and use.kind == "assign" and isinstance(rule, Rewrite) else None
