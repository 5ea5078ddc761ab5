"""A model that is loaded again behind training, to generate → the same weights in Tunix's model.

What it does: `AutoModelForCausalLM.from_pretrained(path)` becomes `rt.load_model` where the path is the base model's
name, and `rt.load_trained` elsewhere, which loads whole models and adapters; `PeftModel.from_pretrained(base, path)`
becomes `rt.apply_adapter`. Only where all that is done with the model is known, and it generates.
Why: transformers would load it with torch, and generate on the host's CPU.
Example: `model = PeftModel.from_pretrained(base, "out")`
Use instead: `model = rt.apply_adapter(base, "out", mesh)`
Safety: exact. Where nothing of the file saves what is trained, an info says that the checkpoints are Orbax's.
A function that the trainer's mesh isn't known to makes its own.
What reads, lists or asks for a single checkpoint by transformers' name (`out/checkpoint-500`), behind the training or
in a callback, is named: an error, a warning where it happens only if that is there.
Other models that are loaded again stay torch's; where they generate, a warning (TP311) says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import calls_of, function_around, indentation, parameter_of, returned, role_uses, shortened
from porter.packs.training import facts_of, tables_by_class
from porter.packs.writing import Rewrite, apply_rewrite, member_rules

from ._generation import RELOADED
from ._reload_arguments import QUANTISES, WHOLE, is_base, is_off, is_tunixs, may_be_tunixs, reload_arguments
from ._reload_places import loads_again, own_mesh, takes_torchs
from ._reloaded_by_unsloth import LOADS, arguments_of_unsloth, path_of_unsloth, reloaded_tokenizer
from .called_model import OUTPUTS, is_known_call
from .shown_places import ATTRIBUTES, is_shown, shown_value

ID = "TP314"
WORDS = ("generate(", "pipeline(", "merge_and_unload(", "setup_chat_format(", *OUTPUTS, *QUANTISES)

ADAPTED = "peft.AutoPeftModelForCausalLM.from_pretrained"
ADAPTER = ("peft.PeftModel.from_pretrained", "peft.PeftModelForCausalLM.from_pretrained")
MERGE = "merge_and_unload"
READIES = ("unsloth.FastLanguageModel.for_inference", "unsloth.FastModel.for_inference")
PLACES = frozenset({"eval", "train", "to", "cuda", "half", "float"})
CASTS = re.compile(r"\.(half|float|bfloat16)\(|\.to\([^)]*(torch\.(b?float|half)|d_?type)")  # torch saves in that type
OF_MERGED = frozenset({"save_pretrained", "push_to_hub"})
OF_CONFIG = frozenset({"use_cache", "pretraining_tp"})  # what decides nothing about Tunix's tokens
# Keywords of PeftModel.from_pretrained that say where and how torch's model lies, or what is so anyway.
IDLE = frozenset(
    "device_map dtype torch_dtype is_trainable offload_folder low_cpu_mem_usage offload_dir local_files_only "
    "torch_device token use_auth_token trust_remote_code".split()
)
REASON = "the model that generates is Tunix's, too"


@dataclass
class _Chain:
    """The names that hold one model loaded again: what becomes of each place, and where it generates."""

    edits: list[tuple[int, int, str]] = field(default_factory=list)
    rewrites: list[tuple[Rewrite, cst.Call, str]] = field(default_factory=list)
    removed: list[cst.BaseExpression] = field(default_factory=list)
    uses: list[cst.Name] = field(default_factory=list)
    functions: list[cst.FunctionDef] = field(default_factory=list)  # that give it back
    kept: list[cst.Name] = field(default_factory=list)  # merged ones that are saved, whatever they are called
    imports: set[str] = field(default_factory=set)
    generates: bool = False
    is_formatted: bool = False  # by TRL's setup_chat_format, which a port has for Tunix's model alone
    is_saved: bool = False
    is_quantised: bool = False  # torch's ends the port then, whatever is done with it
    is_cast: bool = False  # to another type, in which torch saves it
    is_sure: bool = True  # that the model is of a family that Tunix has


@step(Phase.ANSWER, of="trainer", fills=("claimed uses", "reloaded models"))
def port_reloaded(porting: Porting) -> None:
    """Loads models of that kind with the runtime; every name where such a model stands is noted."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    if not any(word in module.text for word in WORDS):
        return
    found: list[cst.Name] = porting.answers.setdefault((RELOADED, trainer.node), [])
    whole = tables_by_class(porting.packs)[WHOLE].names
    for call in module.calls:
        name = module.qualified(call.func)
        if (name == ADAPTED or name in whole or name in LOADS) and loads_again(porting, call):
            chain = _Chain()
            if not _load(porting, call, chain) or (chain.is_cast and chain.is_saved):
                continue
            formatted = chain.is_formatted and chain.is_saved
            if chain.generates or chain.is_quantised or formatted or _has_name_of_trained(porting, chain):
                found += chain.uses
                _write(porting, call, chain)


