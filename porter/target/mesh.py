"""The mesh: the devices and their axes, before the first statement that needs them."""

from __future__ import annotations

import re

import libcst as cst

from ..engine.assembling.per_file import behind_imports
from ..engine.reading.model import reaches_trainer
from ..engine.receipts.marking import mark, mark_target
from ..engine.script.fill_from_tables import bindings_of
from ..engine.script.porting import MESH, Porting
from ..engine.script.sites import indentation


def mesh_code(porting: Porting, mesh: tuple[int, int] | None) -> str:
    porting.imports.add("import jax")
    shape = f"({mesh[0]}, {mesh[1]})" if mesh is not None else "(jax.device_count(), 1)"
    places = ("mesh.distributed_type", "mesh.fsdp", "mesh.fsdp_config")
    marks = mark(porting, *places) + mark_target(porting, "the fsdp axis of the mesh")
    return f'{marks}jax.make_mesh({shape}, ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)'


def write_mesh(porting: Porting, code: str) -> bool:
    """Put the mesh before the first site that needs it; True when that isn't the trainer's own statement."""
    trainer, model = porting.trainer, porting.model
    assert trainer is not None
    first = next((site for site in (model, porting.inject) if site is not None), None)
    earlier = [site for site in porting.references if first is not None and site.scope is first.scope]
    first = min((site for site in (first, *earlier) if site is not None), key=lambda site: site.start, default=None)
    far = porting.used_elsewhere or bool(porting.others) or _puts_in_elsewhere(porting)
    far = far or any(porting.module.scope(load) is not trainer.scope for load in porting.loads)
    far = far or any(site.scope is not (first or trainer).scope for site in porting.references)
    if (first is None or porting.loads) and not far:
        start = _earlier_need(porting)
        if start is None:
            return False
        text = f"{porting.names.mesh} = {code}\n{indentation(porting.module.text, start)}"
        porting.edit(start, start, text, trainer.rule, "the devices and their axes")
        return True
    if first is not None and first.scope is trainer.scope and first.variable is not None and not far:
        statement = f"{porting.names.mesh} = {code}\n{first.indent}"
        porting.edit(first.statement_start, first.statement_start, statement, first.rule, "the devices and their axes")
        return True
    offset = behind_imports(porting.module, _first_use(porting))
    space = "\n\n" if re.match(r"def |async |class |@", porting.module.text[offset:]) else ""
    text = f"\n{porting.names.mesh} = {code}\n{space}"
    porting.edit(offset, offset, text, (first or trainer).rule, "the devices and their axes", part=MESH)
    return True


def _first_use(porting: Porting) -> int | None:
    """Where the file, outside its functions, first makes a model, puts adapters in or makes a trainer."""
    module = porting.module
    sites = (site for role in ("model", "inject", "trainer") for site in porting.of_role(role))
    return min((site.statement_start for site in sites if site.scope.node is module.tree), default=None)


def _puts_in_elsewhere(porting: Porting) -> bool:
    """Whether a function that isn't the trainer's puts adapters in by condition."""
    trainer, own = porting.trainer, (porting.inject, *porting.own_injects)
    assert trainer is not None
    sites = [site for site in porting.of_role("inject") if site not in own]
    return any(site.scope is not trainer.scope and reaches_trainer(porting, site) for site in sites)


def _earlier_need(porting: Porting) -> int | None:
    """Where a model that this file doesn't load is made, or adapters are put in by condition, if that is before the
    trainer in its function: the start of that statement."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    nodes: list[cst.CSTNode] = [
        site.node for site in porting.sites if site.role == "inject" or site in porting.references
    ]
    nodes += porting.loads
    model = trainer.argument("model")
    if porting.foreign_model and model is not None:
        nodes += [binding.node for binding in bindings_of(module, model.node) if binding.kind in ("assign", "unpack")]
    around = set(module.ancestors(trainer.node))
    starts = []
    for node in nodes:
        if module.scope(node) is not trainer.scope:
            continue
        statement: cst.CSTNode | None = None
        for ancestor in (node, *module.ancestors(node)):
            if ancestor in around:
                break
            if isinstance(ancestor, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                statement = ancestor
        if statement is not None:
            starts.append(module.span(statement)[0])
    first = min(starts, default=trainer.statement_start)
    return first if first < trainer.statement_start else None
