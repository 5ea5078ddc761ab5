"""`tokenizer.apply_chat_template(messages)`: token ids before transformers 5, a dictionary from then on.

    ids = tokenizer.apply_chat_template(messages, max_length=512)
    labels = [-100] * start + ids[start:]

A port runs under transformers 5, where it asks for what the script had. A script that is read as of 5 counts the
dictionary's keys with `len(...)`: whoever keeps rows of up to 1024 tokens so keeps them all, in silence.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import IDS_ASKED, Unknown, calls_counted, evaluate, inside, plain_version, shortened

PART_OF = "TP005"
NAME = "apply_chat_template"
REASON = "token ids, as transformers 4 gives them; 5 gives a dictionary"
OTHERS = ("processor", "image_processor")  # whose method is another


@step(Phase.NAME, reads=("columns", "tensors"))
def ask_for_ids(porting: Porting) -> None:
    """Every call that gave token ids says `return_dict=False`."""
    module = porting.module
    if NAME not in module.text:
        return
    if not is_before(porting, "transformers", "5"):
        return _say_counted(porting)
    for call in module.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == NAME and _gives_ids(porting, call):
            porting.add_keyword(call, "return_dict=False", PART_OF, REASON)


def _say_counted(porting: Porting) -> None:
    """A warning at each call whose ids are counted."""
    for call in calls_counted(porting):
        if call in porting.answers.get(IDS_ASKED, ()):
            continue
        release = plain_version(porting.versions.get("transformers", ""))
        message = (
            f"{shortened(porting.module.code(call.func))}(...) gives a dictionary in transformers {release}, whose "
            "len(...) is 2, not the number of its tokens. The port does as that release."
        )
        fix = "Say return_dict=False to count tokens, or pin the transformers before 5 that the script was run with."
        porting.find(PART_OF, "warning", message, fix, *porting.module.location(call))


def _gives_ids(porting: Porting, call: cst.Call) -> bool:
    """Whether transformers 4 gave token ids, which the port doesn't ask for yet."""
    module = porting.module
    said = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    if "return_dict" in said or any(argument.star for argument in call.args) or not call.args:
        return False
    if "tokenize" in said and _is_false(porting, said["tokenize"]):
        return False
    receiver = [node.value for node in inside(call.func) if isinstance(node, cst.Name)]
    if any(name in OTHERS for name in receiver) or porting.covered(module.span(call)[0]):
        return False
    return call not in porting.answers.get(IDS_ASKED, ())


def _is_false(porting: Porting, value: cst.BaseExpression) -> bool:
    try:
        return evaluate(porting.module, value) is False
    except Unknown:
        return False
