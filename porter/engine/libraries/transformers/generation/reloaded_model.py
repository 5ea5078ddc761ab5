"""A model that a script loads again behind training, to try it out: Tunix's in the port, as the trained one.

base = AutoModelForCausalLM.from_pretrained(MODEL)
model = PeftModel.from_pretrained(base, "out").merge_and_unload()
model.generate(...)

Also in a function of its own, and quantised by bitsandbytes.

Only where all that is done with it is known: it generates, is merged, saved behind a merge, given the tokens of a chat
format, or put on a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from .....runtime.facts.families import UnknownFamily, find_family
from .....source.calls import function_around, parameter_of
from .....source.module import Module
from .....source.values import Unknown, evaluate
from ....script.fill_from_tables import tables_by_class
from ....script.flow import CHAT_FORMAT, origins
from ....script.porting import Porting
from ....script.reaching import reaching
from ....script.trainers import is_behind
from ....script.training import in_reach

RULE = "TP314"
WHOLE = "transformers.AutoModelForCausalLM.from_pretrained"
ADAPTED = "peft.AutoPeftModelForCausalLM.from_pretrained"
ADAPTER = ("peft.PeftModel.from_pretrained", "peft.PeftModelForCausalLM.from_pretrained")
MERGE = "merge_and_unload"
PLACES = frozenset({"eval", "train", "to", "cuda", "half", "float"})
SAVES = frozenset({"save_model", "save_pretrained", "push_to_hub"})
OF_MERGED = frozenset({"save_pretrained", "push_to_hub"})
OF_CONFIG = frozenset({"use_cache", "pretraining_tp"})  # what decides nothing about Tunix's tokens
# Keywords of PeftModel.from_pretrained that say where and how torch's model lies, or what is so anyway.
IDLE = frozenset("device_map dtype torch_dtype is_trainable offload_folder low_cpu_mem_usage offload_dir".split())
CONFIG = "transformers.BitsAndBytesConfig"
# The keywords that ask bitsandbytes to quantise, and its formats.
QUANTISES = {"quantization_config": "", "load_in_4bit": '"fp4"', "load_in_8bit": '"int8"'}
REASON = "the model that generates is Tunix's, too"


@dataclass
class _Chain:
    """The names that hold one model loaded again: what becomes of each place, and where it generates."""

    edits: list[tuple[int, int, str]] = field(default_factory=list)
    removed: list[cst.BaseExpression] = field(default_factory=list)
    uses: list[cst.Name] = field(default_factory=list)
    generates: bool = False
    is_formatted: bool = False  # by TRL's setup_chat_format, which a port has for Tunix's model alone
    is_saved: bool = False


def port_reloaded(porting: Porting) -> list[cst.Name]:
    """Loads models of that kind with the runtime; every name where such a model stands."""
    found: list[cst.Name] = []
    module, whole = porting.module, tables_by_class(porting.packs)[WHOLE].names
    for call in module.calls:
        name = module.qualified(call.func)
        if (name == ADAPTED or name in whole) and _is_candidate(porting, call):
            chain = _Chain()
            if _load(porting, call, chain) and (chain.generates or (chain.is_formatted and chain.is_saved)):
                found += chain.uses
                for start, end, new in chain.edits:
                    porting.edit(start, end, new, RULE, REASON)
                for place in chain.removed:
                    porting.remove_statement(place, RULE, "it is where the mesh says")
    return found


def is_tunixs(porting: Porting, path: cst.BaseExpression) -> bool:
    """Whether what stands there is surely Tunix's: the trained model's name, what the script saves, a known family."""
    module = porting.module
    trained = [porting.value(place) for place in ("model.id", "run.output_dir")]
    if any(value is not None and module.code(path) in (value.text, value.code) for value in trained):
        return True
    name = _known(module, path)
    if name is not None and name == porting.known("run.output_dir"):
        return True
    saves = (call for call in module.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value in SAVES)
    saved = [argument.value for call in saves for argument in call.args]
    if any(value.deep_equals(path) or (name is not None and _known(module, value) == name) for value in saved):
        return True
    given = [binding.value for binding in reaching(module, path)] if isinstance(path, cst.Name) else []
    if given and all(each is not None and any(value.deep_equals(each) for value in saved) for each in given):
        return True
    try:
        return name is not None and find_family(hub_id=str(name)) is not None
    except UnknownFamily:
        return False


def _known(module: Module, node: cst.BaseExpression) -> object:
    """What an expression surely is; None for one that is decided when the script runs."""
    try:
        return evaluate(module, node)
    except Unknown:
        return None


def _is_candidate(porting: Porting, call: cst.Call) -> bool:
    trainer, model = porting.trainer, porting.model
    assert trainer is not None
    taken = (model is not None and model.node is call) or call in porting.loads
    if taken or porting.covered(porting.module.span(call)[0]):
        return False
    if is_behind(porting, call) and in_reach(trainer.scope, porting.module.scope(call)):
        return True
    return _is_apart(porting, call)


def _is_apart(porting: Porting, call: cst.Call) -> bool:
    """Whether a function that trains nothing loads the model for itself, and the mesh is the file's."""
    function = function_around(porting.module, call)
    trains = {function_around(porting.module, site.node) for site in porting.sites if site.role == "trainer"}
    return function is not None and function not in trains and has_mesh_of_file(porting)


