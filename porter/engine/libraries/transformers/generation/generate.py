"""`model.generate(...)` and `pipeline("text-generation", model=model)` of the model that is trained.

    with torch.no_grad():
        outputs = model.generate(**inputs, max_new_tokens=64)

becomes `rt.generate(model, **inputs, max_new_tokens=64)` below `with mesh:`; the token ids are NumPy's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from .....recipe import Field
from .....runtime.facts.generation_settings import DEFAULTS, IDLE, PIPELINE_SETTINGS, REFUSED, asks_nothing
from .....source.calls import argument_of, calls_of, function_around
from .....source.values import Unknown, evaluate
from .....text.edits import line_end, line_start
from ....receipts.marking import mark_of, stays
from ....script.flow import binding_origins, held_by, unwraps
from ....script.porting import Porting
from ....script.sites import Argument, Site, read_site, shortened, shown
from ....script.trainers import is_another
from ....script.training import in_reach
from ....script.uses_of_training import Use, is_in_reach, role_uses
from ....steps.step import Phase, step
from ....tokens.numpy_tokens import settle_inputs, settle_outputs
from ....tokens.tokenizers import tokenizer_load
from .reload_arguments import QUANTISES, is_tunixs, quantization_of
from .reloaded_model import has_mesh_of_file, port_reloaded

RULE = "TP311"
PIPELINE = "TP313"
MAX_CALLS = 8  # functions that call each other
GUARDS = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autocast", "torch.amp.autocast"})
CUDA_AUTOCAST = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
# What a call hands on as it is, beside the settings.
INPUTS = ("inputs", "input_ids", "attention_mask", "streamer", "generation_config")
POSITIONAL = (
    "inputs", "generation_config", "logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "synced_gpus",
    "assistant_model", "streamer", "negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate",
)  # fmt: skip
# Keywords of `pipeline` that say where and how torch's model lies.
PLACES = {
    "device": "the model lies on the mesh",
    "device_map": "the model lies on the mesh",
    "dtype": "the model has its type",
    "torch_dtype": "the model has its type",
    "framework": "the model is Tunix's",
    "model_kwargs": "the model is loaded already",
    "trust_remote_code": "no code is loaded",
    "use_fast": "the tokenizer is loaded already",
    "token": "nothing is fetched",
    "revision": "nothing is fetched",
    "num_workers": "the prompts are tokenised in the script's process",
}
TASK = "text-generation"
MAKES = re.compile(r"\b(load_model|apply_peft|apply_lora|apply_adapter)\(")
LOADERS = ("transformers.AutoModel", "peft.PeftModel", "peft.AutoPeftModel")


@dataclass(frozen=True)
class _Model:
    """A name of the trained model where it is used, what the port writes for it, and whether training is over."""

    node: cst.BaseExpression
    text: str
    trained: bool


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def apply_generation(porting: Porting) -> None:
    """Calls of generate and text-generation pipelines over the model that this trainer trains."""
    if not any(word in porting.module.text for word in ("generate(", "pipeline(", "setup_chat_format(", *QUANTISES)):
        return
    again = [_Model(name, name.value, trained=False) for name in port_reloaded(porting)]
    for model in [*again, *_models(porting)]:
        parent = porting.module.parents[model.node]
        call = porting.module.parents.get(parent)
        if porting.covered(porting.module.span(model.node)[0]) or not isinstance(call, cst.Call):
            continue
        if isinstance(parent, cst.Attribute) and call.func is parent and parent.attr.value == "generate":
            _port_generate(porting, call, model)
        elif isinstance(parent, cst.Arg) and porting.module.qualified(call.func) == "transformers.pipeline":
            _port_pipeline(porting, call, model)
    _answer_others(porting)


def _models(porting: Porting) -> Iterator[_Model]:
    """Every place where the trained model stands, `trainer.model` and what merge_and_unload gives included."""
    module = porting.module
    for use in list(role_uses(porting)):
        node: cst.BaseExpression = use.name
        if use.role == "trainer":
            attribute = module.parents[node]
            if not isinstance(attribute, cst.Attribute) or attribute.attr.value != "model":
                continue
            node = attribute
        elif (isinstance(node, cst.Call) and not unwraps(node)) or _may_be_another(porting, node):
            continue
        model = _Model(node, *_written(porting, use, node))
        yield model
        merged = module.parents[node]
        call = module.parents.get(merged)
        if isinstance(merged, cst.Attribute) and merged.attr.value == "merge_and_unload" and isinstance(call, cst.Call):
            for place in held_by(module, call):
                for name in module.references(place.variable, place.scope):
                    if module.span(name)[0] > module.span(call)[0]:
                        yield _Model(name, module.code(name), True)


def _may_be_another(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a parameter is also given a model that was loaded anew behind the training, be it by a function that is
    given it."""
    found = porting.module.meaning(node)
    for binding in found[1] if found is not None else ():
        if binding.kind != "parameter" or not isinstance(binding.node, cst.Param):
            continue
        function = next((n for n in porting.module.ancestors(binding.node) if isinstance(n, cst.FunctionDef)), None)
        for call in calls_of(porting.module, function) if function is not None else ():
            given = argument_of(porting.module, call, binding.node.name.value)
            if not isinstance(given, cst.Name):
                continue
            if is_another(porting, given) or (depth < MAX_CALLS and _may_be_another(porting, given, depth + 1)):
                return True
    return False


