"""Which loads `prepare_model_for_kbit_training` is called on, and what a base that it has prepared computes in.

if args.qlora:
    model = from_pretrained(name, quantization_config=config)
    model = prepare_model_for_kbit_training(model)     gets this load,
else:
    model = from_pretrained(name)                      and not that one
"""

from __future__ import annotations

import libcst as cst

from ...source.module import Module
from ..script.flow import binding_origins, origins
from ..script.following.reaching import reaching
from ..script.sites import Site
from ..script.training import Training

BETWEEN = "without bf16 and fp16 a base that PEFT prepares hands float32 from layer to layer, the port's bfloat16"


def preparations_of(porting: Training, load: Site | None) -> list[Site]:
    """The calls of prepare_model_for_kbit_training that may get what `load` gives; all of them where none is read."""
    return [site for site in porting.of_role("prepare") if load is None or _may_get(porting, site, load)]


def runs_with(module: Module, site: Site, load: Site) -> bool:
    """Whether a call runs whenever a load does: it stands below no condition that the load isn't below."""
    conditions = [node for node in module.ancestors(site.node) if isinstance(node, cst.If)]
    return set(conditions) <= set(module.ancestors(load.node))


def say_float32_between(porting: Training, rule: str, line: int, column: int) -> None:
    """That a quantised base which is prepared is trained in float32 where the script has no autocast; the port's
    layers hand on bfloat16."""
    for keyword in (".bf16", ".fp16"):
        porting.add_reason(keyword, BETWEEN)
    message = (
        "No bf16 and no fp16: over a base that PEFT prepares the GPU run computes attention, adapters and what passes "
        "between the layers in float32, as embeddings and norms are; the port does in the weights' type, bfloat16."
    )
    fix = "dtype=jnp.float32 at rt.load_model does as the GPU run, in more memory and time."
    porting.find(rule, "info", message, fix, line, column)


def _may_get(porting: Training, site: Site, load: Site) -> bool:
    module, given = porting.module, site.argument("model")
    if given is None or given.node is None:
        return True
    if _is_elsewhere(module, site.node, load.node):
        return False
    found = list(origins(module, given.node))
    for binding in reaching(module, given.node):
        found += binding_origins(module, binding)
    loads = [each.node for each in porting.of_role("model")]
    reached = [node for node in found if node in loads]
    return not reached or load.node in reached


def _is_elsewhere(module: Module, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether of two nodes one runs where a condition holds and the other where the same condition doesn't."""
    here, there = _conditions(module, node), _conditions(module, other)
    return any(there.get(test, holds) != holds for test, holds in here.items())


def _conditions(module: Module, node: cst.CSTNode) -> dict[str, bool]:
    """The code of each condition that a node stands below, and whether it holds there."""
    found, inner = {}, node
    for outer in module.ancestors(node):
        if isinstance(outer, cst.If) and inner is not outer.test:
            test, holds = outer.test, inner is outer.body
            while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
                test, holds = test.expression, not holds
            found[module.code(test)] = holds
        inner = outer
    return found