def _has_name_of_trained(porting: Porting, chain: _Chain) -> bool:
    """Whether the model is saved by the name of the one that was trained, whose uses become Tunix's."""
    named = {use.name for use in role_uses(porting, "model")}
    return chain.is_saved and any(use in named for use in chain.uses)


def _write(porting: Porting, call: cst.Call, chain: _Chain) -> None:
    """Makes the changes that a chain has found."""
    first, mesh = porting.module.span(porting.module.statement(call))[0], own_mesh(porting, call)
    if mesh and all(start > first for start, _, _ in chain.edits):
        porting.edit(first, first, mesh, ID, "the devices and their axes, for this function")
    for start, end, new in chain.edits:
        porting.edit(start, end, mesh + new if start == first else new, ID, REASON)
    porting.imports.update(chain.imports)
    for place in chain.removed:
        porting.remove_statement(place, ID, "it is where the mesh says")
    for kept in chain.kept:
        porting.edit(*porting.module.span(kept), kept.value, ID, "what is merged saves itself")
    for rule, use, name in chain.rewrites:
        apply_rewrite(porting, rule, use, name, "call")
    if chain.is_saved and any("quantization=" in new for _, _, new in chain.edits):
        message = "merge_and_unload: PEFT rounds what it merges into this base to 4 or 8 bits again, and saves that;"
        message += " the port saves the sum in 16 bits."
        porting.find(ID, "info", message, "", *porting.module.location(call))
    elif chain.is_saved and (half := _half_precision(porting, call)) is not None:
        message = "Loaded, merged and saved in bfloat16, whose last bits round small changes away; the GPU run's is "
        message += f"float16 ({shortened(porting.module.code(half))})."
        porting.find(ID, "info", message, "Cast what is saved where float16 is wanted.", *porting.module.location(half))
    if not chain.is_sure:
        path = next((shortened(porting.module.code(argument.value)) for argument in call.args[:1]), "")
        message = f"{path}: of which family this model is, isn't known at port time; the port loads it with Tunix."
        fix = "Check it: rt.load_trained names the family of one that Tunix hasn't, behind the training."
        porting.find(ID, "warning", message, fix, *porting.module.location(call))


def _half_precision(porting: Porting, call: cst.Call) -> cst.BaseExpression | None:
    """The type that a model is loaded in, where that is float16 as it is written."""
    for argument in call.args:
        named = argument.keyword is not None and argument.keyword.value in ("torch_dtype", "dtype")
        if named and re.search(r"(?<!b)float16\b|\bhalf\b", porting.module.code(argument.value)):
            return argument.value
    return None


def _load(porting: Porting, call: cst.Call, chain: _Chain) -> bool:
    """`AutoModelForCausalLM.from_pretrained(path, dtype=...)` → `rt.load_model(path, mesh, dtype=...)`."""
    module = porting.module
    if module.qualified(call.func) in LOADS:
        return _load_pair(porting, call, chain)
    arguments = reload_arguments(porting, call)
    if arguments is None:
        return False
    path = next((a.value for a in call.args if module.code(a.value) == arguments[0]), None)
    if path is None:
        return False
    chain.is_quantised = any(argument.startswith("quantization=") for argument in arguments)
    chain.is_sure = is_tunixs(porting, path)
    if not chain.is_sure and not (chain.is_quantised and may_be_tunixs(porting, path)):
        return False
    function = porting.rt("load_model" if is_base(porting, path) else "load_trained")
    new = f"{function}({arguments[0]}, {', '.join([porting.names.mesh, *arguments[1:]])})"
    whole, rest = _without_places(porting, call)
    chain.is_cast |= CASTS.search(module.code(whole)[len(module.code(call)) :]) is not None
    chain.edits.append((module.span(call)[0], module.span(whole)[1], new))
    return rest and _held(porting, whole, chain, merged=False)


