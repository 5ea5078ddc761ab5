"""What a function of the script collects that goes through `model.named_modules()`: followed line by line, never run.

It is followed over the modules that every family's decoder has, once for each answer of a question that only the run
knows (`args.bits == 4`). What isn't understood, or whose answers give other layers, is left to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import libcst as cst

from porter.packs.script import Module, argument_of, calls_of, inside

from ._followed_lines import Asked, Ends, Part, Returns, Unclear, Way, asked_of

# The linear layers of a decoder layer, which every family has by these names.
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ATTENTION = LAYERS[:4]
HEAD = "lm_head"  # a linear of torch's, too, which bitsandbytes never holds
# Where the decoder stands in a causal model, and in a multimodal one; some of its layers.
DECODERS = ("model", "model.language_model")
NUMBERS = (0, 1, 13, 47)
MOST_WAYS = 64  # through a function
NUMBER = re.compile(r"(?<![A-Za-z_\d])\d+(?![A-Za-z_\d])")  # of a layer, in a text


def collected_layers(module: Module, function: cst.FunctionDef) -> tuple[str, ...]:
    """The linear layers, of `LAYERS` and the head, that a function's names mean; () where it isn't known."""
    found = set[tuple[str, ...]]()
    texts = (node.value for node in inside(function.body) if isinstance(node, cst.SimpleString))
    if any(NUMBER.search(text) for text in texts):
        return ()  # layers that are told apart by their numbers, of which `NUMBERS` are four
    try:
        for decoder in DECODERS:
            parts = [*_parts(decoder)]
            found |= {_meant(parts, names) for names in _every_way(module, function, parts)}
    except (Unclear, RecursionError, LookupError, TypeError, ValueError, AttributeError):  # as the script's line does
        return ()
    return found.pop() if len(found) == 1 else ()


def _parts(decoder: str) -> Iterator[Part]:
    """What `model.named_modules()` goes through."""
    yield from (Part(name, "other") for name in ("", "model", decoder, f"{decoder}.layers", f"{decoder}.norm"))
    yield from (Part(f"{decoder}.embed_tokens", "embedding"), Part(HEAD, "head"))
    for number in NUMBERS:
        layer = f"{decoder}.layers.{number}"
        within = ("", ".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm", ".post_attention_layernorm")
        yield from (Part(layer + name, "other") for name in within)
        for name in LAYERS:
            yield Part(f"{layer}.{'self_attn' if name in ATTENTION else 'mlp'}.{name}", "linear")


def _meant(parts: list[Part], names: object) -> tuple[str, ...]:
    """The layers on which PEFT puts adapters: modules whose names are one of `target_modules`, or end in one."""
    if not isinstance(names, set | frozenset | list | tuple):
        raise Unclear
    held = [part for part in parts if any(part.name == name or part.name.endswith(f".{name}") for name in names)]
    layers = tuple(layer for layer in LAYERS if any(part.name.endswith(f".{layer}") for part in held))
    head = (HEAD,) if any(part.name == HEAD for part in held) else ()
    others = any(part.kind not in ("linear", "head") for part in held)
    if others or len(held) != len(layers) * len(NUMBERS) + len(head):
        raise Unclear
    return layers + head


def _every_way(module: Module, function: cst.FunctionDef, parts: list[Part]) -> Iterator[object]:
    """What a function gives, by every answer to what it asks of the run."""
    pending: list[dict[str, bool]] = [{}]
    for ways in range(MOST_WAYS + 1):
        if not pending:
            return
        if ways == MOST_WAYS:
            raise Unclear
        way = Way(module, parts, pending.pop(), _given(module, function))
        try:
            for line in function.body.body:
                way.follow(line)
            raise Unclear
        except Returns as left:
            yield left.value
        except Ends:
            pass
        for place, asked in enumerate(way.asked):
            pending.append({code: said for code, said in way.answers.items() if code not in way.asked[place:]})
            pending[-1][asked] = False


def _given(module: Module, function: cst.FunctionDef) -> dict[str, Any]:
    """What the parameters of a function hold, as far as all of its calls say the same."""
    params, found = function.params, dict[str, Any]()
    for name in (each.name.value for each in (*params.posonly_params, *params.params, *params.kwonly_params)):
        given = [argument_of(module, call, name) for call in calls_of(module, function)]
        values = [asked_of(module, value) if value is not None else Asked(name) for value in given]
        same = bool(values) and all(value == values[0] for value in values)
        found[name] = values[0] if same else Asked(name)
    return found
