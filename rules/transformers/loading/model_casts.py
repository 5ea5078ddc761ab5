"""Casts of a whole model in front of its training: `trainer.model = trainer.model.to(torch.bfloat16)`.

They decide in which type the GPU run trains: adapters behind which one stands are cast, too, and a base, or a model
without adapters, is no more of the type that it was loaded in. A port loads the base in the type that it is cast to
before anything is made of it, and trains as if there were no other cast; nor does it read
`torch.set_default_dtype(torch.bfloat16)`, the type of a load that names none before transformers 5.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, Severity, is_before, step
from porter.packs.script import MODEL_CASTS, function_around, is_dead, read_value, role_uses, type_asked
from porter.packs.training import Training

from .._default_types import KEEPS_TYPE

PART_OF = "TP310"
TYPES = ("bfloat16", "float16", "float32")
ROUNDED = "Expect other losses: in half precision small updates are rounded away."
DEFAULTS = ("torch.set_default_dtype", "torch.set_default_tensor_type")
LOAD = "Load the model in that type to train what the GPU run trains."


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def name_casts(porting: Training) -> None:
    """A warning at each cast that makes what the GPU run trains of another type than what the port trains."""
    module = porting.module
    trained = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    held, said, base = porting.value("model.dtype"), porting.value("model.quantization"), _loaded_in(porting)
    quantised = said is not None and not said.is_literal(None)
    for call, to in _casts(porting):
        if is_dead(module, call) or any(_is_behind(porting, call, train) for train in trained):
            continue
        if to not in TYPES and held is not None and to in (held.code, held.text):
            continue  # it is loaded in that type
        message, fix = _difference(porting, call, to, base, quantised)
        if message:
            severity: Severity = "warning" if base or fix == ROUNDED else "info"
            porting.find(PART_OF, severity, message, fix, *module.location(call), False)


def _loaded_in(porting: Training) -> str:
    """The type of the port's base; empty where only the run knows it."""
    held = porting.value("model.dtype")
    base = str(held.literal).removeprefix("torch.") if held is not None and held.known else ""
    return base if base in TYPES else ""


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def name_default_types(porting: Porting) -> None:
    """A warning where torch's default type is that of a model whose load names none."""
    module, model, held = porting.module, porting.model, porting.value("model.dtype")
    if model is None or held is None or held.kind != "default" or porting.value("model.quantization") is not None:
        return
    if not model.qualified.startswith("transformers.") or not is_before(porting, "transformers", KEEPS_TYPE):
        return
    base = _loaded_in(porting)
    for call in [call for name in DEFAULTS for call in module.calls_by_name.get(name, ()) if call.args]:
        to = _named_type(porting, call.args[0].value)
        if is_dead(module, call) or _is_behind(porting, call, model.node) or to == base:
            continue
        message = f"The GPU run loads the model in {to} by this, as its load names no type; the port"
        porting.find(PART_OF, "warning", f"{message} in {base or 'its own'}.", LOAD, *module.location(call), False)


def _named_type(porting: Training, node: cst.BaseExpression) -> str:
    """`bfloat16` of `torch.bfloat16`, `torch.BFloat16Tensor` and `torch.cuda.BFloat16Tensor`, else the code."""
    value = read_value(porting.module, node)
    code = str(value.literal) if value.known else porting.module.code(node)
    short = code.rpartition(".")[2].removesuffix("Tensor").lower()
    return {"half": "float16", "float": "float32"}.get(short, short if short in TYPES else f"the type of `{code}`")


def _difference(porting: Training, call: cst.Call, to: str, base: str, quantised: bool) -> tuple[str, str]:
    """What a cast makes of the GPU run that it isn't in the port, and what to do; empty texts for nothing."""
    kind = f"in {to}" if to in TYPES else f"in the type of `{to}`"
    port = "bfloat16" if base == "float16" else base  # a TPU has no float16
    has_adapters = bool(porting.lora or porting.lora_object or porting.inject or porting.of_role("inject"))
    if has_adapters and _has_adapters_at(porting, call) and to != "float32":
        message = f"The GPU run casts the model here, behind its adapters, and trains and saves these {kind}, with"
        return f"{message} the optimizer's state; the port's adapters and their optimizer's state are float32.", ROUNDED
    if to in (base, port) or (has_adapters and quantised):
        return "", ""
    fix = LOAD if to != "float16" else ""
    port = port or "the type that it is loaded in"
    if has_adapters:
        return f"The GPU run casts the base here and holds it {kind}; the port holds it in {port}.", fix
    return f"The GPU run casts the model here and trains it {kind}; the port trains it in {port}.", fix


def _has_adapters_at(porting: Training, call: cst.Call) -> bool:
    """Whether the adapters are in the model where a cast stands."""
    sites = porting.of_role("inject") or [site for site in (porting.inject, porting.trainer) if site is not None][:1]
    return any(porting.module.span(call)[1] > site.end for site in sites)


def _casts(porting: Training) -> Iterator[tuple[cst.Call, str]]:
    """The calls that cast the model, and the type: behind its name, the trainer's, or the call that makes it."""
    module = porting.module
    made = [site.node for site in (porting.model, *porting.of_role("inject")) if site is not None]
    calls = [
        use.outer
        for use in role_uses(porting)
        if use.kind == "call" and use.chain.removeprefix("model.") in MODEL_CASTS
    ]
    for node in made:
        method = module.parents[node]
        while isinstance(method, cst.Attribute) and isinstance(module.parents[method], cst.Call):
            calls.append(module.parents[method])
            method = module.parents[module.parents[method]]
    for call in dict.fromkeys(calls):
        to = type_asked(module, call) if isinstance(call, cst.Call) else None
        if isinstance(call, cst.Call) and to is not None:
            yield call, to


def _is_behind(porting: Training, call: cst.Call, train: cst.CSTNode) -> bool:
    module = porting.module
    same = function_around(module, call) is function_around(module, train)
    return same and module.span(call)[0] > module.span(train)[0]