def _answer_others(porting: Porting) -> None:
    """Models bound anew: those that the port makes generate there, too; torch's do so on the host, with a warning."""
    module = porting.module
    for call in module.calls:
        if porting.covered(module.span(call)[0]):
            continue
        model: cst.BaseExpression | None = None
        generates = isinstance(call.func, cst.Attribute) and call.func.attr.value == "generate"
        if isinstance(call.func, cst.Attribute) and generates:
            model = call.func.value
        elif module.qualified(call.func) == "transformers.pipeline" and TASK in module.code(call):
            named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "model"]
            model = named[0] if named else None
        made = _made_by_port(porting, model) if model is not None else None
        if model is not None and made:
            port = _port_generate if generates else _port_pipeline
            port(porting, call, _Model(model, module.code(model), trained=True))
        elif model is not None and made is False and not generates and _can_load(porting, call, model):
            words = [module.code(model), porting.names.mesh, *_quantised(porting, call)]
            new = f"{porting.rt('load_trained')}({', '.join(words)})"
            _port_pipeline(porting, call, _Model(model, new, trained=True))
        elif model is not None and made is False:
            message = f"{shortened(module.code(call.func))}(...): this model is torch's, and generates on the host."
            fix = "For a TPU, load it with rt.load_model (and rt.apply_adapter), and use rt.generate."
            porting.find(RULE, "warning", message, fix, *module.location(call))


def _can_load(porting: Porting, call: cst.Call, model: cst.BaseExpression) -> bool:
    """Whether a pipeline is given a model's name where the mesh is known."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    behind = porting.model is not None and porting.model.start < module.span(call)[0]
    return (
        behind
        and _is_text(porting, model)
        and is_tunixs(porting, model)
        and in_reach(trainer.scope, module.scope(call))
    )


def _quantised(porting: Porting, call: cst.Call) -> list[str]:
    """`quantization=` of a pipeline's `model_kwargs={"load_in_4bit": True}`."""
    given = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "model_kwargs"]
    items = [item for value in given if isinstance(value, cst.Dict) for item in value.elements]
    asked = {
        porting.module.code(item.key).strip("\"'"): item.value for item in items if isinstance(item, cst.DictElement)
    }
    found = [quantization_of(porting, name, asked[name]) for name in QUANTISES if name in asked]
    return [f"quantization={one}" for one in found if one][:1]


def _is_text(porting: Porting, node: cst.BaseExpression) -> bool:
    try:
        return isinstance(evaluate(porting.module, node), str)
    except Unknown:
        return False


