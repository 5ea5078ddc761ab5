"""Scripts that train on the CPU, whatever the machine has.

TrainingArguments(use_cpu=True)  # no_cuda=True before 4.32
os.environ["CUDA_VISIBLE_DEVICES"] = ""

Not `from_pretrained(name, device_map="cpu")`: the trainer moves the model to the GPU (measured on an H200, transformers
5.12: Trainer, SFTTrainer and Accelerator.prepare, with adapters and without).
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Module, bare, plain_version, version_key
from porter.packs.training import Training

PART_OF = "transformers"
VARIABLE = "CUDA_VISIBLE_DEVICES"
NONE = ("", "-1")  # what it is set to that hides all
# The releases whose sdpa let padding that has nothing to see attend to its whole row, on a GPU alone.
UNMASKS = ((4, 36), (4, 53))


@step(Phase.READ, of="trainer", reads=("config", "arguments", "arguments_object", "script values"))
def say_on_cpu(porting: Training) -> None:
    """An info that the source's run is one of the CPU, which the report calls the GPU run all the same."""
    found = forces_cpu(porting)
    if found is None:
        return
    said, line, column = found
    message = f"{said}: the source trains on the CPU, the port on the TPU. "
    message += "What the script prints and says of the CPU stays, and what is said of the GPU run here is that run."
    porting.find(PART_OF, "info", message, "", line, column)


def forces_cpu(porting: Training) -> tuple[str, int, int] | None:
    """The code by which a script's training runs on the CPU, and its place; None where it may run on a GPU."""
    config = porting.config or porting.arguments
    asked = config.argument("use_cpu", "no_cuda") if config is not None else None
    if asked is not None and asked.value.is_literal(True):
        return f"{asked.name}=True", asked.line, asked.column
    module = porting.module
    hidden = next((node for node in module.parents if _hides(module, node)), None) if VARIABLE in module.text else None
    if hidden is not None:
        return (bare(module.code(hidden)), *module.location(hidden))
    return None


def unmasks_on_gpus(porting: Training) -> bool:
    """Whether the source's sdpa let padding in front of a row see the row, on a GPU alone."""
    release = plain_version(porting.versions.get("transformers", ""))
    return bool(release) and UNMASKS[0] <= version_key(release) < UNMASKS[1]


def _hides(module: Module, node: cst.CSTNode) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = ""`, of the file itself and under no condition."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.SimpleString):
        return False
    target = node.targets[0].target
    named = isinstance(target, cst.Subscript) and module.qualified(target.value) == "os.environ"
    if not named or VARIABLE not in module.code(target) or node.value.evaluated_value not in NONE:
        return False
    return not any(isinstance(each, cst.If | cst.FunctionDef | cst.Try) for each in module.ancestors(node))
