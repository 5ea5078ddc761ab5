"""Lines that print the releases of libraries that a port doesn't use.

What it does: takes out a line that does nothing but print or log `trl.__version__`, `version("trl")` and the like,
and their names from a list that a loop asks for versions.
Why: the port imports neither TRL nor PEFT, Unsloth, bitsandbytes or a library of CUDA kernels: a TPU machine may lack
them, and the line would end the run.
Example: `print(f"TRL: {trl.__version__}")`
Use instead: nothing
Safety: exact. A line that reads anything else stays, with a finding.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, inside

ID = "TP119"
GONE = frozenset("trl peft unsloth unsloth_zoo bitsandbytes flash_attn xformers vllm deepspeed liger_kernel".split())
ASKS = frozenset({"importlib.metadata.version", "importlib_metadata.version"})
LISTED = GONE | {"accelerate", "torch", "torchvision", "torchaudio", "torchao", "triton"}
READS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Await, cst.NamedExpr)
SAYS = re.compile(r"print|(?:\w+\.)*(?:info|debug|warning)")


@step(Phase.ANSWER, fills=("claimed names",))
def drop_printed_versions(porting: Porting) -> None:
    """Statements that print versions of the libraries of the GPU side, and nothing else that runs."""
    module = porting.module
    if "__version__" not in module.text and "metadata" not in module.text:
        return
    for call in module.calls:
        if module.qualified(call.func) in ASKS:
            _shorten_list(porting, call)
        if not isinstance(module.parents[call], cst.Expr) or porting.covered(module.span(call)[0]):
            continue
        if SAYS.fullmatch(module.code(call.func)) is None:
            continue
        nodes = [node for argument in call.args for node in inside(argument.value)]
        versions = {node: name for node in nodes if (name := _version_of(module, node))}
        parts = {part for node in versions for part in (node, *inside(node))}
        if not versions or any(isinstance(node, READS) and node not in parts for node in nodes):
            continue
        if GONE.issuperset(versions.values()):
            porting.remove_statement(call, ID, "the release of a library that the port doesn't use")


def _version_of(module: Module, node: cst.CSTNode) -> str:
    """The library in `trl.__version__`, also by a name of its own, and `version("trl")`; "" for anything else."""
    meant = (module.qualified(node) or "") if isinstance(node, cst.Name | cst.Attribute) else ""
    if meant.endswith(".__version__") or (isinstance(node, cst.Attribute) and node.attr.value == "__version__"):
        return meant.removesuffix(".__version__") or "?"
    if isinstance(node, cst.Call) and module.qualified(node.func) in ASKS and len(node.args) == 1:
        named = node.args[0].value
        return _name(named) if isinstance(named, cst.SimpleString) else "?"
    return ""


def _name(text: cst.SimpleString) -> str:
    return str(text.evaluated_value).replace("-", "_")


def _shorten_list(porting: Porting, call: cst.Call) -> None:
    """`for name in ["trl", "jax"]: print(version(name))` asks for those that a port has, where nothing takes the error
    of one that isn't installed."""
    module = porting.module
    given = call.args[0].value if len(call.args) == 1 else None
    around = [*module.ancestors(call)]
    loops = [node for node in around if isinstance(node, cst.For | cst.CompFor)]
    loops += [node.for_in for node in around if isinstance(node, cst.BaseSimpleComp | cst.DictComp)]
    if any(isinstance(node, cst.Try) for node in around):
        return
    for loop in loops:
        listed = loop.iter
        if not isinstance(given, cst.Name) or module.code(loop.target) != given.value or porting.within(listed):
            continue
        elements = listed.elements if isinstance(listed, cst.List | cst.Tuple) else ()
        texts = [each.value for each in elements if isinstance(each.value, cst.SimpleString)]
        if not texts or len(texts) < len(elements):
            continue
        kept = [module.code(text) for text in texts if _name(text) not in LISTED]
        if len(kept) < len(elements):
            inner = ", ".join(kept) + ("," if isinstance(listed, cst.Tuple) and len(kept) == 1 else "")
            new = f"[{inner}]" if isinstance(listed, cst.List) else inner if kept or listed.lpar else "()"
            porting.edit(*module.span(listed), new, ID, "the releases of libraries that a port has")
