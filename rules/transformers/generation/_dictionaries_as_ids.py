"""A chat template's answer that a script takes for token ids, in a release in which it is a dictionary.

ids = tokenizer.apply_chat_template(messages, return_tensors="pt")
model.generate(ids)    ids.shape: AttributeError from transformers 5 on

The port asks for the token ids, and goes on where the GPU run of that release ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import held_by, plain_version, shortened, version_key

RULE = "TP311"
ENDS = "calls that end the GPU run"  # of `Porting.answers`
GIVES_DICTIONARY = "5"  # the first transformers in which return_dict is True unless it is said
TELLS_APART = frozenset({"isinstance", "hasattr", "type"})


def say_dictionaries(porting: Porting, generates: cst.Call, templates: Sequence[cst.Call]) -> None:
    """A warning at each template whose answer `generates` takes as it is."""
    module, said = porting.module, porting.versions.get("transformers", "")
    release = plain_version(said)
    if not release or said.endswith("(newest table)") or version_key(release) < version_key(GIVES_DICTIONARY):
        return
    for template in templates:
        if _is_told_apart(porting, template):
            continue
        porting.answers.setdefault(ENDS, set()).add(generates)
        message = (
            f"{shortened(module.code(template.func))}(...) without return_dict= gives a dictionary in transformers "
            f"{release}, no tensor: the GPU run raises an AttributeError at .shape or in "
            f"{shortened(module.code(generates.func))}(...). The port asks for the token ids, and goes on."
        )
        fix = "Say return_dict=False, or pin the transformers before 5 that the script was run with."
        porting.find(RULE, "warning", message, fix, *module.location(template))


def _is_told_apart(porting: Porting, template: cst.Call) -> bool:
    """Whether the script looks at what it has got, or takes the token ids out of it somewhere."""
    module, given = porting.module, template
    while isinstance(method := module.parents[given], cst.Attribute) and isinstance(
        moved := module.parents[method], cst.Call
    ):  # .to(device)
        given = moved
    for place in held_by(module, given):
        for use in module.references(place.variable, place.scope):
            parent = module.parents.get(use)
            if isinstance(parent, cst.Subscript) and parent.value is use and "input_ids" in module.code(parent):
                return True
            if isinstance(parent, cst.Attribute) and parent.value is use and parent.attr.value in ("input_ids", "get"):
                return True
            call = module.parents.get(parent) if isinstance(parent, cst.Arg) else None
            if isinstance(call, cst.Call) and module.code(call.func) in TELLS_APART:
                return True
    return False
