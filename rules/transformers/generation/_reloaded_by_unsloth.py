"""A model that Unsloth loads again behind the training, with its tokenizer.

model.save_pretrained("lora_model")
model, tokenizer = FastLanguageModel.from_pretrained("lora_model", max_seq_length=2048, load_in_4bit=True)
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Module, Unknown, evaluate, is_tokenizer, tokenizer_load
from porter.packs.writing import quoted

from ._reload_arguments import plain_folder

LOADS = ("unsloth.FastLanguageModel.from_pretrained", "unsloth.FastModel.from_pretrained")
NAME = "model_name"
PARAMETERS = (NAME, "max_seq_length", "dtype", "load_in_4bit")
# What changes nothing about a model that only generates here: its longest row, where it lies, how it is read.
IDLE = frozenset({"max_seq_length", "device_map", "token", "trust_remote_code", "use_gradient_checkpointing"})
BITS = {"load_in_4bit": "nf4", "load_in_8bit": "int8"}
ALONE = ("save_pretrained", "push_to_hub")  # methods of models and tokenizers alike, which save or upload the one alone
WITH_TOKENIZER = ("save_pretrained_merged", "push_to_hub_merged", "save_model")


def arguments_of_unsloth(porting: Porting, call: cst.Call) -> list[str] | None:
    """What of Unsloth's call `rt.load_trained` takes, the model's name first; None where a keyword has no counterpart.

    4 bits unless it says no, and bfloat16 where it names no type, as Unsloth loads on today's GPUs.
    """
    module, given = porting.module, dict[str, cst.BaseExpression]()
    for place, argument in enumerate(call.args):
        if argument.star or (argument.keyword is None and place >= len(PARAMETERS)):
            return None
        given[argument.keyword.value if argument.keyword is not None else PARAMETERS[place]] = argument.value
    if NAME not in given or set(given) - {NAME, "dtype", *BITS} - IDLE:
        return None
    asked = {}
    for keyword, default in (("load_in_4bit", True), ("load_in_8bit", False)):
        asked[keyword] = _known(module, given[keyword]) if keyword in given else default
        if not isinstance(asked[keyword], bool):
            return None
    name = "load_in_8bit" if asked["load_in_8bit"] else "load_in_4bit"
    dtype = module.code(given["dtype"]) if "dtype" in given else "None"
    if dtype == "None" or ("dtype" in given and _known(module, given["dtype"]) is None):
        porting.imports.add("import jax.numpy as jnp")
        dtype = "jnp.bfloat16"
    quantised = [f'quantization="{BITS[name]}"'] if asked[name] else []
    return [module.code(given[NAME]), f"dtype={dtype}", *quantised]


def path_of_unsloth(call: cst.Call) -> cst.BaseExpression | None:
    """The model's name in Unsloth's call."""
    named = [a.value for a in call.args if a.keyword is not None and a.keyword.value == NAME]
    return named[0] if named else call.args[0].value if call.args and call.args[0].keyword is None else None


def reloaded_tokenizer(porting: Porting, path: cst.BaseExpression) -> str:
    """The code that loads the tokenizer: the folder's or repository's, but the base model's where the script puts the
    model there alone."""
    module, identifier = porting.module, porting.value("model.id")
    saves = [call for call in module.calls if _is_given(module, call, path)]
    methods = {call: call.func.attr.value for call in saves if isinstance(call.func, cst.Attribute)}
    own = any(
        method in WITH_TOKENIZER or (method in ALONE and is_tokenizer(module, call.func.value))
        for call, method in methods.items()
        if isinstance(call.func, cst.Attribute)
    )
    base = not set(ALONE).isdisjoint(methods.values()) and not own and identifier is not None
    if not base or identifier is None:
        return tokenizer_load(porting, module.code(path))
    return tokenizer_load(porting, quoted(str(identifier.literal)) if identifier.known else identifier.code)


def _is_given(module: Module, call: cst.Call, path: cst.BaseExpression) -> bool:
    """Whether a method's first argument is the folder that stands there."""
    if not isinstance(call.func, cst.Attribute) or not call.args or call.args[0].value is path:
        return False
    first, folder = call.args[0].value, _known(module, path)
    return first.deep_equals(path) or (
        folder is not ... and plain_folder(_known(module, first)) == plain_folder(folder)
    )


def _known(module: Module, node: cst.BaseExpression) -> object:
    try:
        return evaluate(module, node)
    except Unknown:
        return ...