def _made_by_port(porting: Porting, model: cst.BaseExpression) -> bool | None:
    """Whether a model is made by new code, or (False) loaded by transformers or PEFT, or named for them to load."""
    module = porting.module
    if _is_text(porting, model):
        return False
    found = module.meaning(model) if isinstance(model, cst.Name) else None
    bindings = [b for b in found[1] if module.span(b.node)[0] < module.span(model)[0]] if found is not None else []
    for value in (value for binding in reversed(bindings) for value in binding_origins(module, binding)):
        start = module.span(value)[0]
        if any(edit.start <= start < edit.end and MAKES.search(edit.new) for edit in porting.edits):
            return True
        name = module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and name.endswith(".from_pretrained") and name.startswith(LOADERS):
            return False
    return None


def _written(porting: Porting, use: Use, node: cst.BaseExpression) -> tuple[str, bool]:
    """What the port calls the model where it is used, and whether training is over there."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    function = function_around(module, node)
    here = function is function_around(module, trainer.node)
    before = module.span(node)[0] < trainer.start if here else _runs(porting, function) == {"before"}
    if isinstance(node, cst.Call):  # accelerator.unwrap_model(model)
        node = node.args[0].value
    if use.role == "trainer" and is_in_reach(porting, use.name):
        return porting.names.model, True
    if before or use.role == "trainer" or not is_in_reach(porting, use.name):
        return module.code(node), not before
    return porting.names.model, True


def _runs(porting: Porting, function: cst.FunctionDef | None, depth: int = 0) -> set[str]:
    """When the calls of a function run that the trainer's function makes: "before" the trainer, "behind" it."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    found: set[str] = set()
    for call in calls_of(module, function) if function is not None and depth < MAX_CALLS else ():
        outer = function_around(module, call)
        if outer is function_around(module, trainer.node):
            found.add("before" if module.span(call)[0] < trainer.start and not module.loops(call) else "behind")
        elif outer is not function:
            found |= _runs(porting, outer, depth + 1)
    return found


def _port_generate(porting: Porting, call: cst.Call, model: _Model) -> None:
    module = porting.module
    site = read_site(module, call, "model", RULE, "transformers.generate", POSITIONAL)
    dropped = _settle_keywords(porting, site, "generate")
    porting.edit(*module.span(call.func), porting.rt("generate"), RULE, "the same tokens from Tunix's model")
    arguments = list(call.args)
    kept = [arg for arg in arguments if arg not in dropped]
    ends = [*_tokenizer(porting, call, model)]
    first = arguments[0] if arguments else None
    if first is None:
        porting.edit(module.span(call)[1] - 1, module.span(call)[1] - 1, ", ".join([model.text, *ends]), RULE, "")
        return
    begin, separator = module.span(first)[0], _separator(porting, call, first)
    instead = arguments[-1] if ends and arguments[-1] in dropped else None  # the end token's tokenizer takes its place
    start = f"{model.text},{separator}" if kept or instead is not None else model.text
    porting.edit(begin, begin, start, RULE, "the model is an argument")
    for argument in arguments:
        if argument in dropped and argument is not instead:
            _drop(porting, arguments, argument, bool(kept))
    if instead is not None:
        value = instead.value if instead.keyword is None else instead.keyword
        porting.edit(module.span(value)[0], module.span(instead.value)[1], ends[0], RULE, "its end token counts")
    elif ends:
        last = module.span(arguments[-1])[1]
        porting.edit(last, last, f",{_separator(porting, call, arguments[-1])}{ends[0]}", RULE, "its end token counts")
    for argument in kept:
        if argument.keyword is None or argument.keyword.value in INPUTS[:3]:
            settle_inputs(porting, argument.value, RULE, ids=argument.star != "**")
    settle_outputs(porting, call, RULE)
    _settle_guards(porting, call)


