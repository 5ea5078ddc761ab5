"""What asks torch for a GPU, left where the port comes along.

What it does: what torch computes in the port it computes on the host's CPU: `.to("cuda")`, `.cuda()`, `device="cuda"`
and a model that torch loads on a GPU (`device_map={"": 0}`, `config["device_map"]`) get the CPU, where the port comes
to them and no other rule has them. So does what a module of the project, which stays as it is, is given ("cuda" of
`Scorer(path, device="cuda")`). It is "cpu:0" where the script reads a device's number (`device.split(":")[1]`); where
that wouldn't do, or a question gives "cpu", the line is named. Calls that raise without CUDA (`torch.cuda.init()`), and
loads that bitsandbytes quantises, are named.
In a `try` that goes on, models get the CPU as well, and a load that bitsandbytes quantises is a warning: what stands
behind it there isn't done.
Why: a TPU machine's torch is built without CUDA, so that the port would end there.
Example: `inputs = tokenizer(prompt, return_tensors="pt").to("cuda")`
Use instead: `.to("cpu")`; for a model `rt.load_model` and `rt.generate`, which use the TPU
"""

from __future__ import annotations

import re
from typing import Literal

import libcst as cst

from porter.packs.api import Phase, Porting, stays_torchs, step
from porter.packs.script import (
    Module,
    drop_device_maps,
    left_file,
    usual_texts,
)

from ._device_parts import host_of, say_device_parts
from ._reached import is_reached

ID = "TP536"
# Of a torch without CUDA; the other functions of torch.cuda answer 0 or nothing there.
RAISING = frozenset(
    f"torch.cuda.{name}"
    for name in """get_device_name get_device_properties get_device_capability current_device set_device mem_get_info
    synchronize current_stream default_stream memory_summary memory_snapshot reset_peak_memory_stats
    reset_max_memory_allocated ipc_collect get_rng_state utilization init Stream Event temperature clock_rate power_draw
    set_per_process_memory_fraction FloatTensor HalfTensor LongTensor nvtx.range_push nvtx.range_pop profiler.start
    profiler.stop""".split()
)
MEMORY = tuple(
    f"torch.cuda.{name}" for name in "max_memory_allocated max_memory_reserved memory_allocated memory_reserved".split()
)
MEASURED = 'jax.devices()[0].memory_stats()["peak_bytes_in_use"] is what a TPU held; tpu-port plan says it before.'
TYPES = ("torch_dtype", "dtype")
QUANTISES = frozenset({"quantization_config", "load_in_4bit", "load_in_8bit"})
ANYWHERE = ("auto", "balanced", "balanced_low_0", "sequential", "cpu")  # maps that are the CPU where there's no GPU
HOST, REASON = '"cpu"', "torch holds it on the host: a TPU isn't torch's"
BY_RUNTIME = "rt.load_model(...) and rt.generate(...) load and use a model of a known family on the TPU."
FIX = "Take it out, give what the GPU run had, or put it under `if torch.cuda.is_available():`."


@step(Phase.NAME, reads=("gpu tests",), anywhere=True)
def name_cuda_left(porting: Porting) -> None:
    """An error for every call that raises without a GPU, where nothing keeps the port from it."""
    module = porting.module
    if not any(word in module.text for word in ("cuda", "device", *QUANTISES)):
        return
    _move_loads(porting)
    moved = _move_to_host(porting)
    said = {finding.line for finding in porting.findings if finding.severity == "error"}
    for call in module.calls:
        line, column = module.location(call)
        if line in said or call in moved or not _ends_the_port(porting, call):
            continue
        said.add(line)
        code, called = (" ".join(module.code(part).split()) for part in (call, call.func))
        shown = code if len(code) <= 60 else f"{called}(...)" if len(called) <= 60 else f"{called[:57]}...(...)"
        message = f"{shown} needs a GPU, and the port comes here: torch raises on a TPU machine."
        porting.find(ID, "error", message, FIX, line, column)
    _say_tried(porting)
    _say_memory(porting)
    say_device_parts(porting)


def _say_tried(porting: Porting) -> None:
    """That a `try` takes what a load raises that bitsandbytes quantises, and the port does without the model."""
    module = porting.module
    for call in module.calls:
        name = module.qualified(call.func) or ""
        if not name.endswith(".from_pretrained") or not _is_quantised(module, call) or _is_answered(porting, call):
            continue
        if is_reached(porting, call) or not is_reached(porting, call, tried=True):
            continue
        message = f"{module.code(call.func)}: bitsandbytes needs a GPU, and a `try` takes what torch raises here: "
        message += "what the GPU run does with this model the port doesn't."
        porting.find(ID, "warning", message, BY_RUNTIME, *module.location(call))


