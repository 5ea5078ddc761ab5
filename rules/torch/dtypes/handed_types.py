"""Types of what stays torch's, models that it loads behind the training and tensors: no type of JAX may come there.

    merge_dtype = torch.bfloat16 if args.bf16 else torch.float16
    base = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=merge_dtype)
    PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")
    mask = torch.zeros(8, dtype=merge_dtype)

A variable that these alone read keeps torch's types; one that the training reads, too, is JAX's, and is handed on by
its name, which transformers takes as well. Its float16 is bfloat16 for the TPU, but not for torch on the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, constants, returned, role_uses

from .named_types import becomes_jnp

PART_OF = "TP520"
REASON = "torch takes it, and knows no type of JAX"
NAMES = frozenset({"dtype", "torch_dtype"})
LOADS = (".from_pretrained", ".from_config")
PIPELINES = frozenset({"transformers.pipeline", "transformers.pipelines.pipeline"})
HALF = frozenset({"torch.float16", "torch.half"})
CASTS = frozenset({"to", "type"})
SAYS = frozenset("print str repr info debug warning log".split())
MAX_DEPTH = 6  # variables and functions between a type and where it is taken


@step(Phase.ANSWER, reads=("gpu answers",), fills=("claimed names",))
def keep_handed_types(porting: Porting) -> None:
    """Leave or name the types of every load and tensor that stays torch's."""
    module = porting.module
    if "torch" not in module.text:
        return
    for call in module.calls:
        is_load = _loads(porting, call)
        if is_load or _makes_tensor(porting, call):
            for argument in call.args:
                if _takes_type(argument, is_load=is_load):
                    _keep(porting, argument.value, is_load=is_load)


def _takes_type(argument: cst.Arg, *, is_load: bool) -> bool:
    """Whether an argument may be a type: of a load by its keyword, of a tensor any variable."""
    if argument.keyword is not None:
        return argument.keyword.value in NAMES
    return not is_load and isinstance(argument.value, cst.Name) and not argument.star


def _loads(porting: Porting, call: cst.Call) -> bool:
    """Whether torch loads a model there in the port."""
    name = porting.module.qualified(call.func) or ""
    is_load = (name.startswith(("transformers.", "peft.")) and name.endswith(LOADS)) or name in PIPELINES
    return is_load and not porting.covered(porting.module.span(call)[0])


def _makes_tensor(porting: Porting, call: cst.Call) -> bool:
    """Whether torch makes or casts a tensor there in the port: `torch.zeros(3, dtype=kind)`, `mask.to(kind)`."""
    name, method = porting.module.qualified(call.func) or "", call.func
    is_cast = isinstance(method, cst.Attribute) and method.attr.value in CASTS
    if not name.startswith("torch.") and (not is_cast or any(use.outer is call for use in role_uses(porting))):
        return False
    return not porting.covered(porting.module.span(call)[0])


def _keep(porting: Porting, given: cst.BaseExpression, *, is_load: bool) -> None:
    module, types = porting.module, list(types_of(porting, given))
    if isinstance(given, cst.Attribute) or not any(types):
        return  # torch.bfloat16 in the call itself stays
    if isinstance(given, cst.IfExp) and is_load and (name := _settled(porting, given)):
        porting.settle(given, f'"{name}"', PART_OF, REASON)
        return
    leaves = [leaf for leaf in types if leaf is not None]
    if len(leaves) == len(types) and _only_torch_reads(porting, given):
        porting.keep_names(*leaves)
        return
    code = module.code(given)
    if len(leaves) < len(types):
        does = "loads a model in it" if is_load else "makes a tensor of it"
        message = f"{code}: torch {does} here, and gets JAX's type of that name in the port."
        porting.find(PART_OF, "error", message, "Give torch's type, or its name.", *module.location(given))
        return
    if not is_load:
        porting.imports.add("import jax.numpy as jnp")
        porting.edit(*module.span(given), f"getattr(torch, jnp.dtype({code}).name)", PART_OF, REASON)
        return
    half = [leaf for leaf in leaves if module.qualified(leaf) in HALF]
    if len(half) == len(leaves):
        porting.edit(*module.span(given), '"float16"', PART_OF, REASON)
        return
    if any(not _decided_by_gpu(module, leaf) for leaf in half):
        message = f"{code} may be float16: torch loads a model in it here, in bfloat16 in the port, as the TPU has it."
        porting.find(PART_OF, "warning", message, 'Give torch "float16" if it is saved so.', *module.location(given))
    porting.imports.add("import jax.numpy as jnp")
    porting.edit(*module.span(given), f"jnp.dtype({code}).name", PART_OF, REASON)


