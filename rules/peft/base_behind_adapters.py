"""A base model that is used by its own name behind the adapters that a reload put into it.

    adapted = PeftModel.from_pretrained(base, "out")
    print(base.generate(**inputs), adapted.generate(**inputs))

PEFT puts adapters into the model that it gets, so that both lines are the adapted model's. `rt.apply_adapter` makes a
copy: in the port the first is the base's, as the name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, function_around, put_in_again, small_statement
from porter.packs.training import facts_of

PART_OF = "TP204"
COPIES = "apply_adapter"
# What is the same of both.
IDLE = frozenset(
    """
    config generation_config device dtype eval train to cuda cpu half float bfloat16 name_or_path hf_device_map
    get_memory_footprint requires_grad_ gradient_checkpointing_enable gradient_checkpointing_disable
    """.split()
)
SHOWS = frozenset({"print", "del", "type", "isinstance"})


@step(Phase.NAME)
def say_used_bases(porting: Porting) -> None:
    """A warning at the first use of such a base."""
    module = porting.module
    for name in facts_of(module).loads_adapters:
        for call in module.calls_by_name.get(name, ()):
            if call not in put_in_again(module) and _copies(porting, call):
                _say(porting, call)


def _copies(porting: Porting, call: cst.Call) -> bool:
    """Whether the port makes a copy with the adapters in a call's place."""
    edits = porting.around(porting.module.span(call)[0])
    return any(name.rpartition(".")[2] == COPIES for edit in edits for name in edit.calls)


def _say(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    base = next((arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "model"), None)
    statement = small_statement(module, call)[0]
    if not isinstance(base, cst.Name) or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return
    target = module.code(statement.targets[0].target)
    use = next(_uses(module, base, statement), None)
    if target == base.value or use is None:
        return
    message = f"{base.value}: PEFT put the adapters into it, so that this is {target}'s; in the port it is the base's."
    fix = f"Write {target} if the adapted model is meant; compare it with what the source gave otherwise."
    porting.find(PART_OF, "warning", message, fix, *module.location(use), todo=False)


def _uses(module: Module, base: cst.Name, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The uses of a base behind a statement, in its function, up to the next model of that name."""
    found = module.meaning(base)
    if found is None:
        return
    behind = module.span(statement)[1]
    again = [module.span(binding.node)[0] for binding in found[1]]
    until = min((start for start in again if start > behind), default=len(module.text))
    for use in sorted(module.references(base.value, found[0]), key=lambda node: module.span(node)[0]):
        if not behind <= module.span(use)[0] < until or function_around(module, use) is not function_around(
            module, statement
        ):
            continue
        if not _is_idle(module, use) and not _is_off(module, use):
            yield use


def _is_idle(module: Module, use: cst.CSTNode) -> bool:
    """Whether a use is the same of the base and the adapted model."""
    parent = module.parents[use]
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in IDLE
    call = module.parents[parent] if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call):
        return module.code(call.func) in SHOWS
    return isinstance(parent, cst.Del | cst.AssignTarget)


def _is_off(module: Module, use: cst.CSTNode) -> bool:
    """Whether a use stands under `with adapted.disable_adapter():`."""
    withs = [item for item in module.ancestors(use) if isinstance(item, cst.With)]
    return any(re.search(r"\bdisable_adapters?\(", module.code(each.item)) for one in withs for each in one.items)