def has_mesh_of_file(porting: Porting) -> bool:
    """Whether the port makes its mesh below the imports, for all functions."""
    start = f"\n{porting.names.mesh} = "
    return any(edit.new.startswith(start) for edit in porting.edits)


def _load(porting: Porting, call: cst.Call, chain: _Chain) -> bool:
    """`AutoModelForCausalLM.from_pretrained(path, dtype=...)` → `rt.load_model(path, mesh, dtype=...)`."""
    module = porting.module
    arguments = _loading(porting, call)
    if arguments is None:
        return False
    path = next((a.value for a in call.args if module.code(a.value) == arguments[0]), None)
    if path is None or not is_tunixs(porting, path):
        return False
    identifier = porting.value("model.id")
    base = identifier is not None and arguments[0] in (identifier.text, identifier.code)
    function = porting.rt("load_model" if base else "load_trained")
    new = f"{function}({arguments[0]}, {', '.join([porting.names.mesh, *arguments[1:]])})"
    whole, rest = _without_places(porting, call)
    chain.edits.append((module.span(call)[0], module.span(whole)[1], new))
    return rest and _held(porting, whole, chain, merged=False)


def _loading(porting: Porting, call: cst.Call) -> list[str] | None:
    """What of a loading call `rt.load_model` takes; None where a keyword has no counterpart there."""
    module = porting.module
    rows = tables_by_class(porting.packs)[WHOLE].table
    first, kept = "", []
    for place, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else ""
        code = module.code(argument.value)
        if argument.star or (not name and place):
            return None
        row = rows.row(name) if name else None
        if not name or name == "pretrained_model_name_or_path":
            first = code
        elif name in ("dtype", "torch_dtype"):
            kept += [] if code.strip("\"'") in ("auto", "None") else [f"dtype={code}"]
        elif name == "revision":
            kept.append(f"revision={code}")
        elif name in QUANTISES:
            if (format_of := _format(porting, name, argument.value)) is None:
                return None
            kept += [f"quantization={format_of}"] if format_of else []
        elif name != "return_dict" and (row is None or row.fate not in ("dropped", "changed")):
            if not _is_off(porting, argument.value):
                return None
    return [first, *kept] if first else None


def _format(porting: Porting, keyword: str, value: cst.BaseExpression) -> str | None:
    """What `rt.load_model(quantization=)` takes for a keyword: "" for nothing, None for what it hasn't."""
    if _is_off(porting, value):
        return ""
    made = [*origins(porting.module, value)][-1:]
    if keyword == "quantization_config":
        is_known = any(isinstance(call, cst.Call) and porting.module.qualified(call.func) == CONFIG for call in made)
        return porting.module.code(value) if is_known else None
    return QUANTISES[keyword] if porting.module.code(value) == "True" else None


def _is_off(porting: Porting, node: cst.BaseExpression) -> bool:
    try:
        return evaluate(porting.module, node) in (None, False)
    except Unknown:
        return False


def _without_places(porting: Porting, call: cst.Call) -> tuple[cst.Call, bool]:
    """A call with the `.to("cuda")` behind it; whether nothing else hangs on it."""
    module = porting.module
    while isinstance(attribute := module.parents[call], cst.Attribute):
        outer = module.parents[attribute]
        if not isinstance(outer, cst.Call) or attribute.attr.value not in PLACES:
            return call, attribute.attr.value == MERGE and isinstance(outer, cst.Call)
        call = outer
    return call, True


