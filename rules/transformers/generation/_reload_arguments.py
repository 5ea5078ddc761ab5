"""What a call says that loads a model again: which model, and how `rt.load_model` loads the same.

base = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=config, torch_dtype=torch.float16)
"""

from __future__ import annotations

import posixpath

import libcst as cst

from porter.packs.api import Porting, is_before
from porter.packs.script import (
    Module,
    Unknown,
    UnknownFamily,
    argument_of,
    calls_of,
    evaluate,
    find_family,
    origins,
    reaching,
)
from porter.packs.training import is_behind, tables_by_class

from .._default_types import KEEPS_TYPE

WHOLE = "transformers.AutoModelForCausalLM.from_pretrained"
SAVES = frozenset({"save_model", "save_pretrained", "push_to_hub"})
CONFIG = "transformers.BitsAndBytesConfig"
ADAPTER_CONFIG = ("peft.PeftConfig.from_pretrained", "peft.LoraConfig.from_pretrained")
BASE = "base_model_name_or_path"
# The keywords that ask bitsandbytes to quantise, and its formats.
QUANTISES = {"quantization_config": "", "load_in_4bit": '"fp4"', "load_in_8bit": '"int8"'}


def is_tunixs(porting: Porting, path: cst.BaseExpression) -> bool:
    """Whether what stands there is surely Tunix's: the trained model's name, what the script saves, a known family.

    `config.base_model_name_or_path` is it where the adapter is, whose PeftConfig that is.
    """
    module = porting.module
    if given := given_by_calls(module, path):
        return all(is_tunixs(porting, each) for each in given)
    if (adapter := _adapter_of(module, path)) is not None:
        return is_tunixs(porting, adapter)
    output = porting.value("run.output_dir")
    if is_base(porting, path) or (output is not None and module.code(path) in (output.text, output.code)):
        return True
    name = _known(module, path)
    if name is not None and name == plain_folder(porting.known("run.output_dir")):
        return True
    saved = _saved(module)
    if any(value.deep_equals(path) or (name is not None and _known(module, value) == name) for value in saved):
        return True
    held = [binding.value for binding in reaching(module, path)] if isinstance(path, cst.Name) else []
    if held and all(each is not None and any(value.deep_equals(each) for value in saved) for each in held):
        return True
    try:
        return name is not None and find_family(hub_id=str(name)) is not None
    except UnknownFamily:
        return False


def is_base(porting: Porting, path: cst.BaseExpression) -> bool:
    """Whether what stands there is the name of the model that is trained."""
    code, identifier = porting.module.code(path), porting.value("model.id")
    if identifier is None:
        return False
    if given := given_by_calls(porting.module, path):
        return all(is_base(porting, each) for each in given)
    named = _known(porting.module, path) if identifier.known and isinstance(identifier.literal, str) else None
    is_named = code in (identifier.text, identifier.code) and not _is_bound_again(porting, path)
    return is_named or (named is not None and named == plain_folder(identifier.literal))


