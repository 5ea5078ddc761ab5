"""model.generate(...) of the model that is trained → `rt.generate(model, ...)`.

What it does: keeps the call's inputs and settings. From the tokenizer on, the token ids are NumPy's
(`return_tensors="np"`, no `.to("cuda")`); `with torch.no_grad():` around the call becomes `with mesh:`; settings
without effect on a TPU go. Behind training `tokenizer=` is added: the Trainer aligns the model's end token with it.
The model called by itself, `model(**inputs, labels=ids)`, is `rt.causal_lm_output(model, **inputs, labels=ids)`, which
gives its loss and logits as torch's tensors on the host; an error where a gradient is taken of them.
Why: Tunix's model has no generate(), and Tunix's own sampler stops at other tokens and leaves the end token out.
Example: `model.generate(**tokenizer(text, return_tensors="pt").to("cuda"), max_new_tokens=64, use_cache=True)`
Use instead: `rt.generate(model, **tokenizer(text, return_tensors="np"), max_new_tokens=64, tokenizer=tokenizer)`
Safety: greedy tokens are transformers' up to rounding, sampled ones come from other random numbers. Beams, stopping
criteria and other settings without a counterpart are findings by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import function_around, line_end, line_start, shortened
from porter.packs.training import in_reach, is_given_another
from porter.packs.writing import read_site, settle_inputs, settle_outputs

from ._dictionaries_as_ids import say_dictionaries
from ._generation import (
    INPUTS,
    Model,
    made_by_port,
    release_of_generation,
    runs,
    say_torchs,
    settle_keywords,
    trained,
)
from ._reload_places import has_mesh_at

ID = "TP311"
FILLS_UNSET = "5.0.0"  # the first transformers that fills any GenerationConfig with the checkpoint's settings
OF_GRADIENTS = re.compile(r":[ \t]*#[^\n]*\bgrad[^\n]*", re.IGNORECASE)  # what a comment behind a guard says of it
GUARDS = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autocast", "torch.amp.autocast"})
CUDA_AUTOCAST = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
PARAMETERS = (
    "inputs", "generation_config", "logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "synced_gpus",
    "assistant_model", "streamer", "negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate",
)  # fmt: skip


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",), fills=("claimed uses",))
def apply_generation(porting: Porting) -> None:
    """Calls of generate over the model that this trainer trains, and over those that the port loads again."""
    module = porting.module
    if "generate(" not in module.text:
        return
    for model in trained(porting):
        parent = module.parents[model.node]
        call = module.parents.get(parent)
        if porting.covered(module.span(model.node)[0]) or not isinstance(call, cst.Call):
            continue
        if isinstance(parent, cst.Attribute) and call.func is parent and parent.attr.value == "generate":
            _port_generate(porting, call, model)
    for call in module.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "generate":
            continue
        if porting.covered(module.span(call)[0]):
            continue
        made = made_by_port(porting, func.value)
        if made:
            _port_generate(porting, call, Model(func.value, module.code(func.value), trained=True))
        elif made is False or is_given_another(porting, func.value):
            say_torchs(porting, call)


def _port_generate(porting: Porting, call: cst.Call, model: Model) -> None:
    module = porting.module
    site = read_site(module, call, "model", ID, "transformers.generate", PARAMETERS)
    dropped = settle_keywords(porting, site, "generate")
    porting.edit(*module.span(call.func), porting.rt("generate"), ID, "the same tokens from Tunix's model")
    arguments = list(call.args)
    kept = [arg for arg in arguments if arg not in dropped]
    ends = [*_tokenizer(porting, call, model)]
    if site.argument("generation_config") is not None:
        ends += release_of_generation(porting, FILLS_UNSET)
    ends = [", ".join(ends)] if ends else []
    first = arguments[0] if arguments else None
    if first is None:
        porting.edit(module.span(call)[1] - 1, module.span(call)[1] - 1, ", ".join([model.text, *ends]), ID, "")
        return
    begin, separator = module.span(first)[0], _separator(porting, call, first)
    instead = arguments[-1] if ends and arguments[-1] in dropped else None  # the end token's tokenizer takes its place
    start = f"{model.text},{separator}" if kept or instead is not None else model.text
    porting.edit(begin, begin, start, ID, "the model is an argument")
    for argument in arguments:
        if argument in dropped and argument is not instead:
            _drop(porting, arguments, argument, bool(kept))
    if instead is not None:
        value = instead.value if instead.keyword is None else instead.keyword
        porting.edit(module.span(value)[0], module.span(instead.value)[1], ends[0], ID, "its end token counts")
    elif ends:
        last = module.span(arguments[-1])[1]
        porting.edit(last, last, f",{_separator(porting, call, arguments[-1])}{ends[0]}", ID, "its end token counts")
    for argument in kept:
        if argument.keyword is None or argument.keyword.value in INPUTS[:3]:
            say_dictionaries(porting, call, settle_inputs(porting, argument.value, ID, ids=argument.star != "**"))
    settle_outputs(porting, call, ID)
    _settle_guards(porting, call)


def _tokenizer(porting: Porting, call: cst.Call, model: Model) -> Iterator[str]:
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
    if own and "before" in runs(porting, function_around(porting.module, call)):
        message = (
            f"{shortened(porting.module.code(call.func))}(...) also runs before the training, where {name} isn't made: "
            f"it ends at the model's own end token."
        )
        fix = f"Give rt.generate tokenizer={name} behind the training if its end token isn't the model's."
        porting.find(ID, "warning", message, fix, *porting.module.location(call))
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
    porting.edit(start, end, "", ID, "it changes nothing here")


def _settle_guards(porting: Porting, call: cst.Call) -> None:
    """`with torch.no_grad():` around the call is `with mesh:`; a decorator of that name goes."""
    module = porting.module
    for node in module.ancestors(call):
        if isinstance(node, cst.With):
            guards = [item for item in node.items if _is_guard(porting, item.item)]
            if guards and not porting.covered(module.span(node.items[0].item)[0]):
                _settle_with(porting, node, guards)
        elif isinstance(node, cst.FunctionDef):
            for decorator in node.decorators:
                if _is_guard(porting, decorator.decorator):
                    start, end = module.span(decorator)
                    begin, stop = line_start(module.text, start), line_end(module.text, end)
                    porting.edit(begin, stop, "", ID, "JAX keeps no gradients")
            return


def _settle_with(porting: Porting, node: cst.With, guards: list[cst.WithItem]) -> None:
    """The mesh in the place of the first of its guards, where it is known there; the others go."""
    module, reason, instead = porting.module, "JAX keeps no gradients unless it is asked for them", porting.names.mesh
    start, end = module.span(node.items[0].item)[0], module.span(node.items[-1])[1]
    has_mesh = has_mesh_at(porting, node)
    if len(guards) == len(node.items):
        if not has_mesh:
            porting.imports.add("import contextlib")
        new = instead if has_mesh else "contextlib.nullcontext()"
        if (said := OF_GRADIENTS.match(module.text, end)) is not None:
            end, new = said.end(), f"{new}:"
        porting.edit(start, end, new, ID, reason)
        return
    for one, run in groupby(enumerate(node.items), key=lambda item: item[1] in guards):
        places = [place for place, _ in run]
        first, last, begin = node.items[places[0]], node.items[places[-1]], places[-1] + 1
        if not one:
            continue
        start, end = module.span(first.item)[0], module.span(last.asname or last.item)[1]
        if has_mesh and guards[0] is first:
            porting.edit(start, end, instead, ID, reason)
        elif begin < len(node.items):
            porting.edit(start, module.span(node.items[begin].item)[0], "", ID, reason)
        else:
            before = node.items[places[0] - 1]
            porting.edit(module.span(before.asname or before.item)[1], end, "", ID, reason)


def _is_guard(porting: Porting, node: cst.BaseExpression) -> bool:
    name = porting.module.qualified(node.func if isinstance(node, cst.Call) else node)
    return name in GUARDS or name in CUDA_AUTOCAST
