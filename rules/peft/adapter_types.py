"""In which type the GPU run's adapters of a base in half precision are: before PEFT 0.12 in the base's, from then on in
float32 unless `autocast_adapter_dtype=False` says otherwise. Over 4-bit weights it is the type that stores their codes:
whole numbers by default, with adapters in float32, and a half type by FSDP's `bnb_4bit_quant_storage=torch.bfloat16`.

The port's are float32. In bfloat16, gradients and the optimizer's state are bfloat16, too, and small updates are lost.
DeepSpeed and, from accelerate 0.30 on, FSDP train float32 copies of what is half in mixed precision.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import constants, date, history, plain_version, release_of, role_uses, version_key
from porter.packs.training import launched_as, when_quantised

PART_OF = "peft"
RULE = "TP202"
KEYWORD = "autocast_adapter_dtype"
HALVES = ("bfloat16", "float16")

STORAGE = "bnb_4bit_quant_storage"
FSDP_COPIES = (0, 30)  # accelerate's first release that makes float32 of what FSDP trains in mixed precision
FLOAT32 = ("torch.float32", "torch.float")
WALKS = re.compile(r"\.(?:named_)?(?:parameters|modules)\(")  # what a loop over the model's parts goes through


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def name_adapter_types(porting: Porting) -> None:
    """A finding where the GPU run's adapters were in half precision."""
    site, quantised, base = porting.trainer, when_quantised(porting), _base(porting)
    adapters = porting.lora is not None or porting.lora_object or porting.inject is not None
    if site is None or not adapters or _has_copies(porting):
        return
    release, storage = peft_release(porting), _storage(porting) if quantised is not False else ""
    if storage and not any(_makes_float32(porting, call) for call in porting.module.calls):
        same = quantised is True or storage == base
        shown, when = f"{STORAGE}'s {storage}", "" if same else " where the script quantises the base"
    elif quantised is True or base == "float32" or _is_cast(porting, quantised):
        return
    else:
        shown = f"the base's {base}" if base else "the base's own type"
        when = "" if quantised is False else " where the script doesn't quantise it"
    asked = _asked(porting)
    if asked and (release is None or _knows_keyword(release)):
        said = f"{asked} trains the adapters in {shown}{when}"
    elif release is not None and not _knows_keyword(release):
        said = f"PEFT {release} trains the adapters in {shown}{when}"
    else:
        return
    message = f"{said}; here they are float32, as PEFT's from 0.12 on."
    fix = "Expect other losses: in half precision small updates are rounded away."
    porting.find(RULE, "info", message, fix, site.line, site.column)


def _storage(porting: Porting) -> str:
    """The half type that holds the codes of a base of 4 bits; "" for whole numbers, and for float32."""
    given = (site.argument(STORAGE) for site in porting.of_role("quantization"))
    known = (str(each.value.literal) for each in given if each is not None and each.value.known)
    return next((name for each in known if (name := each.removeprefix("torch.")) in HALVES), "")


def _has_copies(porting: Porting) -> bool:
    """Whether the launcher trains float32 copies of weights in half precision."""
    if True not in (porting.known("precision.bf16"), porting.known("precision.fp16")):
        return False
    launched = launched_as(porting)
    if launched == "deepspeed" or porting.known("mesh.zero"):
        return True
    if launched != "fsdp" and not porting.known("mesh.fsdp"):
        return False
    release = release_of(porting, "accelerate") or _of_its_day(porting, "accelerate")
    return release is None or version_key(release) >= FSDP_COPIES


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
    return found.version if found is not None else _of_its_day(porting, "peft")


def _of_its_day(porting: Porting, library: str) -> str | None:
    """The release of a library on the day of an older TRL."""
    trl, record = porting.versions.get("trl", ""), history().record(library)
    if not trl or trl.endswith("(newest table)"):
        return None
    return record.releases[record.at_day(history().date("trl", plain_version(trl)))]