def given_by_calls(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What all calls of its function, and of those that hand theirs on, give a parameter; nothing of another name, or
    where something else than a call uses a function."""
    found, pending, seen = list[cst.BaseExpression](), [node], set[cst.CSTNode]()
    while pending:
        value = pending.pop()
        bound = reaching(module, value) if isinstance(value, cst.Name) else []
        if len(bound) != 1 or not isinstance(bound[0].node, cst.Param):
            found.append(value)
            continue
        parameter = bound[0].node
        function = next((each for each in module.ancestors(parameter) if isinstance(each, cst.FunctionDef)), None)
        calls = calls_of(module, function) if function is not None and parameter not in seen else []
        seen.add(parameter)
        if function is None or len(module.loads(function.name.value)) != len(calls):
            return []
        given = [argument_of(module, call, parameter.name.value) for call in calls]
        if not given or any(each is None for each in given):
            return []
        pending += [each for each in given if each is not None]
    return found if found != [node] else []


def _is_bound_again(porting: Porting, path: cst.BaseExpression) -> bool:
    """Whether a name gets another value behind the training: `model_name = "me/other"`."""
    made = reaching(porting.module, path) if isinstance(path, cst.Name) else []
    return any(is_behind(porting, binding.node) for binding in made if not isinstance(binding.node, cst.Param))


def may_be_tunixs(porting: Porting, path: cst.BaseExpression) -> bool:
    """Whether what stands there may be of the trained model's family: a folder, a name that is decided when the script
    runs, or a repository of somebody to whom the script uploads."""
    module = porting.module
    if (adapter := _adapter_of(module, path)) is not None:
        return may_be_tunixs(porting, adapter)
    name = _known(module, path)
    if not isinstance(name, str):
        return name is None
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        return name.startswith((".", "/", "~")) or name.count("/") > 1
    owner = name.partition("/")[0]
    uploads = [str(_known(module, value)) for value in _saved(module)]
    return any(other.partition("/")[0] == owner for other in uploads if "/" in other)


def _saved(module: Module) -> list[cst.BaseExpression]:
    """What the script's calls that save or upload are given."""
    saves = (call for call in module.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value in SAVES)
    return [argument.value for call in saves for argument in call.args]


def _adapter_of(module: Module, path: cst.BaseExpression) -> cst.BaseExpression | None:
    """The adapter whose base `config.base_model_name_or_path` names."""
    if not isinstance(path, cst.Attribute) or path.attr.value != BASE:
        return None
    found = [binding.value for binding in reaching(module, path.value)] if isinstance(path.value, cst.Name) else []
    calls = [call for call in found or [path.value] if isinstance(call, cst.Call)]
    named = [call for call in calls if module.qualified(call.func) in ADAPTER_CONFIG and call.args]
    return named[0].args[0].value if len(named) == 1 == len(found or [path.value]) else None


def _known(module: Module, node: cst.BaseExpression) -> object:
    """What an expression surely is, a folder without what is for nothing in it; None for one that the run decides."""
    found = [binding.value for binding in reaching(module, node)] if isinstance(node, cst.Name) else []
    try:
        return plain_folder(evaluate(module, found[0] if len(found) == 1 and found[0] is not None else node))
    except Unknown:
        return None


def plain_folder(value: object) -> object:
    """`./out/` and `out` are the same folder."""
    return posixpath.normpath(value) if isinstance(value, str) and value else value


def reload_arguments(porting: Porting, call: cst.Call) -> list[str] | None:
    """What of a loading call `rt.load_model` takes; None where a keyword has no counterpart there."""
    module = porting.module
    rows = tables_by_class(porting.packs)[WHOLE].table
    first, kept, named, quantised = "", list[str](), "None", False
    for place, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else ""
        code = module.code(argument.value)
        if argument.star or (not name and place):
            return None
        row = rows.row(name) if name else None
        if not name or name == "pretrained_model_name_or_path":
            first = code
        elif name in ("dtype", "torch_dtype"):
            named = code.strip("\"'")
            kept += [] if named in ("auto", "None") else [f"dtype={code}"]
        elif name == "revision":
            kept.append(f"revision={code}")
        elif name in QUANTISES:
            if (format_of := quantization_of(porting, name, argument.value)) is None:
                return None
            kept += [f"quantization={format_of}"] if format_of else []
            quantised = quantised or bool(format_of)
        elif name != "return_dict" and (row is None or row.fate not in ("dropped", "changed")):
            if not is_off(porting, argument.value):
                return None
    if named == "None" and not quantised:
        kept += float32_before(porting, KEEPS_TYPE)
    return [first, *kept] if first else None


def float32_before(porting: Porting, release: str) -> list[str]:
    """`dtype=jnp.float32` of a load without a type, where transformers before `release` loads it in that."""
    if not is_before(porting, "transformers", release):
        return []
    porting.imports.add("import jax.numpy as jnp")
    return ["dtype=jnp.float32"]


def quantization_of(porting: Porting, keyword: str, value: cst.BaseExpression) -> str | None:
    """What `rt.load_model(quantization=)` takes for a keyword: "" for nothing, None for what it hasn't."""
    if given := given_by_calls(porting.module, value):
        formats = [quantization_of(porting, keyword, each) for each in given]
        if len(set(formats)) == 1 and (keyword != "quantization_config" or not any(formats)):
            return formats[0]
        is_object = keyword == "quantization_config" and None not in formats
        return porting.module.code(value) if is_object else None
    if is_off(porting, value):
        return ""
    if keyword != "quantization_config":
        return QUANTISES[keyword] if porting.module.code(value) == "True" else None
    found = [binding.value for binding in reaching(porting.module, value)] if isinstance(value, cst.Name) else []
    made = [[*origins(porting.module, one)][-1:] for one in found or [value]]
    is_known = all(
        any(isinstance(call, cst.Call) and porting.module.qualified(call.func) == CONFIG for call in calls)
        for calls in made
    )
    return porting.module.code(value) if is_known else None


def is_off(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a keyword is surely None or False."""
    try:
        return evaluate(porting.module, node) in (None, False)
    except Unknown:
        return False