def _say_memory(porting: Porting) -> None:
    """That a record of the GPU's memory holds 0: once, at its first line."""
    module = porting.module
    for name in MEMORY:
        for call in module.calls_by_name.get(name, ()):
            if _is_answered(porting, call) or not is_reached(porting, call):
                continue
            message = f"{module.code(call.func)}() is 0 in the port: what a TPU holds isn't torch's."
            porting.find(ID, "info", message, MEASURED, *module.location(call))
            return


def _move_loads(porting: Porting) -> None:
    """What torch loads on a GPU it loads on the host's CPU, where that can be done; device maps for it alone go."""
    module = porting.module
    for call in module.calls:
        if (place := _movable(module, call)) is None or not (
            _ends_the_port(porting, call) or _is_tried(porting, call, call)
        ):
            continue
        porting.edit(*module.span(place), HOST, ID, REASON)
        message = f"{module.code(call.func)}: torch loads it on the host's CPU, where it is slow: a TPU isn't torch's."
        porting.find(ID, "warning", message, BY_RUNTIME, *module.location(call))
    drop_device_maps(porting)


def _move_to_host(porting: Porting) -> set[cst.Call]:
    """`.to("cuda")`, `.cuda()` and `device="cuda"` say the host's CPU, of a variable its value does; these calls."""
    module, moved = porting.module, set[cst.Call]()
    for call in module.calls:
        method = call.func if isinstance(call.func, cst.Attribute) else None
        if not (_ends_the_port(porting, call) or (method and _is_tried(porting, call, method.value))):
            continue
        if method is not None and method.attr.value == "cuda":
            porting.edit(module.span(method.attr)[0], module.span(call)[1], "cpu()", ID, REASON)
        else:
            places = [a.value for a in call.args if _is_device(module, call, a) and is_cuda(module, a.value)]
            if not places:
                continue
            for place in places:
                say_host(porting, place)
        moved.add(call)
        moves = method is not None and method.attr.value in ("to", "cuda")
        model = method is not None and moves and stays_torchs(porting, method.value)
        code = " ".join(module.code(call).split())
        shown = code if len(code) <= 60 else f"{' '.join(module.code(call.func).split())[-57:]}(...)"
        file = _file(module, call)
        whose, slow = f" of {file}, which stays as it is" if file else "", ", where it is slow" if model or file else ""
        message = f"{shown}{whose}: on the host's CPU in the port{slow}: a TPU isn't torch's."
        severity: Literal["warning", "info"] = "warning" if slow else "info"
        porting.find(ID, severity, message, BY_RUNTIME if model else "", *module.location(call))
    return moved


def _is_device(module: Module, call: cst.Call, argument: cst.Arg) -> bool:
    """Whether an argument says where tensors lie: of `.to()` and `torch.Generator()` any, else `device=`."""
    if _file(module, call):
        return argument in _devices_given(module, call)
    any_of_it = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "Generator")
    return any_of_it or (argument.keyword is not None and argument.keyword.value == "device")


def _file(module: Module, call: cst.Call) -> str:
    """The file of the project, which stays as it is, whose class or function is called; "" for another's."""
    if not isinstance(call.func, cst.Name | cst.Attribute):
        return ""
    name = module.qualified(call.func) or ""
    return left_file(module, name) if name and not name.startswith(("torch.", "transformers.")) else ""


def _devices_given(module: Module, call: cst.Call) -> list[cst.Arg]:
    """The arguments that give a GPU for certain to a class or function of such a file."""
    return [
        a
        for a in call.args
        if not a.star and (a.keyword is None or "device" in a.keyword.value) and is_cuda(module, a.value)
    ]


def say_host(porting: Porting, place: cst.BaseExpression) -> None:
    """A device becomes the CPU: at its place, or where its variable is given it."""
    module = porting.module
    for value in _assigned(module, place) or [place]:
        if isinstance(value, cst.Call):  # torch.device("cuda")
            value = value.args[0].value
        if not porting.covered(module.span(value)[0]):
            porting.edit(*module.span(value), host_of(module, value), ID, REASON)


def _ends_the_port(porting: Porting, call: cst.Call) -> bool:
    return _needs_gpu(porting.module, call) and not _is_answered(porting, call) and is_reached(porting, call)


def _is_tried(porting: Porting, call: cst.Call, model: cst.BaseExpression) -> bool:
    """Whether a model of torch's is loaded or moved in a `try` that takes what torch raises."""
    asks = _needs_gpu(porting.module, call) and not _is_answered(porting, call)
    return asks and stays_torchs(porting, model) and is_reached(porting, call, tried=True)