def _load_pair(porting: Porting, call: cst.Call, chain: _Chain) -> bool:
    """Unsloth's `model, tokenizer = FastLanguageModel.from_pretrained(path)` → a line for each."""
    module = porting.module
    arguments, path, line = arguments_of_unsloth(porting, call), path_of_unsloth(call), module.parents[call]
    if arguments is None or path is None or not isinstance(line, cst.Assign) or len(line.targets) != 1:
        return False
    target = line.targets[0].target
    names = [element.value for element in target.elements] if isinstance(target, cst.Tuple) else []
    if len(names) != 2 or not all(isinstance(name, cst.Name) for name in names) or not is_tunixs(porting, path):
        return False
    chain.is_quantised = True  # Unsloth ends on a machine without a GPU, whatever is done with it
    model, tokenizer = (module.code(name) for name in names)
    space = indentation(module.text, module.span(line)[0])
    new = f"{model} = {porting.rt('load_trained')}({arguments[0]}, {', '.join([porting.names.mesh, *arguments[1:]])})"
    new += f"\n{space}{tokenizer} = {reloaded_tokenizer(porting, path)}"
    chain.edits.append((*module.span(line), new))
    return _held(porting, call, chain, merged=False)


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
    outer = module.parents[parent]
    if isinstance(parent, cst.Arg) and isinstance(outer, cst.Call) and module.qualified(outer.func) in ADAPTER:
        made = chain.edits.pop()[2] if chain.edits and chain.edits[-1][:2] == module.span(call) else ""
        return bool(made) and not merged and _adapter(porting, call, made, outer, chain)
    if isinstance(parent, cst.Return):
        return _given_back(porting, parent, None, chain, merged=merged)
    if isinstance(parent, cst.Attribute):  # .merge_and_unload() on the spot
        begin = next((start for start, end, _ in reversed(chain.edits) if end == module.span(call)[1]), None)
        if not isinstance(outer, cst.Call) or begin is None:
            return False
        chain.edits.append((begin, begin, f"{porting.rt(MERGE)}("))
        chain.edits.append((module.span(call)[1], module.span(outer)[1], ")"))
        return _held(porting, outer, chain, merged=True)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return False
    target: cst.BaseExpression = parent.targets[0].target
    if module.qualified(call.func) in (*facts_of(module).gives_back_pair, *LOADS):  # it gives (model, tokenizer)
        pair = target.elements if isinstance(target, cst.Tuple) else ()
        target = pair[0].value if len(pair) == 2 else target
    return _followed(porting, call, parent, target, chain, merged=merged)


def _given_back(porting: Porting, line: cst.Return, index: int | None, chain: _Chain, *, merged: bool) -> bool:
    """Follows what a function gives back, of a tuple the part `index`, into the variables of all its calls."""
    module = porting.module
    function = function_around(module, line)
    if function is None or function in chain.functions or len(returned(module, function)) != 1:
        return False
    chain.functions.append(function)
    uses = [use for use in module.references(function.name.value, module.scope(function)) if use is not function.name]
    calls = calls_of(module, function)
    if not calls or len(uses) > len(calls):
        return False
    return all(_given_to(porting, call, index, chain, merged=merged) for call in calls)


def _given_to(porting: Porting, call: cst.Call, index: int | None, chain: _Chain, *, merged: bool) -> bool:
    """The same for one of the calls."""
    if index is None:
        return _held(porting, call, chain, merged=merged)
    line = porting.module.parents[call]
    target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
    parts = target.elements if isinstance(target, cst.Tuple) else ()
    if not isinstance(line, cst.Assign) or index >= len(parts):
        return False
    return _followed(porting, call, line, parts[index].value, chain, merged=merged)


def _followed(
    porting: Porting, call: cst.Call, parent: cst.Assign, target: cst.BaseExpression, chain: _Chain, *, merged: bool
) -> bool:
    """Whether all uses of a variable, from the line that gives it the model on, are known."""
    module = porting.module
    scope = module.scope(call)
    if not isinstance(target, cst.Name) or function_around(module, call) is not function_around(module, parent):
        return False
    found = scope.lookup(target.value)
    if found is None:
        return False
    later = [module.span(b.node)[0] for b in found[1] if module.span(b.node)[0] > module.span(parent)[0]]
    stop = min(later, default=len(module.text))
    again: cst.CSTNode | None = next((b.node for b in found[1] if module.span(b.node)[0] == stop), None)
    again = again.iter if isinstance(again, cst.For) else again  # its body has the variable of the loop
    loops, begin = module.loops(call), module.span(parent)[0]
    for use in module.references(target.value, found[0]):
        if loops & module.loops(use) and module.span(use)[0] < begin:  # it holds the model of the time before
            return False
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
        if name in ATTRIBUTES or name == "generate" or (merged and name in OF_MERGED):
            chain.generates |= name == "generate"
            chain.is_saved |= name in OF_MERGED
            chain.kept += [use] if name in OF_MERGED else []
            if name in ATTRIBUTES:
                _read_place(porting, parent, use.value, chain)
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
            chain.is_cast |= CASTS.match(module.code(outer)[len(use.value) :]) is not None
            if isinstance(around, cst.Expr):
                chain.removed.append(outer)
                return True
            return False
        if name == MERGE and not merged and isinstance(module.parents[outer], cst.Expr):
            chain.removed.append(outer)  # merged in place: the same tokens
            return True
        rule = member_rules(porting).get(f"@model.{name}()")
        if isinstance(rule, Rewrite) and rule.action == "replace" and not merged:
            chain.rewrites.append((rule, outer, use.value))
            return True
        if name == MERGE and not merged:
            chain.edits.append((*module.span(outer), f"{porting.rt(MERGE)}({use.value})"))
            return _held(porting, outer, chain, merged=True)
        return False
    if isinstance(parent, cst.Comparison) and parent.left is use and _is_none_test(parent):
        return True
    if isinstance(parent, cst.Return):
        return _given_back(porting, parent, None, chain, merged=merged)
    if isinstance(outer, cst.Tuple) and isinstance(line := module.parents[outer], cst.Return):
        place = next(index for index, each in enumerate(outer.elements) if each is parent)
        return _given_back(porting, line, place, chain, merged=merged)
    if isinstance(parent, cst.Call) and parent.func is use and is_known_call(porting, parent):
        chain.generates = True
        chain.uses.append(use)
        return True
    if isinstance(outer, cst.Call) and isinstance(parent, cst.Arg):
        called = module.qualified(outer.func)
        if called in READIES:
            return _readied(porting, use, outer, chain, merged=merged)
        if called == "transformers.pipeline":
            chain.generates = True
            chain.uses.append(use)
            return True
        if called in ADAPTER and not merged:
            return _adapter(porting, use, use.value, outer, chain)
        if called in facts_of(module).gives_back_pair and not merged and _is_model_of(outer, parent):
            chain.is_formatted = True
            return _held(porting, outer, chain, merged=False)
        parameter = parameter_of(module, parent, outer)
        if parameter is not None:
            function = module.callees[outer]
            uses = module.references(parameter, module.scopes[function])
            apart = not takes_torchs(porting, function, parameter, chain.edits)
            return apart and all(isinstance(n, cst.Name) and _use(porting, n, chain, merged) for n in uses)
    return isinstance(parent, cst.Del) or isinstance(module.parents[outer], cst.Del)