def _settled(porting: Porting, choice: cst.IfExp) -> str:
    """The type that a choice by the GPU has come to, `bfloat16`; empty where it is open, or something else."""
    now = porting.code_now(choice) if porting.covered(porting.module.span(choice)[0]) else ""
    named = re.fullmatch(r"torch\.((?:b?float|half)\w*)", now)
    return named[1] if named is not None else ""


def _decided_by_gpu(module: Module, leaf: cst.BaseExpression) -> bool:
    """Whether what the GPU can do decides about a type: `torch.bfloat16 if torch.cuda.is_bf16_supported() else ...`."""
    way = module.parents[leaf]
    return isinstance(way, cst.IfExp) and "cuda" in module.code(way.test)


def types_of(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> Iterator[cst.BaseExpression | None]:
    """Where torch's types are written or looked up that an expression may be; None for anything else."""
    module = porting.module
    named = module.qualified(node) in constants(module) and not values_of(module, node)
    if named or (isinstance(node, cst.Call) and becomes_jnp(porting, node)):
        yield node
    elif isinstance(node, cst.IfExp):
        for way in (node.body, node.orelse):
            yield from types_of(porting, way, depth)
    else:
        values = (_looked_up(module, node) or values_of(module, node)) if depth < MAX_DEPTH else []
        for value in values:
            yield from types_of(porting, value, depth + 1)
        if not values:
            yield None


def _looked_up(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What `TYPES[name]` or `TYPES.get(name, torch.float16)` may give, of a dictionary of the file; else nothing."""
    table = _table(node)
    made = module.single_binding(table) if isinstance(table, cst.Name) else None
    held = made.value if made is not None else table
    if not isinstance(held, cst.Dict) or not all(isinstance(each, cst.DictElement) for each in held.elements):
        return []
    instead = [each.value for each in node.args[1:2]] if isinstance(node, cst.Call) else []
    return [*(each.value for each in held.elements), *instead]


def _table(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The dictionary that an expression looks a value up in."""
    if isinstance(node, cst.Subscript):
        return node.value
    get = node.func if isinstance(node, cst.Call) else None
    return get.value if isinstance(get, cst.Attribute) and get.attr.value == "get" else None


def values_of(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a variable is assigned, or what a function of the file returns; nothing where that isn't all of it."""
    if isinstance(node, cst.Call) and (function := module.callees.get(node)) is not None:
        return returned(module, function)
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    values = [binding.value for binding in found[1] if binding.kind == "assign"] if found is not None else []
    return [v for v in values if v is not None] if found is not None and len(values) == len(found[1]) else []


def _only_torch_reads(porting: Porting, given: cst.BaseExpression) -> bool:
    """Whether a variable goes to torch's models and tensors alone, and into what is printed."""
    module = porting.module
    found = module.meaning(given) if isinstance(given, cst.Name) else None
    if found is None or any(not _written_here(module, binding.value) for binding in found[1]):
        return False
    return all(_is_of_torch(porting, use) or _is_said(module, use) for use in module.references(given.value, found[0]))  # type: ignore[attr-defined]


def _written_here(module: Module, value: cst.BaseExpression | None) -> bool:
    """Whether an assignment's own code has the types, no other variable or function; or a dictionary that is read there
    alone."""
    table = _table(value) if value is not None else None
    if value is not None and isinstance(table, cst.Name):
        found = module.meaning(table)
        return found is not None and len(module.references(table.value, found[0])) == 1
    ways = [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]
    return all(way is not None and (module.qualified(way) or "").startswith("torch.") for way in ways)


def _is_of_torch(porting: Porting, use: cst.BaseExpression) -> bool:
    argument = porting.module.parents[use]
    call = porting.module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return False
    return _loads(porting, call) or _makes_tensor(porting, call)


def _is_said(module: Module, use: cst.BaseExpression) -> bool:
    """Whether a use is printed: `print(f"merged in {dtype}")`."""
    call = next((item for item in module.ancestors(use) if isinstance(item, cst.Call | cst.BaseStatement)), None)
    return isinstance(call, cst.Call) and module.code(call.func).rpartition(".")[2] in SAYS
