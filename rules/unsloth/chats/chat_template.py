"""get_chat_template(tokenizer, chat_template="gemma-3") → `rt.get_chat_template(...)`.

What it does: a call whose template the runtime has becomes the runtime's function of the same name.
Why: Unsloth's function needs torch and a GPU to import, and puts one of Unsloth's own templates into the tokenizer.
Example: `tokenizer = get_chat_template(tokenizer, chat_template="gemma-3")`
Use instead: `tokenizer = rt.get_chat_template(tokenizer, chat_template="gemma-3")`
Safety: exact: the runtime's template makes the same text of any conversation, tools and parts of messages included. Its
own text is another, which is what a saved tokenizer holds. Another template, or other names for roles (`mapping=`) than
with Llama 3's, is left to TP712, a finding.
"""

from porter.packs.runtime import UNSLOTH_MAPPED, UNSLOTH_TEMPLATES

ID = "TP721"
MATCHES = ("unsloth.get_chat_template()",)
POSITIONAL = ("tokenizer", "chat_template", "mapping", "map_eos_token")
INSTEAD_OF = ("TP712",)
USUAL_NAMES = {"role": "role", "content": "content", "user": "user", "assistant": "assistant"}
KNOWN = frozenset({"tokenizer", "chat_template", "mapping", "map_eos_token"})


def apply(site, porting):
    template = site.argument("chat_template")
    if template is None or not template.value.is_literal(*UNSLOTH_TEMPLATES) or site.unknown_keywords:
        return porting.NOT_MINE
    if not all(argument.name in KNOWN for argument in site.arguments):
        return porting.NOT_MINE
    mapping = site.argument("mapping")
    if mapping is not None and not mapping.value.is_literal(USUAL_NAMES):
        if not template.value.is_literal(*UNSLOTH_MAPPED):
            return porting.NOT_MINE
    start, end = porting.module.span(site.node.func)
    porting.edit(start, end, porting.rt("get_chat_template"), ID, "the runtime's template, which renders the same")