def _is_none_test(node: cst.Comparison) -> bool:
    """`model is not None`, which is so of the port's as well."""
    only = node.comparisons[0]
    none = isinstance(only.comparator, cst.Name) and only.comparator.value == "None"
    return len(node.comparisons) == 1 and none and isinstance(only.operator, cst.Is | cst.IsNot)


def _readied(porting: Porting, use: cst.Name, call: cst.Call, chain: _Chain, *, merged: bool) -> bool:
    """`for_inference(tuned)` goes; `model = for_inference(tuned)` is `model = tuned`."""
    module = porting.module
    holder = module.parents[call]
    if isinstance(holder, cst.Expr):
        chain.removed.append(call)
        return True
    target = holder.targets[0].target if isinstance(holder, cst.Assign) else None
    if isinstance(target, cst.Name) and target.value == use.value:
        chain.removed.append(call)
    else:
        chain.edits.append((*module.span(call), use.value))
    return _held(porting, call, chain, merged=merged)


def _read_place(porting: Porting, read: cst.Attribute, model: str, chain: _Chain) -> None:
    """What stands for the `device` or `dtype` of a model of torch's: in a line of output what the port has, elsewhere
    the host, where what is made in torch goes, if it stays."""
    module = porting.module
    outer = module.parents[read]
    if is_shown(porting, read):
        new, imports = shown_value(read.attr.value, model)
        chain.imports.update(imports)
        chain.edits.append((*module.span(read), new))
    elif read.attr.value != "device":
        return
    elif isinstance(outer, cst.Attribute) and outer.attr.value == "type":
        chain.imports.add("import jax")
        chain.edits.append((*module.span(outer), "jax.devices()[0].platform"))
    elif isinstance(outer, cst.Assign | cst.Comparison | cst.ComparisonTarget) or _goes_to_function(porting, outer):
        chain.edits.append((*module.span(read), '"cpu"'))


def _goes_to_function(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a node is an argument of a function of the file."""
    call = porting.module.parents[node]
    return isinstance(node, cst.Arg) and isinstance(call, cst.Call) and call in porting.module.callees


def _is_model_of(call: cst.Call, argument: cst.Arg) -> bool:
    return argument.keyword.value == "model" if argument.keyword is not None else argument is call.args[0]


def _adapter(porting: Porting, use: cst.BaseExpression, base: str, call: cst.Call, chain: _Chain) -> bool:
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
        elif name and name not in IDLE and not is_off(porting, argument.value):
            return False
    if set(given) != {"model", "model_id"} or given["model"] is not use:
        return False
    whole, rest = _without_places(porting, call)
    chain.is_cast |= CASTS.search(module.code(whole)[len(module.code(call)) :]) is not None
    words = [base, module.code(given["model_id"]), porting.names.mesh, *kept]
    chain.edits.append(
        (module.span(call)[0], module.span(whole)[1], f"{porting.rt('apply_adapter')}({', '.join(words)})")
    )
    return rest and _held(porting, whole, chain, merged=False)
