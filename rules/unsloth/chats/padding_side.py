"""Which side a tokenizer that Unsloth loads pads on, where the script, or its collator, pads with it or saves it.

What it does: writes `tokenizer.padding_side` behind the load, or where Unsloth sets another side than the script.
Why: Unsloth sets the side whatever the checkpoint and the script say: left as it loads and in for_inference, right in
get_peft_model and for_training, as one of TRL's trainers is made, and where generate ends. The script's own stays in
the port.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, indentation, is_tokenizer, line_end, small_statement, version_key
from porter.packs.training import table_of

from .._release import is_patched

PART_OF = "TP703"

SIDE = "padding_side"
FAST = ("FastLanguageModel", "FastModel")
TO_RIGHT = ("unsloth.FastLanguageModel.get_peft_model", *(f"unsloth.{name}.for_training" for name in FAST))
TO_LEFT = tuple(f"unsloth.{name}.{method}" for name in FAST for method in ("from_pretrained", "for_inference"))
SWITCHES = ("for_training", "for_inference")  # statements that the port has no use for
UNPADDED = ("False", "None", "'do_not_pad'", '"do_not_pad"')
SAVES = ("save_pretrained", "push_to_hub")
# generate ends with for_training, whatever it found; later releases put back what they found.
GENERATES_SINCE, GENERATES_UNTIL = (2025, 3, 4), (2025, 11, 5)
TRAINS_LEFT_SINCE, TRAINS_LEFT_UNTIL = (2025, 9, 8), (2026, 1, 2)  # train() ends with for_inference
LOOPS = (cst.For, cst.While)
MOST = 8  # places that are set in one script

Key = tuple[int, ...]
NOWHERE = frozenset[cst.CSTNode]()


@dataclass(frozen=True)
class _Moment:
    """One place of the run: `kind` is "set" by the script, "turn" by Unsloth, or "use"; `call` what stands there."""

    key: Key
    kind: str
    side: str
    call: cst.CSTNode


@step(Phase.WRITE, of="trainer", reads=("names",), fills=("parts",))
def write_side(porting: Porting) -> None:
    """The side of the first padding, for the statement that loads; where a later one has another, it is set there."""
    if not porting.loaded_by:
        return
    uses = [*_uses(porting)]
    own = [*_own(porting.module)]
    if not uses or any(not each.side for each in own):  # a side that the run decides
        return
    moments = sorted([*own, *_turns(porting), *uses], key=lambda each: each.key)
    settled: dict[cst.CSTNode, str] = {}
    for _ in range(MOST):
        found = _first_difference(porting, moments, settled)
        if found is None:
            return
        turn, use, side = found
        place = next((node for node in (turn, use) if node not in settled and _write(porting, node, use, side)), None)
        if place is None:
            code = _named(porting, use)
            message = f"Unsloth's tokenizer pads on the {side} here, the port's on the other."
            fix = f"Set {code}.{SIDE} in front of it."
            porting.find(PART_OF, "warning", message, fix, *porting.module.location(use))
            return
        settled[place] = side


def _first_difference(
    porting: Porting, moments: list[_Moment], settled: Mapping[cst.CSTNode, str]
) -> tuple[cst.CSTNode, cst.CSTNode, str] | None:
    """The first use for which the port's tokenizer has another side than Unsloth's: what turned it last, the use, and
    Unsloth's side. The side of a first use is written behind the load, where the script sets none before."""
    theirs, ours, last = "left", porting.code.get(SIDE, ""), moments[0].call
    for each in moments:
        if each.kind == "use":
            ours = settled.get(each.call, ours)
            if not ours:
                porting.code[SIDE] = ours = theirs
            if ours != theirs:
                return last, each.call, theirs
            continue
        theirs, last = each.side, each.call
        ours = each.side if each.kind == "set" else settled.get(each.call, ours)
    return None


def _write(porting: Porting, node: cst.CSTNode, use: cst.CSTNode, side: str) -> bool:
    """Whether the port sets the side where Unsloth did, or in front of a use."""
    module, trainer = porting.module, porting.trainer
    if trainer is not None and node is trainer.node:
        if not porting.names.tokenizer or not is_patched(porting, trainer):
            return False
        porting.code[f"{SIDE} of the trainer"] = side
        return True
    statement, place = small_statement(module, node)
    code = _named(porting, use)
    reached = node is use or module.scope(node).node is module.scope(use).node
    if statement is None or place != "line" or not code or not reached:
        return False
    start, end = module.span(statement)
    line = f'{code}.{SIDE} = "{side}"'
    called = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    if called in SWITCHES and node is not use:
        porting.edit(start, end, line, PART_OF, f"as Unsloth's {called} sets it")
    elif called == "generate":
        end, indent = line_end(module.text, end - 1), indentation(module.text, start)
        porting.edit(
            end, end, f"{indent}{line}  # as Unsloth's generate leaves it\n", PART_OF, "batches behind it pad so"
        )
    elif node is use and not porting.covered(start):
        reason = "the side that Unsloth's tokenizer has here"
        porting.edit(start, start, f"{line}\n{indentation(module.text, start)}", PART_OF, reason)
    else:
        return False
    return True