def _settle_keywords(porting: Porting, site: Site, method: str, inputs: tuple[str, ...] = INPUTS) -> list[cst.Arg]:
    """A fate for every keyword of the call; the arguments that go."""
    call = site.node
    assert isinstance(call, cst.Call)
    target = "rt.generate" if method == "generate" else "rt.TextGenerationPipeline"
    dropped: list[cst.Arg] = []
    for argument in site.arguments:
        name = argument.name
        own = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)
        place = argument.line, argument.column
        row = Field(f"{method}.{name}", shown(argument.text), "exact", target, "", site.rule, *place)
        if name in REFUSED:
            if _asks_nothing(porting, argument):
                row = Field(row.source, row.value, "dropped", "", "it is off", site.rule, *place)
                dropped += [own] if own is not None else []
            else:
                reason = REFUSED[name][1]
                row = Field(row.source, row.value, "manual", "", reason, site.rule, *place)
                message = f"{method}({name}={shown(argument.text)}): {reason}."
                fix = "Leave it out, or generate in a script of its own from what this one saves."
                porting.find(site.rule, "error", message, fix, *place)
        elif name == "tokenizer":
            row = Field(row.source, row.value, "exact", f"{target}(tokenizer=)", "", site.rule, *place)
        elif name in IDLE:
            row = Field(row.source, row.value, "dropped", "", IDLE[name], site.rule, *place)
            if own is not None:
                dropped.append(own)
        elif name == "streamer":
            reason = "the text comes when all of it is there"
            row = Field(row.source, row.value, "changed", f"{target}(streamer=)", reason, site.rule, *place)
        elif name not in DEFAULTS and name not in inputs:
            reason = "the port's generate knows no such setting"
            row = Field(row.source, row.value, "manual", "", reason, site.rule, *place)
            message = f"{method}({name}={shown(argument.text)}): {reason}."
            porting.find(site.rule, "error", message, "Leave it out if it is the model's own.", *place)
        porting.fate(row)
    stays(porting, site.arguments)
    return dropped


def _asks_nothing(porting: Porting, argument: Argument) -> bool:
    try:
        value = evaluate(porting.module, argument.node) if argument.node is not None else None
    except Unknown:
        return False
    return asks_nothing(argument.name, value)


def _tokenizer(porting: Porting, call: cst.Call, model: _Model) -> Iterator[str]:
    """`tokenizer=tokenizer` behind training, with whose end token the Trainer has aligned the model."""
    name = porting.names.tokenizer
    given = any(arg.keyword is not None and arg.keyword.value == "tokenizer" for arg in call.args)
    trainer = porting.trainer
    assert trainer is not None
    if not model.trained or given or not name.replace(".", "").isidentifier():
        return
    here, first = porting.module.scope(call), name.partition(".")[0]
    found, known = here.lookup(first), trainer.scope.lookup(first)
    same = found is not None and known is not None and found[0] is known[0]
    own = found is None and known is None and in_reach(trainer.scope, here)  # the port makes it at the trainer
    parameter = found is not None and found[0] is here and found[1][0].kind == "parameter"
    if own and "before" in _runs(porting, function_around(porting.module, call)):
        message = (
            f"{shortened(porting.module.code(call.func))}(...) also runs before the training, where {name} isn't made: "
            f"it ends at the model's own end token."
        )
        fix = f"Give rt.generate tokenizer={name} behind the training if its end token isn't the model's."
        porting.find(RULE, "warning", message, fix, *porting.module.location(call))
        return
    if same or own or parameter:
        yield f"tokenizer={name}"


def _separator(porting: Porting, call: cst.Call, argument: cst.Arg) -> str:
    """What stands between arguments: a space, or a line of its own where `argument` has one."""
    text, start = porting.module.text, porting.module.span(argument)[0]
    begin = line_start(text, start)
    space = text[begin:start]
    return f"\n{space}" if begin > porting.module.span(call)[0] and not space.strip() else " "


def _drop(porting: Porting, arguments: list[cst.Arg], argument: cst.Arg, others: bool) -> None:
    """Take an argument out of its call, with the comma that parted it."""
    module, place = porting.module, arguments.index(argument)
    start, end = module.span(argument)
    if place + 1 < len(arguments):
        following = module.span(arguments[place + 1])[0]
        between = module.text[end:following]
        end = following if "#" not in between else end
    if end == module.span(argument)[1] and place > 0:
        before = module.span(arguments[place - 1])[1]
        if "#" not in module.text[before:start]:
            start = before
    if (start, end) == module.span(argument) and (comma := re.match(r"\s*,", module.text[end:])) is not None:
        end += comma.end()  # comments stand on both sides, and stay
    porting.edit(start, end, "", RULE, "it changes nothing here")


