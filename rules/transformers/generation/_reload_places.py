"""Where a script may load a model again that the port loads with Tunix: where its mesh is, and what trains is done.

A function that is apart from the training, and from its mesh, makes a mesh of its own in front of the load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import argument_of, calls_of, function_around, indentation, inside
from porter.packs.training import in_reach, is_behind
from porter.packs.writing import MESH, mesh_code

OWN = ("meshes of functions that load a model again",)
MODELS = re.compile(r"(?:ForCausalLM|PeftModel|FastLanguageModel|FastModel)\.from_pretrained$")
MAX_DEPTH = 4  # functions that call one another


def loads_again(porting: Porting, call: cst.Call) -> bool:
    """Whether a call is none that loads what is trained, and the port has its mesh there, behind the training or in a
    function that is apart from it."""
    trainer, model = porting.trainer, porting.model
    assert trainer is not None
    taken = (model is not None and model.node is call) or call in porting.loads
    if taken or porting.covered(porting.module.span(call)[0]):
        return False
    if is_behind(porting, call) and in_reach(trainer.scope, porting.module.scope(call)):
        return True
    return _is_apart(porting, call) or (has_mesh_of_file(porting) and _is_behind_calls(porting, call))


def takes_torchs(
    porting: Porting, function: cst.FunctionDef, parameter: str, own: Sequence[tuple[int, int, str]]
) -> bool:
    """Whether a call gives a function a model that stays torch's: one that another function loads and gives back, and
    that no edit loads, of those that are made or of `own`."""
    module = porting.module
    for call in calls_of(module, function):
        given = argument_of(module, call, parameter)
        meant = module.meaning(given) if isinstance(given, cst.Name) else None
        for binding in meant[1] if meant is not None else ():
            made = module.callees.get(binding.value) if isinstance(binding.value, cst.Call) else None
            loads = [each for each in inside(made) if _loads_torchs(porting, each)] if made is not None else []
            starts = [module.span(each)[0] for each in loads if not porting.covered(module.span(each)[0])]
            if any(not any(begin <= start < end for begin, end, _ in own) for start in starts):
                return True
    return False


def _loads_torchs(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a node loads a model, and not the trained one."""
    if not isinstance(node, cst.Call) or MODELS.search(porting.module.qualified(node.func) or "") is None:
        return False
    model = porting.model
    return node not in porting.loads and (model is None or model.node is not node)


def _is_behind_calls(porting: Porting, call: cst.Call) -> bool:
    """Whether a line of no function runs behind every call of the one that trains: `train(); model = load()`."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    function = function_around(module, trainer.node)
    calls = calls_of(module, function) if function is not None else []
    if function_around(module, call) is not None or module.loops(call) or not calls:
        return False
    ends = [module.span(module.statement(one))[1] for one in calls]
    apart = all(function_around(module, one) is None for one in calls)
    return apart and all(end <= module.span(call)[0] for end in ends)


def _is_apart(porting: Porting, call: cst.Call) -> bool:
    """Whether a function that trains nothing loads the model for itself: with the file's mesh, or its own."""
    function = function_around(porting.module, call)
    trains = {function_around(porting.module, site.node) for site in porting.sites if site.role == "trainer"}
    if function is None or function in trains:
        return False
    return has_mesh_of_file(porting) or not _has_mesh(porting, call) or _runs_behind(porting, function)


def own_mesh(porting: Porting, call: cst.Call) -> str:
    """The line, with the indentation behind it, that makes the mesh in front of a call's statement; "" where there is
    one, of the file, of the trainer, or of another load in front of it."""
    module = porting.module
    if has_mesh_at(porting, call):
        return ""
    statement = module.statement(call)
    porting.answers.setdefault(OWN, []).append(statement)
    start = module.span(statement)[0]
    return f"{porting.names.mesh} = {mesh_code(porting, porting.mesh)}\n{indentation(module.text, start)}"


def has_mesh_at(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether the port has a mesh where `node` stands."""
    module, made = porting.module, porting.answers.get(OWN, ())
    if has_mesh_of_file(porting) or _has_mesh(porting, node):
        return True
    start, around = module.span(node)[0], {*module.ancestors(node)}
    return any(module.span(line)[0] <= start and module.parents[line] in around for line in made)


def _has_mesh(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether the mesh that the port makes for a trainer at the top of the file is known where `node` stands."""
    trainer = porting.trainer
    return trainer is not None and in_reach(trainer.scope, porting.module.scope(node))


def _runs_behind(porting: Porting, function: cst.FunctionDef, depth: int = 0) -> bool:
    """Whether a function is defined, or called, behind the training only."""
    module = porting.module
    if _is_below(porting, function):
        return True
    calls = calls_of(module, function)
    uses = [use for use in module.references(function.name.value, module.scope(function)) if use is not function.name]
    if depth > MAX_DEPTH or not calls or len(uses) > len(calls):
        return False
    around = [(call, function_around(module, call)) for call in calls]
    return all(
        _is_below(porting, call) if outer is None else _runs_behind(porting, outer, depth + 1) for call, outer in around
    )


def _is_below(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a line stands below all trainers of its function, in no loop with one: it may be in one of its own."""
    module, trainer = porting.module, porting.trainer
    sites = [site for site in (trainer, *porting.others) if site is not None]
    here = [site for site in sites if function_around(module, site.node) is function_around(module, node)]
    return bool(here) and all(
        site.statement_end <= module.span(node)[0] and not module.loops(site.node) & module.loops(node) for site in here
    )


def has_mesh_of_file(porting: Porting) -> bool:
    """Whether the port makes its mesh below the imports, for all functions."""
    return any(edit.part == MESH for edit in porting.edits)
