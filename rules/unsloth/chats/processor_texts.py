"""`tokenizer.apply_chat_template(messages)` of a processor: a text.

What Unsloth loads beside a multimodal model is its processor, whatever the script calls it, and a processor's method
gives a text unless it is asked for tokens; a tokenizer's gives tokens. The port has the tokenizer of the text part.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.runtime import NAMED_MULTIMODAL
from porter.packs.script import (
    IDS_ASKED,
    Binding,
    Module,
    Unknown,
    argument_of,
    calls_of,
    evaluate,
    flatten,
    function_around,
    reaching,
)

PART_OF = "unsloth"
NAME = "apply_chat_template"
LOADS = ("unsloth.FastLanguageModel.from_pretrained", "unsloth.FastModel.from_pretrained")
TEMPLATES = "unsloth.get_chat_template"
DEEPEST = 8
ASKED = frozenset({"tokenize", "return_dict"})
REASON = "a text, as the processor gives it that Unsloth loads with this model"


@step(Phase.ANSWER)
def ask_for_texts(porting: Porting) -> None:
    """Every call of such a processor that doesn't say what it gives says `tokenize=False`."""
    module = porting.module
    if NAME not in module.text or "unsloth" not in module.text:
        return
    for call in module.calls:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != NAME or not call.args:
            continue
        said = {argument.keyword.value for argument in call.args if argument.keyword is not None}
        if said & ASKED or any(argument.star for argument in call.args):
            continue
        if _is_processor(porting, call.func.value) and not porting.covered(module.span(call)[0]):
            porting.add_keyword(call, "tokenize=False", PART_OF, REASON)
            porting.answers.setdefault(IDS_ASKED, set()).add(call)


def _is_processor(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a name can hold nothing but what Unsloth loads with a multimodal model, with another template or not."""
    if not isinstance(node, cst.Name) or depth > DEEPEST:
        return False
    held = reaching(porting.module, node)
    return bool(held) and all(_holds_processor(porting, each, node, depth) for each in held)


def _holds_processor(porting: Porting, held: Binding, name: cst.Name, depth: int) -> bool:
    module = porting.module
    if isinstance(held.value, cst.Call):
        made = flatten(module.qualified(held.value.func) or "", module.flat)
        if made == TEMPLATES and held.kind == "assign":
            return bool(held.value.args) and _is_processor(porting, held.value.args[0].value, depth + 1)
        return made in LOADS and held.index == 1 and NAMED_MULTIMODAL.search(_model_of(module, held.value)) is not None
    if held.kind == "assign" and held.value is not None:
        return _is_processor(porting, held.value, depth + 1)
    function = function_around(module, held.node) if held.kind == "parameter" else None
    given = [argument_of(module, call, name.value) for call in calls_of(module, function)] if function else []
    return bool(given) and all(each is not None and _is_processor(porting, each, depth + 1) for each in given)


def _model_of(module: Module, call: cst.Call) -> str:
    """The model that Unsloth's call names, as far as it is known."""
    named = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "model_name"]
    named += [a.value for a in call.args[:1] if a.keyword is None and not a.star]
    try:
        return str(evaluate(module, named[0])) if named else ""
    except Unknown:
        return ""
