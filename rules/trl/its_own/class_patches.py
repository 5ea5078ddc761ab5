"""`SFTTrainer.compute_loss = my_loss`: the script changes a trainer's class, and the port doesn't use that class."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, Severity, step
from porter.packs.script import set_by_name
from porter.packs.training import BESIDE, HOOKS, tables_by_class

PART_OF = "trl"


@step(Phase.NAME)
def name_class_patches(porting: Porting) -> None:
    """A finding for every attribute that the script gives to a trainer's class."""
    tables = tables_by_class(porting.packs)
    for node, changed, attribute in _patches(porting):
        rule = tables.get(porting.module.qualified(changed) or "")
        if rule is None or rule.role != "trainer" or porting.covered(porting.module.span(node)[0]):
            continue
        what, place = HOOKS.get(attribute, ("something of its own", "code beside the trainer"))
        name = porting.module.code(changed)
        message = f"{name}.{attribute}: the script gives the class {what}, and the port doesn't use the class."
        fix = f"Put what it does into {place}, and take this line out."
        severity: Severity = "warning" if attribute in BESIDE else "error"
        porting.find(rule.id, severity, message, fix, *porting.module.location(node))


def _patches(porting: Porting) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, str]]:
    """The statement, the class and the attribute of every assignment that may be one."""
    for node in porting.module.parents:
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute):
            yield node, node.target.value, node.target.attr.value
        elif given := set_by_name(porting.module, node):
            if isinstance(name := given[1], cst.SimpleString):
                yield node, given[0], str(name.evaluated_value)