def _held(porting: Porting, call: cst.Call, chain: _Chain, *, merged: bool) -> bool:
    """Follows the name that a call's value gets; whether all uses of it are known."""
    module = porting.module
    parent = module.parents[call]
    if isinstance(parent, cst.Attribute):  # .merge_and_unload() on the spot
        outer = module.parents[parent]
        assert isinstance(outer, cst.Call)
        begin = next(start for start, end, _ in reversed(chain.edits) if end == module.span(call)[1])
        chain.edits.append((begin, begin, f"{porting.rt(MERGE)}("))
        chain.edits.append((module.span(call)[1], module.span(outer)[1], ")"))
        return _held(porting, outer, chain, merged=True)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return False
    target: cst.BaseExpression = parent.targets[0].target
    if module.qualified(call.func) == CHAT_FORMAT:  # it gives (model, tokenizer)
        pair = target.elements if isinstance(target, cst.Tuple) else ()
        target = pair[0].value if len(pair) == 2 else target
    scope = module.scope(call)
    if not isinstance(target, cst.Name) or function_around(module, call) is not function_around(module, parent):
        return False
    found = scope.lookup(target.value)
    if found is None:
        return False
    later = [module.span(b.node)[0] for b in found[1] if module.span(b.node)[0] > module.span(parent)[0]]
    stop = min(later, default=len(module.text))
    again = next((b.node for b in found[1] if module.span(b.node)[0] == stop), None)
    for use in module.references(target.value, found[0]):
        inside = again is not None and module.span(again)[0] <= module.span(use)[0] < module.span(again)[1]
        if module.span(parent)[1] <= module.span(use)[0] < stop or inside:
            if not isinstance(use, cst.Name) or not _use(porting, use, chain, merged):
                return False
    return True


def _use(porting: Porting, use: cst.Name, chain: _Chain, merged: bool) -> bool:
    """Whether a use of the model is one that the port has, and what it becomes."""
    module = porting.module
    parent = module.parents[use]
    outer = module.parents[parent]
    if isinstance(parent, cst.Attribute):
        name = parent.attr.value
        if name in ("device", "dtype") or name == "generate" or (merged and name in OF_MERGED):
            chain.generates |= name == "generate"
            chain.is_saved |= name in OF_MERGED
            chain.uses.append(use)
            return True
        if not isinstance(outer, cst.Call) or outer.func is not parent:
            if name != "config" or not isinstance(outer, cst.Attribute) or outer.attr.value not in OF_CONFIG:
                return False
            assigned = module.parents[module.parents[outer]]
            if isinstance(assigned, cst.Assign) and len(assigned.targets) == 1:
                chain.removed.append(outer)
                return True
            return False
        if name in PLACES:
            around = module.parents[outer]
            if isinstance(around, cst.Expr):
                chain.removed.append(outer)
                return True
            return False
        if name == MERGE and not merged and isinstance(module.parents[outer], cst.Expr):
            chain.removed.append(outer)  # merged in place: the same tokens
            return True
        if name == MERGE and not merged:
            chain.edits.append((*module.span(outer), f"{porting.rt(MERGE)}({use.value})"))
            return _held(porting, outer, chain, merged=True)
        return False
    if isinstance(outer, cst.Call) and isinstance(parent, cst.Arg):
        called = module.qualified(outer.func)
        if called == "transformers.pipeline":
            chain.generates = True
            chain.uses.append(use)
            return True
        if called in ADAPTER and not merged:
            return _adapter(porting, use, outer, chain)
        if called == CHAT_FORMAT and not merged and _is_model_of(outer, parent):
            chain.is_formatted = True
            return _held(porting, outer, chain, merged=False)
        parameter = parameter_of(module, parent, outer)
        if parameter is not None:
            uses = module.references(parameter, module.scopes[module.callees[outer]])
            return all(isinstance(n, cst.Name) and _use(porting, n, chain, merged) for n in uses)
    return isinstance(parent, cst.Del) or isinstance(module.parents[outer], cst.Del)


def _is_model_of(call: cst.Call, argument: cst.Arg) -> bool:
    return argument.keyword.value == "model" if argument.keyword is not None else argument is call.args[0]


def _adapter(porting: Porting, use: cst.Name, call: cst.Call, chain: _Chain) -> bool:
    """`PeftModel.from_pretrained(base, "out")` → `rt.apply_adapter(base, "out", mesh)`."""
    module = porting.module
    given = {("model", "model_id")[n]: a.value for n, a in enumerate(call.args[:2]) if a.keyword is None}
    kept = []
    for argument in call.args:
        name = argument.keyword.value if argument.keyword is not None else ""
        if argument.star or (not name and argument not in call.args[:2]):
            return False
        if name in ("model", "model_id"):
            given[name] = argument.value
        elif name in ("subfolder", "revision"):
            kept.append(f"{name}={module.code(argument.value)}")
        elif name and name not in IDLE and not _is_off(porting, argument.value):
            return False
    if set(given) != {"model", "model_id"} or given["model"] is not use:
        return False
    whole, rest = _without_places(porting, call)
    words = [use.value, module.code(given["model_id"]), porting.names.mesh, *kept]
    chain.edits.append(
        (module.span(call)[0], module.span(whole)[1], f"{porting.rt('apply_adapter')}({', '.join(words)})")
    )
    return rest and _held(porting, whole, chain, merged=False)