def _named(porting: Porting, use: cst.CSTNode) -> str:
    """The tokenizer that is used somewhere, as code there."""
    module = porting.module
    func = use.func if isinstance(use, cst.Call) else None
    if func is not None and is_tokenizer(module, func):
        return module.code(func)
    if isinstance(func, cst.Attribute) and is_tokenizer(module, func.value):
        return module.code(func.value)
    return porting.names.tokenizer


def _own(module: Module) -> Iterator[_Moment]:
    """Where the script sets a side itself; an empty one where it isn't written there."""
    if SIDE not in module.text:
        return
    for node in module.parents:
        if isinstance(node, cst.Assign) and isinstance(target := node.targets[0].target, cst.Attribute):
            if target.attr.value == SIDE and is_tokenizer(module, target.value):
                written = node.value.evaluated_value if isinstance(node.value, cst.SimpleString) else ""
                for key in _keys(module, node):
                    yield _Moment(key, "set", str(written), node)


def _turns(porting: Porting) -> Iterator[_Moment]:
    """Where Unsloth sets a side."""
    module, release = porting.module, version_key(porting.loaded_by)
    found: list[tuple[cst.CSTNode, str]] = []
    for names, side in ((TO_RIGHT, "right"), (TO_LEFT, "left")):
        found += [(call, side) for name in names for call in module.calls_by_name.get(name, ())]
    trainer = porting.trainer
    if trainer is not None and is_patched(porting, trainer):
        found.append((trainer.node, "right"))
    for call in module.calls:
        called = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if called == "generate" and GENERATES_SINCE <= release < GENERATES_UNTIL:
            found.append((call, "right"))
        elif called == "train" and trainer is not None and _is_trainers(module, call, trainer.variable):
            if is_patched(porting, trainer) and TRAINS_LEFT_SINCE <= release < TRAINS_LEFT_UNTIL:
                found.append((call, "left"))
    for node, side in found:
        for key in _keys(module, node):
            yield _Moment(key, "turn", side, node)


def _is_trainers(module: Module, call: cst.Call, variable: str | None) -> bool:
    return isinstance(call.func, cst.Attribute) and module.code(call.func.value) == variable


def _uses(porting: Porting) -> Iterator[_Moment]:
    """Where the script pads or saves the tokenizer; a Trainer's collator pads, too."""
    module, site = porting.module, porting.trainer
    for call in module.calls:
        asked = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "padding"]
        pads = bool(asked) and module.code(asked[0]) not in UNPADDED and is_tokenizer(module, call.func)
        func = call.func
        saves = isinstance(func, cst.Attribute) and func.attr.value in SAVES and is_tokenizer(module, func.value)
        if pads or saves:
            for key in _keys(module, call):
                yield _Moment(key, "use", "", call)
                if pads and (again := _again(module, call)):  # the next round of its loop
                    yield _Moment((*key[:-1], again), "use", "", call)
    if site is not None and porting.loop is None and table_of(porting, site).kind == "causal-lm":
        for key in _keys(module, site.node):
            yield _Moment(key, "use", "", site.node)


def _again(module: Module, call: cst.CSTNode) -> int:
    """Where the loop ends in which a call stands; 0 for none."""
    scope = module.scope(call)
    around = (each for each in module.ancestors(call) if isinstance(each, LOOPS) and module.scope(each) is scope)
    loop = next(around, None)
    return module.span(loop)[1] if loop is not None else 0


def _keys(module: Module, node: cst.CSTNode, within: frozenset[cst.CSTNode] = NOWHERE) -> Iterator[Key]:
    """When a node runs: where it stands, behind where its function is named, behind where that one is, and so on."""
    start = module.span(node)[0]
    outer = [up for up in module.ancestors(node) if isinstance(up, cst.FunctionDef | cst.ClassDef)]
    if not outer or not isinstance(outer[0], cst.FunctionDef):
        yield (start,)
        return
    named = outer[1] if len(outer) > 1 and isinstance(outer[1], cst.ClassDef) else outer[0]
    if named in within:
        return
    for use in module.references(named.name.value, module.scope(named)):
        for key in _keys(module, use, within | {named}):
            yield (*key, start)
