"""The imports of a port, file by file: the statement that they stand at, what goes, and what is still used."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from ...recipe import Severity
from ...source.calls import function_around
from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import within, without_inner
from ...text.import_lines import parse_import
from ..script.fill_from_tables import trainer_libraries
from ..script.porting import Porting
from ..script.sites import absent_packages, facts_of
from ..script.subclasses import imported_base
from ..settling.blocks import without_empty_blocks
from .imports import plan_imports
from .installs import install_edits
from .left_libraries import libraries_left
from .left_modules import ProjectModule
from .metadata import metadata_edits
from .names.lost_names import find_taken_names
from .own_modules import needed_by_module
from .per_file import (
    first_import,
    is_touched,
    mesh_edits,
    note_passed_on,
    own_edits,
    parts_of,
    take_back,
    view_of,
    whole_edits,
)

JAX = "jax"
SEEDS = re.compile(r"(?i)(?:^|[._])(?:seed|\w*_?seed(?:s|_\w+)?)$")


def with_imports(porting: Porting, edits: list[Edit]) -> list[Edit]:
    """The edits, and those of the imports of each file that they change."""
    whole: list[Edit] = []
    # A port that imports one of these trains, or asks about, what it has not any more.
    trainers = trainer_libraries(porting.packs) & absent_packages(porting.module)
    note_passed_on(porting.module, edits)
    for part in parts_of(porting.module):
        own = own_edits(part, edits)
        if not is_touched(porting, part, own):
            continue
        own += mesh_edits(porting, part, own, edits)
        view = view_of(porting, part, own)
        module = view.module
        new = [parse_import(text) for text in view.imports]
        anchor = _import_anchor(view, own, [item.bound for item in new])
        find_taken_names(view, [item.bound for item in new])
        plan = plan_imports(module, own, new, porting.moved, anchor)
        own = without_inner(module.text, [*plan.top, *without_empty_blocks(module, [*own, *plan.edits])])
        for library, line in sorted(plan.still_used.items()):
            if library in facts_of(module).needs_gpu and library in plan.imported:
                message = f"{library} is not on a TPU machine: the port ends at this import."
                fix = f"Take out what uses it (line {line}), or leave that to a program of its own, beside a GPU."
                view.find("TP001", "error", message, fix, plan.imported[library], 1)
                continue
            message = f"{library} is still used here, so the port needs it installed."
            fix = f"Replace it if {library} is not on the TPU machine."
            severity: Severity = "error" if library in trainers else "warning"
            view.find("TP001", severity, message, fix, line, 1, severity == "error")
        for library, line in sorted(plan.asked_for.items()):
            if library not in plan.still_used:
                message = f"Whether {library} is there is asked here, and a TPU machine has none: so the port goes on."
                view.find("TP001", "warning", message, "Look at what it does without.", line, 1, False)
        take_back(porting, part, view)
        whole += whole_edits(part, own)
    return whole


def with_installs(porting: Porting, edits: list[Edit], beside: Sequence[ProjectModule]) -> list[Edit]:
    """The edits, and those of what each file installs: what a module of the project needs of the GPU's stays, too."""
    parts = [(part, own_edits(part, edits)) for part in parts_of(porting.module)]
    if not any(re.search("install|uv add|# /// script", part.module.text) for part, _ in parts):
        return edits
    facts = facts_of(porting.module)
    known = facts.gpu_distributions
    needed = {name for module in beside for name in needed_by_module(porting.module, module)}
    needed |= porting.options.needed
    left = {name for name in known if name.replace("-", "_") in needed}
    touched = [(part, own) for part, own in parts if is_touched(porting, part, own)]
    for part, own in touched:
        left |= libraries_left(part.module.text, own, known, facts)
    whole: list[Edit] = []
    for part, own in touched:
        view = view_of(porting, part, own)
        new = [*own, *install_edits(view, own, left), *metadata_edits(view, left)]
        whole += whole_edits(part, without_inner(part.module.text, new))
        take_back(porting, part, view)
    return whole


def _import_anchor(porting: Porting, edits: list[Edit], names: list[str]) -> cst.CSTNode | None:
    """The statement that imports the trainer's class, or an import before it where new code needs `names` earlier or
    outside of that import's function. None: what is new goes to the top of the file.
    """
    anchor = _trainer_import(porting)
    module = porting.module
    needed = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})\b") if names else None
    users = [edit.start for edit in edits if needed is not None and needed.search(edit.new)]
    users += _seeds(module) if JAX in names else []
    if anchor is not None and module.parents.get(anchor) is not module.tree:
        function = function_around(module, anchor)
        if function is None:  # in a block of the file itself, which runs before its functions do
            functions = [module.span(node) for node in module.parents if isinstance(node, cst.FunctionDef)]
            users = [user for user in users if not within(user, functions)]
        start, end = module.span(function) if function is not None else (module.span(anchor)[0], len(module.text))
        if all(start < user <= end for user in users):  # at its start stands what is put before it
            return _in_front_of(module, anchor, min(users, default=end))
        anchor = None
    first = min((start for start in users if module.text[:start].strip()), default=len(module.text))
    if anchor is not None and module.span(anchor)[0] <= first:
        return anchor
    earlier = [
        node
        for node in module.tree.body
        if _is_import(node) and module.span(node)[0] < first and module.code(node).split()[1] != "__future__"
    ]
    return earlier[-1] if earlier else None


def _is_import(node: cst.CSTNode) -> bool:
    alone = isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1
    return alone and isinstance(node.body[0], cst.Import | cst.ImportFrom)  # type: ignore[attr-defined]


def _in_front_of(module: Module, anchor: cst.CSTNode, first: int) -> cst.CSTNode | None:
    """An import of a function, or the last one in its block that stands in front of a place; None where none does.

    `import jax` further down would make the name the function's own, without a value until then.
    """
    if module.span(anchor)[0] <= first:
        return anchor
    above = [node for node in module.parents[anchor].children if module.span(node)[0] <= first and _is_import(node)]
    return above[-1] if above else None


def _seeds(module: Module) -> list[int]:
    """Where the file seeds NumPy as it starts: importing JAX draws from NumPy's generator, and has to come before."""
    if "seed" not in module.text:
        return []
    others = {
        "random",
        *(package for _, package in facts_of(module).tensors),
    }  # generators that importing JAX leaves alone
    lines = [line for line in module.tree.body if isinstance(line, cst.SimpleStatementLine)]
    calls = [(line, part.value) for line in lines for part in line.body if isinstance(part, cst.Expr)]
    return [
        module.span(line)[0]
        for line, call in calls
        if isinstance(call, cst.Call)
        and SEEDS.search(name := module.qualified(call.func) or module.code(call.func))
        and name.partition(".")[0] not in others
    ]


def _trainer_import(porting: Porting) -> cst.CSTNode | None:
    """The statement that imports the trainer's class."""
    module = porting.module
    site = porting.trainer if porting.loop is None else porting.model
    if site is None or not isinstance(site.node, cst.Call):
        return None
    if site.node not in module.parents:  # the trainer stands in another file
        return first_import(module)
    node: cst.BaseExpression = imported_base(module, site.node.func)
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    found = module.scope(node).lookup(node.value)
    if found is None:
        return None
    binding = next((b for b in found[1] if b.kind == "import"), None)
    return module.statement(binding.node) if binding is not None else None
