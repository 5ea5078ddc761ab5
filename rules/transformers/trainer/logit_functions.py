"""preprocess_logits_for_metrics: written for torch's tensors, called with JAX's arrays.

The idioms that the two share but for a name (`argmax(dim=-1)`, `.detach()`, `torch.argmax`) are respelled in place;
everything else of torch is named line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Argument, Phase, Porting, step
from porter.packs.script import shown
from porter.packs.training import bindings_of, computes_metrics

PART_OF = "transformers"

# Methods of a tensor: of a JAX array by another name; without need there.
METHODS = {
    "float": "astype(jnp.float32)",
    "long": "astype(jnp.int32)",
    "int": "astype(jnp.int32)",
    "bool": "astype(bool)",
}
GONE = frozenset({"detach", "cpu", "cuda", "contiguous", "clone", "numpy"})
RENAMED = {"view": "reshape"}
# Methods of a tensor that a JAX array doesn't have, or that mean something else there.
OF_TORCH = frozenset(
    """
    bfloat16 double eq ne gt lt ge le expand expand_as gather half index_select log_softmax masked_fill masked_fill_
    masked_select movedim narrow new_full new_zeros numel permute scatter size softmax std sub to topk type
    unflatten unfold unsqueeze var where
    """.split()
)
PAIRS = frozenset({"max", "min", "median", "sort", "mode"})  # with dim= they give values and indices
OF_JAX = {
    **{f"torch.{name}": f"jnp.{name}" for name in ("argmax", "argmin", "exp", "log", "mean", "sum", "where", "abs")},
    **{f"torch.{name}": f"jax.nn.{name}" for name in ("softmax", "log_softmax", "logsumexp", "sigmoid")},
    **{f"torch.nn.functional.{name}": f"jax.nn.{name}" for name in ("softmax", "log_softmax", "sigmoid")},
}
KEYWORDS = {"dim": "axis", "keepdim": "keepdims"}
IMPORTS = {"jnp": "import jax.numpy as jnp", "jax": "import jax"}
REASON = "the same of a JAX array"


@dataclass(frozen=True)
class Respelling:
    """What takes the place of a part of the source."""

    start: int
    end: int
    code: str


@step(Phase.WRITE, of="trainer", reads=("names",), fills=("parts",))
def write_logit_function(porting: Porting) -> None:
    """The function of a trainer whose port computes metrics."""
    given = porting.trainer.argument("preprocess_logits_for_metrics") if porting.trainer is not None else None
    if given is not None and not given.value.is_literal(None) and computes_metrics(porting):
        porting.code["preprocess_logits"] = _code(porting, given)


def _code(porting: Porting, argument: Argument) -> str:
    """The code of preprocess_logits_for_metrics in the port; the function is respelled where it stands."""
    module, site = porting.module, porting.trainer
    assert site is not None and argument.node is not None
    start, end = module.span(argument.node)
    text, offset = argument.text, 0
    for function in _functions(porting, argument.node):
        if not isinstance(function, cst.FunctionDef | cst.Lambda):
            name = shown(module.code(function))
            message = f"preprocess_logits_for_metrics: {name} isn't of this file; in the port it gets JAX arrays."
            fix = "Write it with jax.numpy (axis=, not dim=)."
            porting.find(site.rule, "warning", message, fix, *module.location(argument.node), True)
            continue
        reader = _Reader(porting)
        function.visit(reader)
        for node in reader.foreign:
            line, column = module.location(node)
            message = f"{shown(module.code(node))}: preprocess_logits_for_metrics gets JAX arrays, not torch's tensors."
            reason = "it does with torch what has no plain counterpart"
            porting.change_fate(".preprocess_logits_for_metrics", fate="manual", target="", reason=reason)
            porting.find(site.rule, "error", message, "Write it with jax.numpy.", line, column)
        for part in sorted(reader.parts, key=lambda part: part.start):
            porting.imports.update(line for name, line in IMPORTS.items() if f"{name}." in part.code)
            if start <= part.start < end:
                at = part.start - start + offset
                text = text[:at] + part.code + text[at + part.end - part.start :]
                offset += len(part.code) - (part.end - part.start)
            elif not any((edit.start, edit.end) == (part.start, part.end) for edit in porting.edits):
                porting.edit(part.start, part.end, part.code, site.rule, REASON)
    return text


def _functions(porting: Porting, node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The functions that an expression may stand for; what the file doesn't show as it is."""
    if isinstance(node, cst.IfExp):
        yield from _functions(porting, node.body)
        yield from _functions(porting, node.orelse)
        return
    if isinstance(node, cst.Lambda) or (isinstance(node, cst.Name) and node.value == "None"):
        yield from (node,) if isinstance(node, cst.Lambda) else ()
        return
    bindings = bindings_of(porting.module, node) if isinstance(node, cst.Name | cst.Attribute) else []
    if not bindings or any(binding.kind == "import" for binding in bindings):
        yield node
    for binding in bindings:
        if isinstance(binding.node, cst.FunctionDef):
            yield binding.node
        elif binding.kind == "assign" and binding.value is not None and binding.value is not node:
            yield from _functions(porting, binding.value)
        elif binding.kind != "import":
            yield node


