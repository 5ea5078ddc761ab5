"""`getattr(torch, model_args.dtype)`: a type by its name, which JAX's numpy has as well."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step

PART_OF = "TP520"
REASON = "the same type"
# What a name of a type is called where the script decides it.
NAMES_TYPE = re.compile(r"d_?type|precision", re.IGNORECASE)


# `getattr(torch, name)` goes along where the call around it comes from the runtime now.
@step(Phase.ANSWER, reads=("moved",))
def rewrite_named_types(porting: Porting) -> None:
    """Look types up in JAX's numpy; in arguments of calls that stay PyTorch's they stay PyTorch's."""
    module = porting.module
    if "getattr" not in module.text:
        return
    for call in module.calls:
        if not _names_type(porting, call):
            continue
        place = call.args[0].value
        start, end = module.span(place)
        if porting.repeats(call):
            porting.imports.add("import jax.numpy as jnp")
            code = module.code(call)
            porting.respell(code, code.replace(module.code(place), "jnp", 1))
        if not porting.covered(start) and not _is_handed(porting, call):
            porting.edit(start, end, "jnp", PART_OF, REASON)
            porting.imports.add("import jax.numpy as jnp")


def becomes_jnp(porting: Porting, call: cst.Call) -> bool:
    """Whether the port looks a type up in JAX's numpy that the script looks up in torch."""
    return porting.options.active(PART_OF) and _names_type(porting, call) and not _is_handed(porting, call)


def _names_type(porting: Porting, call: cst.Call) -> bool:
    """`getattr(torch, args.dtype)`, and `dtype = getattr(torch, name)`."""
    module = porting.module
    if module.code(call.func) != "getattr" or len(call.args) != 2 or module.qualified(call.args[0].value) != "torch":
        return False
    assign = module.parents[call]
    targets = [target.target for target in assign.targets] if isinstance(assign, cst.Assign) else []
    return any(NAMES_TYPE.search(module.code(each)) for each in (call, *targets))


def _is_handed(porting: Porting, call: cst.Call) -> bool:
    """Whether a type goes to a call that stays the user's: neither a dict nor one that the runtime answers."""
    module = porting.module
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return False
        if isinstance(ancestor, cst.Call):
            known = module.code(ancestor.func) == "dict" or (module.qualified(ancestor.func) or "") in porting.moved
            if not known:
                return True
    return False
