"""Unsloth's `get_chat_template(tokenizer, chat_template="gemma-3")`: the runtime's, where it has the template.

Another template, or other names for roles (`mapping=`), stays what the pack says of the function: a finding.
"""

from __future__ import annotations

from ....runtime.rows.unsloth_templates import TEMPLATES
from ...script.porting import Porting
from ...script.sites import read_site
from ...steps.step import Phase, step

RULE = "TP712"
NAME = "unsloth.get_chat_template"
POSITIONAL = ("tokenizer", "chat_template")
KNOWN = frozenset({"tokenizer", "chat_template", "map_eos_token"})
REASON = "the same template, from the runtime"


@step(Phase.ANSWER, fills=("claimed names",))
def answer_chat_templates(porting: Porting) -> None:
    """Every call whose template the runtime has becomes the runtime's function of the same name."""
    module = porting.module
    if "get_chat_template" not in module.text or not porting.options.active(RULE):
        return
    for call in module.calls:
        if module.qualified(call.func) != NAME or porting.covered(module.span(call)[0]):
            continue
        site = read_site(module, call, "template", RULE, NAME, POSITIONAL)
        template = site.argument("chat_template")
        if template is None or not template.value.is_literal(*TEMPLATES) or site.unknown_keywords:
            continue
        if all(argument.name in KNOWN for argument in site.arguments):
            porting.edit(*module.span(call.func), porting.rt("get_chat_template"), RULE, REASON)
