"""Checkpoint folders that a script takes as its final model: the port's are Orbax's.

    class Keep(TrainerCallback):
        def on_train_end(self, args, state, control, **kwargs):
            shutil.copytree(state.best_model_checkpoint, "final")

The folder is there, so that the copy succeeds, but it holds Orbax's arrays, no adapter or model of transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, loads_best, step
from porter.packs.script import parameter_of
from porter.packs.training import facts_of, in_callback, is_behind

from ._paths import called, whole_path
from .read_checkpoints import LAST

PART_OF = "TP314"
BEST = "best_model_checkpoint"
TAKES = frozenset(
    """
    copytree copy copy2 copyfile move rename replace make_archive copy_tree symlink symlink_to link hardlink_to
    upload_folder upload_large_folder upload_file upload_directory add_dir add_file log_artifacts log_artifact log_model
    """.split()
)
COMMAND = re.compile(r"""["'\s](?:cp|mv|ln|rsync|zip|tar|gsutil|aws|rclone|scp|huggingface-cli|hf)["'\s]""")
TARGETS = frozenset("dst dest target dst_dir".split())  # keywords for where something goes
OWN = re.compile(r"""/?trainer_state\.json["']?\)?$""")  # the port's checkpoints have it
MAX_NAMES = 4  # names between a folder and what takes it


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def say_copied_checkpoints(porting: Porting) -> None:
    """An error where such a folder is copied, moved, packed, linked or uploaded."""
    module = porting.module
    if porting.trainer is None or (BEST not in module.text and "get_last_checkpoint" not in module.text):
        return
    said = {finding.line for finding in porting.findings if finding.rule == PART_OF and finding.severity == "error"}
    for node in [node for node in module.parents if _is_checkpoint(porting, node)]:
        assert isinstance(node, cst.BaseExpression)
        for call in _takers(porting, node, 0):
            line, column = module.location(call)
            if line in said or porting.covered(module.span(call)[0]):
                continue
            said.add(line)
            lacking = "an adapter" if porting.saves_adapter else "a model"
            message = (
                f"{called(module, call)} takes {module.code(node)}: that is Orbax's folder, not {lacking} to load."
            )
            porting.find(PART_OF, "error", message, _fix(porting), line, column)


def _fix(porting: Porting) -> str:
    save = f"rt.save_{'adapter' if porting.saves_adapter else 'model'}({porting.names.model}, folder)"
    best = loads_best(porting)
    behind = f"{save} behind the training" + (", when the model has the best weights" if best else "")
    return f"In its place write {behind}; or make the folder with tpu-port export."


def _is_checkpoint(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether an expression is a checkpoint of this run: the best one, or the last behind the training."""
    module = porting.module
    if isinstance(node, cst.Attribute):
        return node.attr.value == BEST and isinstance(node.value, cst.Name | cst.Attribute)
    if not isinstance(node, cst.Call) or module.qualified(node.func) not in LAST:
        return False
    return in_callback(module, node) or is_behind(porting, module.statement(node))


def _takers(porting: Porting, node: cst.BaseExpression, depth: int) -> Iterator[cst.Call]:
    """The calls that take a folder, itself or under a name, as a function's own parameter, too."""
    module = porting.module
    path = whole_path(module, node, listed=True)
    if OWN.search(module.code(path)) or depth > MAX_NAMES:
        return
    parent = module.parents[path]
    target: cst.CSTNode | None = None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
    elif isinstance(parent, cst.NamedExpr | cst.AnnAssign):
        target = parent.target
    if isinstance(target, cst.Name):
        yield from _of_name(porting, target.value, parent, depth)
    elif isinstance(target, cst.Attribute):  # self.best
        code = module.code(target)
        for use in [use for use in module.parents if isinstance(use, cst.Attribute) and use is not target]:
            if module.code(use) == code:
                yield from _takers(porting, use, depth + 1)
    call = module.parents[parent] if isinstance(parent, cst.Arg | cst.Attribute) else None
    if not isinstance(call, cst.Call):
        return
    if _takes(porting, call, parent):
        yield call
    elif isinstance(parent, cst.Arg) and (name := parameter_of(module, parent, call)) is not None:
        yield from _of_name(porting, name, module.callees[call].body, depth)


def _of_name(porting: Porting, name: str, place: cst.CSTNode, depth: int) -> Iterator[cst.Call]:
    module = porting.module
    found = module.scope(place).lookup(name)
    for use in module.references(name, found[0]) if found else ():
        if isinstance(use, cst.BaseExpression):
            yield from _takers(porting, use, depth + 1)


def _takes(porting: Porting, call: cst.Call, given: cst.CSTNode) -> bool:
    """Whether a call takes the folder that it is given as an argument, or whose method it is, with what is in it."""
    name = called(porting.module, call)
    if porting.module.qualified(call.func) in facts_of(porting.module).starts and isinstance(given, cst.Arg):
        return COMMAND.search(f" {porting.module.code(given.value)}") is not None
    if name not in TAKES:
        return False
    if isinstance(given, cst.Attribute):
        return call.func is given
    assert isinstance(given, cst.Arg)
    if given.keyword is not None:
        return given.keyword.value not in TARGETS
    copies = porting.module.qualified(call.func) or ""
    return not copies.startswith(("shutil.", "os.")) or name == "make_archive" or call.args[0] is given
