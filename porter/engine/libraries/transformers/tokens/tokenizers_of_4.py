"""Tokenizers of a script for transformers before 5, which under 5, as a port has it, give other ids.

tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1", add_eos_token=True)
tokenizer.add_eos_token = True
"""

from __future__ import annotations

import re
from pathlib import Path

import libcst as cst

from .....runtime.facts.field_tables import version_key
from .....source.module import Module
from .....source.project.model_names import usual_values
from ....script.fill_from_tables import plain_version
from ....script.flow import origins
from ....script.porting import Porting
from ....steps.step import Phase, step

RULE = "TP005"
NAMES = ("add_bos_token", "add_eos_token")
MOVED = (*NAMES, "use_fast")  # transformers 5 doesn't listen to the last one
LOADS = re.compile(r"transformers\.(?:\w+\.)*(\w*Tokenizer(?:Fast)?)\.from_pretrained")
SLOW = ("LlamaTokenizer", "CodeLlamaTokenizer")  # by these names transformers 4 had the slow ones
REASON = "ids of the same text as transformers 4 gives them"
END_REASON = "start and end tokens as transformers 4 put them"
# Published tokenizers that both releases load alike.
ALIKE = re.compile(r"(?:^|[/_-])(?:qwen|gemma|(?:meta-)?llama-?3(?!\d*b)|smollm|phi|gpt2|pythia)", re.IGNORECASE)
OTHERS = re.compile(r"deepseek|distill|mi[sx]tral|llama-?2", re.IGNORECASE)


@step(Phase.ANSWER, fills=("claimed names",))
def keep_tokenizers(porting: Porting) -> None:
    """Loads become `rt.as_transformers_4(...from_pretrained(...))`, assigned end tokens `rt.bos_eos(...)`."""
    module = porting.module
    if not is_before_5(porting):
        return
    for call in module.calls:
        found = LOADS.fullmatch(module.qualified(call.func) or "")
        if found is not None and not porting.covered(module.span(call)[0]):
            _load(porting, call, found[1])
    if not any(name in module.text for name in NAMES):
        return
    for node in module.parents:
        if isinstance(node, cst.Assign) and not porting.covered(module.span(node)[0]):
            _assign(porting, node)


def tokenizer_load(porting: Porting, model: str) -> str:
    """The expression that loads the tokenizer of `model`, an expression too, where the port adds a line that does."""
    porting.imports.add("from transformers import AutoTokenizer")
    load = f"AutoTokenizer.from_pretrained({model})"
    return load if not is_before_5(porting) or _alike(porting, model) else f"{porting.rt('as_transformers_4')}({load})"


def is_before_5(porting: Porting) -> bool:
    """Whether the source's transformers is older than the port's."""
    version = plain_version(porting.versions.get("transformers", ""))
    return bool(version) and version_key(version) < (5,) and porting.options.active(RULE)


def _alike(porting: Porting, model: str) -> bool:
    """Whether all models that the expression can be told to name have tokenizers that both releases load alike."""
    held = [name for name, _ in usual_values(model, porting.module.text, Path(porting.module.path))]
    return bool(held) and all(ALIKE.search(name) and not OTHERS.search(name) for name in held)


def _load(porting: Porting, call: cst.Call, loaded: str) -> None:
    module = porting.module
    said = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in MOVED]
    if said == list(call.args):
        return
    names = [arg.keyword.value for arg in said if arg.keyword is not None]
    model = next((arg for arg in call.args if arg.keyword is None and not arg.star), None)
    slow = loaded in SLOW and "use_fast" not in names
    if not set(names) & set(NAMES) and not slow and model is not None and _alike(porting, module.code(model.value)):
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
    if slow:
        words.append(", use_fast=False")
    words += [
        f", legacy={module.code(arg.value)}"
        for arg in call.args
        if arg.keyword is not None and arg.keyword.value == "legacy"
    ]
    start, end = module.span(call)
    porting.edit(start, start, f"{porting.rt('as_transformers_4')}(", RULE, REASON)
    porting.edit(end, end, f"{''.join(words)})", RULE, REASON)


def _assign(porting: Porting, node: cst.Assign) -> None:
    module = porting.module
    target = node.targets[0].target
    if len(node.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value not in NAMES:
        return
    if not is_tokenizer(module, target.value):
        return  # `self.add_eos_token = add_eos_token` of a dataset's class
    called = f"{porting.rt('bos_eos')}({module.code(target.value)}, {target.attr.value}={module.code(node.value)})"
    porting.edit(*module.span(node), called, RULE, END_REASON)


def is_tokenizer(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an object is loaded as a tokenizer, or is called one where that can't be seen."""
    made = [module.qualified(each.func) or "" for each in origins(module, node) if isinstance(each, cst.Call)]
    named = re.search(r"tok(?:enizer|enizers)?$", module.code(node), re.IGNORECASE) is not None
    return any(LOADS.fullmatch(name) for name in made) or named
