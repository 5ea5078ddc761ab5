"""Paths of single checkpoints that a callback, or what stands behind the training, reads: there are none of that name.

    class Upload(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            shutil.copytree(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"), target)

The port's checkpoints are Orbax's, `out/500`, and hold no files of transformers. What such a path is only written to
is the script's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import inside
from porter.packs.training import in_callback, is_behind

from ._paths import called, whole_path
from .read_checkpoints import is_in_output

PART_OF = "TP314"

NAMED = re.compile(r"""["'/\\]checkpoint-(?:\d|\{|["'])|\{(?:\w+\.)*PREFIX_CHECKPOINT_DIR\}-""")
COPIES = frozenset(
    """
    copytree copy_tree copy copy2 copyfile move rename replace make_archive symlink symlink_to link hardlink_to
    """.split()
)
READS = COPIES | frozenset(
    """
    rmtree remove unlink listdir scandir walk glob iglob rglob iterdir read_text read_bytes open from_pretrained load
    load_file load_from_disk load_adapter load_state_dict safe_open getsize upload_folder upload_file
    upload_large_folder add_dir log_artifacts log_artifact
    """.split()
)
ASKS = frozenset("exists lexists isdir isfile is_dir is_file".split())
MAX_NAMES = 3  # names between a path and what reads it
FIX = "rt.get_last_checkpoint(folder) gives the newest; save what is needed with rt.save_model, or use tpu-port export."


@step(Phase.NAME, of="trainer", reads=("checkpoints",), fills=("checkpoint paths",))
def say_checkpoint_paths(porting: Porting) -> None:
    """An error where such a path is read, a warning where a script asks whether it is there."""
    module = porting.module
    if "checkpoint" not in module.text.lower() or porting.trainer is None:
        return
    said = {finding.line for finding in porting.findings if finding.rule == PART_OF and finding.severity == "error"}
    for node in [node for node in module.parents if isinstance(node, cst.SimpleString | cst.FormattedString)]:
        if NAMED.search(module.code(node)) is None or porting.covered(module.span(node)[0]):
            continue
        if not _is_of_the_run(porting, node):
            continue
        calls = list(_readers(porting, node, 0))
        asking = [call for call in calls if called(module, call) in ASKS]
        for call in calls:
            line, column = module.location(call)
            if line in said or _is_asked(porting, call, asking):
                continue
            said.add(line)
            message = f"{module.code(node)}: the port's checkpoints are Orbax's, `500` in place of `checkpoint-500`"
            if call in asking:
                porting.find(PART_OF, "warning", f"{message}: this is never there.", FIX, line, column)
            else:
                porting.find(PART_OF, "error", f"{message}: {called(module, call)} finds none.", FIX, line, column)


def _is_of_the_run(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a checkpoint's name stands in the output folder, in a callback or behind the training."""
    module = porting.module
    path = whole_path(module, node)
    if in_callback(module, node):
        named = (part for part in inside(path) if isinstance(part, cst.Attribute) and part.attr.value == "output_dir")
        return any(True for _ in named) or is_in_output(porting, path)
    behind = any(is_behind(porting, item) for item in module.ancestors(node) if isinstance(item, cst.BaseStatement))
    statements = [item for item in module.ancestors(node) if isinstance(item, cst.SimpleStatementLine)]
    return (behind or any(is_behind(porting, item) for item in statements)) and is_in_output(porting, path)


def _readers(porting: Porting, node: cst.BaseExpression, depth: int) -> Iterator[cst.Call]:
    """The calls that read a path, itself or under a name."""
    module = porting.module
    path = whole_path(module, node)
    parent = module.parents[path]
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0].target, cst.Name):
        found = module.scope(parent).lookup(parent.targets[0].target.value)
        for use in module.references(parent.targets[0].target.value, found[0]) if found and depth < MAX_NAMES else ():
            if isinstance(use, cst.BaseExpression):
                yield from _readers(porting, use, depth + 1)
    call = module.parents[parent] if isinstance(parent, cst.Arg | cst.Attribute) else None
    if isinstance(call, cst.Call) and _reads(porting, call, parent) and not porting.covered(module.span(call)[0]):
        yield call


def _reads(porting: Porting, call: cst.Call, given: cst.CSTNode) -> bool:
    """Whether a call takes what lies at a path that it is given, or whose method it is."""
    name = called(porting.module, call)
    if name not in READS | ASKS or (isinstance(given, cst.Attribute) and call.func is not given):
        return False
    if name in COPIES and isinstance(given, cst.Arg):
        return call.args[0] is given or given.keyword is not None or name == "make_archive"
    mode = [porting.module.code(arg.value) for arg in call.args[int(isinstance(given, cst.Arg)) :]]
    return name != "open" or not any(re.match(r"[\"'][wax]", text) for text in mode)


def _is_asked(porting: Porting, call: cst.Call, asking: list[cst.Call]) -> bool:
    """Whether a call stands in the body of an `if` that asks for what lies there, which is named itself."""
    around = [*porting.module.ancestors(call)]
    tests = [item.test for item in around if isinstance(item, cst.If | cst.IfExp) and item.body in around]
    return any(
        (call is not one and test in porting.module.ancestors(one)) or test is one for test in tests for one in asking
    )
