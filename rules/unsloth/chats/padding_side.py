"""Which side a tokenizer that Unsloth loads pads on, where the script itself, or its collator, pads with it.

What it does: writes `tokenizer.padding_side` behind the load: "right" once get_peft_model was called, "left" before.
Why: Unsloth sets the side whatever the checkpoint says: left as it loads, right in get_peft_model and for_training,
left in for_inference. transformers' own load has the checkpoint's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, indentation, is_tokenizer, small_statement
from porter.packs.training import table_of

PART_OF = "TP703"

SIDE = "padding_side"
FAST = ("FastLanguageModel", "FastModel")
TO_RIGHT = tuple(f"unsloth.{name}.{method}" for name in FAST for method in ("get_peft_model", "for_training"))
TO_LEFT = tuple(f"unsloth.{name}.{method}" for name in FAST for method in ("from_pretrained", "for_inference"))
UNPADDED = ("False", "None", "'do_not_pad'", '"do_not_pad"')


@step(Phase.WRITE, of="trainer", reads=("names",), fills=("parts",))
def write_side(porting: Porting) -> None:
    """The side of the first padding, for the statement that loads; a finding where a later one has the other."""
    module = porting.module
    if not porting.loaded_by or SIDE in module.text:
        return
    turns = [
        ((used, module.span(call)[0]), side)
        for names, side in ((TO_RIGHT, "right"), (TO_LEFT, "left"))
        for call in _calls(module, names)
        if (used := _first_use(module, call)) is not None
    ]
    places = sorted([*_paddings(porting)], key=lambda place: place[0])
    sides = [(_side(turns, place), node) for place, node in places]
    if not sides:
        return
    first = sides[0][0]
    porting.code[SIDE] = first
    for side, call in sides:
        if side != first:
            _turn(porting, call, side)


def _turn(porting: Porting, call: cst.CSTNode, side: str) -> None:
    """Another side than that behind the load, set in front of the statement that pads."""
    module = porting.module
    statement, place = small_statement(module, call)
    start = module.span(statement)[0] if statement is not None else 0
    pads = isinstance(call, cst.Call) and is_tokenizer(module, call.func)
    code = module.code(call.func) if isinstance(call, cst.Call) and pads else porting.names.tokenizer
    if not pads or statement is None or place != "line" or porting.covered(start):
        message = f"Unsloth's tokenizer pads on the {side} here, the port's on the other."
        porting.find(PART_OF, "warning", message, f"Set {code}.{SIDE} in front of it.", *module.location(call))
        return
    indent = indentation(module.text, start)
    porting.edit(start, start, f'{code}.{SIDE} = "{side}"\n{indent}', PART_OF, "as Unsloth's for_inference sets it")


def _calls(module: Module, names: tuple[str, ...]) -> list[cst.Call]:
    return [call for name in names for call in module.calls_by_name.get(name, ())]


def _side(turns: Sequence[tuple[tuple[int, int], str]], place: tuple[int, int]) -> str:
    """What the last call that runs in front of a place has set."""
    before = [turn for turn in turns if turn[0] < place]
    return max(before)[1] if before else "left"


def _paddings(porting: Porting) -> Iterator[tuple[tuple[int, int], cst.CSTNode]]:
    """Where the script pads: the first use of the function in which it stands, and its own place; a Trainer's collator
    does, too."""
    module, site = porting.module, porting.trainer
    for call in module.calls:
        asked = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "padding"]
        if asked and module.code(asked[0]) not in UNPADDED and is_tokenizer(module, call.func):
            place = _first_use(module, call)
            if place is not None:
                yield (place, module.span(call)[0]), call
    if site is not None and porting.loop is None and table_of(porting, site).kind == "causal-lm":
        yield (site.start, site.start), site.node


def _first_use(module: Module, node: cst.CSTNode) -> int | None:
    """Where a node of the top level stands; of one in a function the place where that is first named, if it is."""
    scope, passed = module.scope(node), set[cst.CSTNode]()
    while isinstance(scope.node, cst.FunctionDef) and scope.node not in passed:
        passed.add(scope.node)
        uses = module.references(scope.node.name.value, module.scope(scope.node))
        if not uses:
            return None
        node, scope = uses[0], module.scope(uses[0])
    return module.span(node)[0]