class _Reader(cst.CSTVisitor):
    """What of a function is torch's: `parts` to respell, `foreign` without a plain counterpart."""

    def __init__(self, porting: Porting) -> None:
        self.module = porting.module
        self.parts: list[Respelling] = []
        self.foreign: list[cst.CSTNode] = []

    def visit_Annotation(self, node: cst.Annotation) -> bool:
        self._annotation(node.annotation)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        name = self.module.qualified(node.func)
        if name in OF_JAX:
            self._respell(node.func, OF_JAX[name])
            self._keywords(node)
        elif isinstance(node.func, cst.Attribute) and not self._names_module(node.func):
            self._method(node, node.func)
        else:
            return True
        for argument in node.args:
            argument.visit(self)
        if name not in OF_JAX and isinstance(node.func, cst.Attribute):
            node.func.value.visit(self)
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        name = self.module.qualified(node)
        if name is not None and name.split(".", 1)[0] == "torch":
            self.foreign.append(node)
            return False
        return True

    def visit_Name(self, node: cst.Name) -> None:
        if (self.module.qualified(node) or "").startswith("torch."):
            self.foreign.append(node)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Subscript):
            self.foreign.append(node.target)  # a JAX array can't be changed in place

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        if isinstance(node.target, cst.Subscript):
            self.foreign.append(node.target)

    def _method(self, call: cst.Call, method: cst.Attribute) -> None:
        name = method.attr.value
        by_axis = any(argument.keyword is not None and argument.keyword.value == "dim" for argument in call.args)
        if name in OF_TORCH or (name in PAIRS and (by_axis or call.args)):
            self.foreign.append(call)
        elif name in GONE and not call.args:
            self.parts.append(Respelling(self.module.span(method.value)[1], self.module.span(call)[1], ""))
        elif name in METHODS and not call.args:
            self.parts.append(Respelling(self.module.span(method.attr)[0], self.module.span(call)[1], METHODS[name]))
        else:
            if name in RENAMED:
                self._respell(method.attr, RENAMED[name])
            self._keywords(call)

    def _keywords(self, call: cst.Call) -> None:
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value in KEYWORDS:
                self._respell(argument.keyword, KEYWORDS[argument.keyword.value])

    def _annotation(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Attribute) and self.module.qualified(node) == "torch.Tensor":
            self._respell(node, "jax.Array")
            return
        for child in node.children:
            self._annotation(child)

    def _respell(self, node: cst.CSTNode, new: str) -> None:
        start, end = self.module.span(node)
        self.parts.append(Respelling(start, end, new))

    def _names_module(self, node: cst.Attribute) -> bool:
        """Whether an attribute is one of an imported module, `np.where`, and not of a value."""
        return self.module.qualified(node) is not None
