"""`add_eos_token=True` of a tokenizer: under transformers 5, which a port has, it takes the start token away.

tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1", add_eos_token=True)
tokenizer.add_eos_token = True
"""

from __future__ import annotations

import re

import libcst as cst

from ....runtime.facts.field_tables import version_key
from ....source.module import Module
from ...script.fill_from_tables import plain_version
from ...script.flow import origins
from ...script.porting import Porting

RULE = "TP005"
NAMES = ("add_bos_token", "add_eos_token")
REASON = "start and end tokens as transformers 4 put them"


def keep_end_tokens(porting: Porting) -> None:
    """Both spellings of a script for transformers before 5 become `rt.bos_eos(tokenizer, add_eos_token=...)`."""
    module = porting.module
    if not any(name in module.text for name in NAMES) or not porting.options.active(RULE):
        return
    version = plain_version(porting.versions.get("transformers", ""))
    if not version or version_key(version) >= (5,):
        return
    for call in module.calls:
        if _loads(module.qualified(call.func) or "") and not porting.covered(module.span(call)[0]):
            _load(porting, call)
    for node in module.parents:
        if isinstance(node, cst.Assign) and not porting.covered(module.span(node)[0]):
            _assign(porting, node)


def _load(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    said = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in NAMES]
    if not said or said == list(call.args):
        return
    words = []
    for arg in said:
        assert arg.keyword is not None
        words.append(f", {arg.keyword.value}={module.code(arg.value)}")
        at = list(call.args).index(arg)
        if at + 1 < len(call.args):
            start, end = module.span(arg)[0], module.span(call.args[at + 1])[0]
        else:
            before = next(other for other in reversed(call.args[:at]) if other not in said)
            start, end = module.span(before)[1], module.span(arg)[1]
        porting.edit(start, end, "", RULE, REASON)
    start, end = module.span(call)
    porting.edit(start, start, f"{porting.rt('bos_eos')}(", RULE, REASON)
    porting.edit(end, end, f"{''.join(words)})", RULE, REASON)


def _assign(porting: Porting, node: cst.Assign) -> None:
    module = porting.module
    target = node.targets[0].target
    if len(node.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value not in NAMES:
        return
    if not _is_tokenizer(module, target.value):
        return  # `self.add_eos_token = add_eos_token` of a dataset's class
    called = f"{porting.rt('bos_eos')}({module.code(target.value)}, {target.attr.value}={module.code(node.value)})"
    porting.edit(*module.span(node), called, RULE, REASON)


def _is_tokenizer(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an object is loaded as a tokenizer, or is called one where that can't be seen."""
    made = [module.qualified(each.func) or "" for each in origins(module, node) if isinstance(each, cst.Call)]
    named = re.search(r"tok(?:enizer|enizers)?$", module.code(node), re.IGNORECASE) is not None
    return any(_loads(name) for name in made) or named


def _loads(name: str) -> bool:
    return name.startswith("transformers.") and name.endswith("Tokenizer.from_pretrained")
