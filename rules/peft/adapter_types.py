"""In which type the GPU run's adapters of a base in half precision are: before PEFT 0.12 in the base's, from then on in
float32 unless `autocast_adapter_dtype=False` says otherwise; over quantised weights always in float32.

The port's are float32. In bfloat16, gradients and the optimizer's state are bfloat16, too, and small updates are lost.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import constants, date, history, plain_version, role_uses
from porter.packs.training import when_quantised

PART_OF = "peft"
RULE = "TP202"
KEYWORD = "autocast_adapter_dtype"
HALVES = ("bfloat16", "float16")

FLOAT32 = ("torch.float32", "torch.float")
WALKS = re.compile(r"\.(?:named_)?(?:parameters|modules)\(")  # what a loop over the model's parts goes through


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def name_adapter_types(porting: Porting) -> None:
    """A finding where the GPU run's adapters were in half precision."""
    site, quantised, base = porting.trainer, when_quantised(porting), _base(porting)
    adapters = porting.lora is not None or porting.lora_object or porting.inject is not None
    if site is None or not adapters or quantised is True or base == "float32" or _is_cast(porting, quantised):
        return
    release = peft_release(porting)
    when = "" if quantised is False else " where the script doesn't quantise it"
    shown = f"base's {base}" if base else "base's own type"
    asked = _asked(porting)
    if asked and (release is None or _knows_keyword(release)):
        said = f"{asked} trains the adapters in the {shown}{when}"
    elif release is not None and not _knows_keyword(release):
        said = f"PEFT {release} trains the adapters in the {shown}{when}"
    else:
        return
    message = f"{said}; here they are float32, as PEFT's from 0.12 on."
    fix = "Expect other losses: in half precision small updates are rounded away."
    porting.find(RULE, "info", message, fix, site.line, site.column)


def _base(porting: Porting) -> str:
    """The type of the base where it is known, "" where only the run knows it; the half one of several.

    Where only the run quantises it and no type is given, that of the base which isn't quantised: transformers' own.
    """
    places = ("model.dtype", "model.quantization")
    loads = [[branch.get(place) for place in places] for branch in porting.loads.values()]
    loads = loads or [[porting.value(place) for place in places]]
    named, types = constants(porting.module), []
    for dtype, held in loads:
        of_run = held is not None and not held.known and dtype is not None and dtype.kind == "default"
        if (dtype is None and len(loads) == 1) or (of_run and dtype is not None and dtype.is_literal(*HALVES)):
            types.append("float32")
        else:
            given = dtype.literal if dtype is not None and dtype.known else None
            types.append(named.get(f"torch.{str(given).removeprefix('torch.')}", ""))
    return next((each for each in types if each in HALVES), "" if "" in types else "float32")


def _is_cast(porting: Porting, quantised: bool | None) -> bool:
    """Whether what is trained is made float32: by the script, or by PEFT's k-bit preparation of a base that isn't
    quantised. Where the run decides that, a preparation under an `if` is taken for that of the quantised one."""
    module = porting.module
    conditions = [
        any(isinstance(node, cst.If) for node in module.ancestors(site.node)) for site in porting.of_role("prepare")
    ]
    prepared = bool(conditions) and not (quantised is None and all(conditions))
    return prepared or any(_makes_float32(porting, call) for call in module.calls)


def _makes_float32(porting: Porting, call: cst.Call) -> bool:
    """Whether a call makes the whole model float32, or a part of it in a loop over them."""
    module, method = porting.module, call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    to_it = method == "to" and any(module.qualified(argument.value) in FLOAT32 for argument in call.args)
    if not to_it and (method != "float" or call.args):
        return False
    loops = (holder for holder in module.ancestors(call) if isinstance(holder, cst.For))
    walks = any(WALKS.search(module.code(loop.iter)) is not None for loop in loops)
    return walks or any(use.outer is call for use in role_uses(porting))


def _asked(porting: Porting) -> str:
    """`autocast_adapter_dtype=False`, or that with what the run decides, of a call that puts adapters in."""
    for site in porting.of_role("inject"):
        given = site.argument(KEYWORD)
        if given is not None and not given.value.is_literal(True):
            return f"{KEYWORD}={given.text}"
    return ""


def _knows_keyword(release: str) -> bool:
    return history().takes("peft", release, "peft.get_peft_model", KEYWORD)


def peft_release(porting: Porting) -> str | None:
    """The PEFT that the project pins or the script's use of it tells, else that of the day of an older TRL."""
    found = date(porting, "peft")
    if found is not None:
        return found.version
    trl, peft = porting.versions.get("trl", ""), history().record("peft")
    if not trl or trl.endswith("(newest table)"):
        return None
    return peft.releases[peft.at_day(history().date("trl", plain_version(trl)))]