def _needs_gpu(module: Module, call: cst.Call) -> bool:
    name = module.qualified(call.func) or ""
    if name in RAISING:
        return True
    if name == "torch.cuda.device":
        return isinstance(module.parents[call], cst.WithItem)
    if name.startswith("torch."):
        given = [argument.value for argument in call.args if argument.keyword and argument.keyword.value == "device"]
        if name == "torch.Generator":
            given += [argument.value for argument in call.args[:1] if argument.keyword is None]
        return any(is_cuda(module, value) for value in given)
    if any(is_cuda(module, argument.value) for argument in call.args) and _file(module, call):
        return bool(_devices_given(module, call))
    if name.endswith(".from_pretrained") and _is_quantised(module, call):
        return True
    if place := _place(module, call):
        return _is_gpu_place(module, place) or _is_chosen_map(module, call)
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "cuda":
        return all(argument.keyword is not None or _is_number(argument.value) for argument in call.args)
    return call.func.attr.value == "to" and any(is_cuda(module, argument.value) for argument in call.args)


def _place(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Where transformers is asked to load a model or pipeline to."""
    name = module.qualified(call.func) or ""
    if name != "transformers.pipeline" and not name.endswith(".from_pretrained"):
        return None
    return next((a.value for a in call.args if a.keyword and a.keyword.value in ("device_map", "device")), None)


def _is_chosen_map(module: Module, call: cst.Call) -> bool:
    """Whether only the run knows a load's device map: `config["device_map"]`, `args.device_map`, a parameter. Of a map
    for GPUs transformers raises; "auto", which it may be as well, is the CPU there."""
    given = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "device_map"), None)
    if isinstance(given, cst.Attribute) and given.attr.value == "device":
        return False
    is_parameter = isinstance(given, cst.Name) and not _assigned(module, given)
    if given is None or not (is_parameter or isinstance(given, cst.Subscript | cst.Attribute)):
        return False
    usual = usual_texts(module, module.code(given))
    return not usual or any(text not in ANYWHERE for text in usual)


def _movable(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """The place of a load that the host's CPU can do as well: without bitsandbytes' kernels."""
    return None if _is_quantised(module, call) else _place(module, call)


def _is_quantised(module: Module, call: cst.Call) -> bool:
    """Whether a load asks bitsandbytes to quantise."""
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value in QUANTISES]
    return any(not isinstance(value, cst.Name) or value.value not in ("False", "None") for value in given)


def _is_answered(porting: Porting, call: cst.Call) -> bool:
    """Whether a rule has taken the call, its function's name or what it is given; its type alone answers nothing."""
    last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    given = [a for a in call.args if a.keyword is None or a.keyword.value not in TYPES]
    parts = [call, last, *(argument.value for argument in given)]
    return any(porting.covered(porting.module.span(part)[0]) for part in parts)


def _is_number(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Integer | cst.Name | cst.Attribute)


def is_cuda(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a device is a GPU for certain: `"cuda:0"`, `torch.device("cuda")`, or a variable that is only that."""
    if values := _assigned(module, value):
        return all(not isinstance(held, cst.Name) and is_cuda(module, held) for held in values)
    if isinstance(value, cst.Call) and module.qualified(value.func) == "torch.device" and value.args:
        value = value.args[0].value
    if isinstance(value, cst.FormattedString):
        return re.match(r"cuda\b", module.code(value).lstrip("fFrR").strip("\"'")) is not None
    return isinstance(value, cst.SimpleString) and re.match(r"cuda\b", str(value.evaluated_value)) is not None


def _is_gpu_place(module: Module, value: cst.BaseExpression) -> bool:
    """Whether transformers puts what it loads on a GPU: a device, its number, or `{"": ...}` of one."""
    if values := _assigned(module, value):
        return all(not isinstance(held, cst.Name) and _is_gpu_place(module, held) for held in values)
    if isinstance(value, cst.Dict):
        return any(_is_gpu_place(module, element.value) for element in value.elements)
    if isinstance(value, cst.Attribute):  # a process's number, which is its GPU's
        return value.attr.value in ("process_index", "local_process_index", "local_rank")
    if isinstance(value, cst.Call) and module.qualified(value.func) == "torch.cuda.current_device":
        return True
    return isinstance(value, cst.Integer) or is_cuda(module, value)


def _assigned(module: Module, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """All that is assigned to a variable; nothing where something else gives it a value."""
    meaning = module.meaning(value) if isinstance(value, cst.Name) else None
    made = meaning[1] if meaning is not None else ()
    values = [one.value for one in made if one.kind == "assign" and one.value is not None]
    return values if len(values) == len(made) else []