def _settle_guards(porting: Porting, call: cst.Call) -> None:
    """`with torch.no_grad():` around the call is `with mesh:`; a decorator of that name goes."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    for node in module.ancestors(call):
        if isinstance(node, cst.With):
            guards = [item for item in node.items if _is_guard(porting, item.item)]
            start, end = module.span(node.items[0].item)[0], module.span(node.items[-1])[1]
            if guards and not porting.covered(start):
                kept = [module.code(item) for item in node.items if item not in guards]
                reachable = in_reach(trainer.scope, module.scope(call)) or has_mesh_of_file(porting)
                if not reachable and not kept:
                    porting.imports.add("import contextlib")
                instead = [porting.names.mesh] if reachable else [] if kept else ["contextlib.nullcontext()"]
                new = ", ".join(part.rstrip(", ") for part in [*instead, *kept])
                porting.edit(start, end, new, RULE, "JAX keeps no gradients unless it is asked for them")
        elif isinstance(node, cst.FunctionDef):
            for decorator in node.decorators:
                if _is_guard(porting, decorator.decorator):
                    start, end = module.span(decorator)
                    begin, stop = line_start(module.text, start), line_end(module.text, end)
                    porting.edit(begin, stop, "", RULE, "JAX keeps no gradients")
            return


def _is_guard(porting: Porting, node: cst.BaseExpression) -> bool:
    name = porting.module.qualified(node.func if isinstance(node, cst.Call) else node)
    return name in GUARDS or name in CUDA_AUTOCAST


def _port_pipeline(porting: Porting, call: cst.Call, model: _Model) -> None:
    """`pipeline("text-generation", model=model, ...)` → `rt.TextGenerationPipeline(model, ...)`."""
    module = porting.module
    site = read_site(module, call, "model", PIPELINE, "transformers.pipeline", ("task", "model", "config", "tokenizer"))
    task, tokenizer = site.argument("task"), site.argument("tokenizer")
    if task is not None and not task.value.is_literal(TASK):
        message = f"pipeline({task.text}): the port has {TASK} pipelines only."
        porting.find(PIPELINE, "error", message, "Run it in a script of its own.", site.line, site.column)
        return
    name = tokenizer.text if tokenizer is not None else porting.names.tokenizer
    if tokenizer is None and _is_text(porting, model.node):
        name = tokenizer_load(porting, module.code(model.node))
    if not name:
        message = "pipeline(...): the tokenizer of this pipeline isn't named."
        porting.find(PIPELINE, "error", message, "Give it tokenizer=, and port again.", site.line, site.column)
        return
    _settle_keywords(porting, site, "pipeline", (*INPUTS, "task", "model", "tokenizer", *PLACES, *PIPELINE_SETTINGS))
    kept = []
    for argument in site.arguments:
        if argument.name in PLACES:
            reason = PLACES[argument.name]
            place = argument.line, argument.column
            porting.fate(Field(f"pipeline.{argument.name}", argument.text, "dropped", "", reason, PIPELINE, *place))
        elif argument.name not in ("task", "model", "tokenizer", *IDLE):
            kept.append(f"{argument.name}={argument.text}")
    if site.unknown_keywords:
        kept.append(site.unknown_keywords)
    marks = mark_of(porting, site.arguments)
    new = f"{marks}{porting.rt('TextGenerationPipeline')}({', '.join([model.text, name, *kept])})"
    porting.edit(*module.span(call), new, PIPELINE, "transformers' pipeline over Tunix's model")
    for holder in held_by(module, call):
        for use in module.references(holder.variable, holder.scope):
            made = module.parents[use]
            if isinstance(made, cst.Call) and made.func is use:
                called = read_site(module, made, "model", PIPELINE, "transformers.pipeline", ("text_inputs",))
                _settle_keywords(
                    porting, called, "pipeline", (*INPUTS, "text_inputs", "max_length", *PIPELINE_SETTINGS)
                )
