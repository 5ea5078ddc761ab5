"""Statements of a training loop that aren't part of the standard one: do they only look on, or take part in training?

Progress bars, prints, logging, saving and evaluation look on. What sets the learning rate, the gradients, the weights
or the batch takes part, and so may a function that is given the model or the optimizer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from ....source.calls import calls_of, function_around, parameter_of
from ....source.module import Module
from ....source.scopes import inside
from ...script.sites import is_of_gpu_library
from ..statements.advice import FILTER, SCHEDULE
from ..statements.blocks import is_backward, last_name
from ..statements.not_standard import NotStandard
from .altered import altered, changed_by, one_of, root_of, targets

# Methods that change nothing of the model, the optimizer and the schedule.
READS = (
    "get_last_lr", "get_lr", "state_dict", "param_groups", "parameters", "named_parameters", "device", "dtype",
    "config", "module", "print_trainable_parameters", "get_scale", "get_global_grad_norm", "state", "train",
    "num_parameters", "modules", "named_modules", "unwrap_model", "items", "values", "keys",
)  # fmt: skip
SAVES = ("save_pretrained", "save_state", "save_model", "save_checkpoint", "push_to_hub")
IN_ITS_WAY = ("requires_grad_", "load_state_dict", "load_adapter", "register_hook", "load_checkpoint", "load_state")
# Words in the name of a function that gets the model: it only looks at it, unless another says that it acts on it.
LOOKS = frozenset(
    "eval evaluate evaluation valid validate validation val test infer inference generate generation sample samples "
    "sampling predict predictions perplexity ppl accuracy metric metrics score scores save saving checkpoint ckpt log "
    "logging logs print report show plot stat stats statistics count summary summarize monitor track memory unwrap "
    "logprobs logps barrier wait hash check push upload export progress".split()
)
ACTS = frozenset(
    "set add apply update prune clip freeze unfreeze reset init load scale normalize divide sync average resize merge "
    "convert quantize cast swap copy checkpointing".split()
)
BUILTINS = frozenset("getattr hasattr isinstance len id type sum print repr str".split())
NORMS = re.compile(r"(?:grad|gradient|weight|param|parameter)s?_norms?$")
LEFT_OUT, BY_HAND = "some batches are left out", "the learning rate is set by hand, not by a schedule"
FIXES = {LEFT_OUT: FILTER, BY_HAND: SCHEDULE}
FINITE = {"isfinite": True, "isnan": False, "isinf": False}
TOKENIZERS = re.compile(r"tok|processor", re.IGNORECASE)
IDLE_SETTINGS = re.compile(r"\.config\.use_cache$|\.generation_config\.\w+$")  # which no step of the training reads
DEEPEST = 3  # functions that call one another
EVALUATES = ("evaluate", "validate", "eval_loop", "evaluation", "validation")


class Watching:
    """What the statements of a loop do besides. `trained`: names of the model, the optimizer and the schedule."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._parts: set[str] = set()  # names of one parameter, or one group, of what is trained

    def obstacles(self, line: cst.CSTNode, trained: set[str], held: set[str]) -> Iterator[NotStandard]:
        """Where a statement takes part in the training; `held`: names that hold the batch or the loss before it."""
        said: set[cst.CSTNode] = set()
        for node in inside(line):
            why, nested = "", self._nested(node, line)
            if isinstance(node, cst.Call):
                why = self._of_call(node, trained) or self._changes(node, held)
            elif isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Del):
                why = self._of_assignment(node, trained, held)
            elif isinstance(node, cst.Continue) and cst.For not in nested and not self._guards(node):
                why = LEFT_OUT
            if why:
                said.add(node)
                yield NotStandard(node, why, FIXES.get(why, ""))
        self._parts |= one_of(line, trained)
        for node in altered(self.module, line, trained, self._parts):
            if node not in said:
                code = " ".join(self.module.code(node).split())
                yield NotStandard(node, f"`{code}` changes what is trained, or how")

    def _nested(self, node: cst.CSTNode, line: cst.CSTNode) -> set[type[cst.CSTNode]]:
        """Whether a node of `line` stands in a loop or a function of its own there."""
        found: set[type[cst.CSTNode]] = set()
        outside = self.module.parents[line]
        for parent in itertools.takewhile(lambda each: each is not outside, self.module.ancestors(node)):
            found |= {cst.For} if isinstance(parent, cst.For | cst.While) else set()
            found |= {cst.FunctionDef} if isinstance(parent, cst.FunctionDef) else set()
        return found

    def _saves(self, call: cst.Call) -> bool:
        """Whether a call saves: by its name, or `save` of a GPU library."""
        last = last_name(call.func)
        return last in SAVES or (last == "save" and is_of_gpu_library(self.module, call.func))

    def _of_call(self, node: cst.Call, trained: set[str]) -> str:
        last, full = last_name(node.func), self.module.code(node.func)
        owner = self.module.code(node.func.value) if isinstance(node.func, cst.Attribute) else ""
        if last == "backward" or last in IN_ITS_WAY:
            return f"`{full}` takes part in the training in a way of its own"
        if self._saves(node):
            return ""
        function = self.module.callees.get(node)
        if function is not None and any(is_backward(each) for each in inside(function.body)):
            return f"`{full}` trains as well"
        if last in ("clip_grad_norm_", "clip_grad_value_"):
            return f"`{full}` clips gradients in a way of its own"
        if re.search(r"\.(?:grad|data)\b", owner) and last.endswith("_"):
            return f"`{full}` changes gradients or weights"
        head = owner if owner in trained else owner.split(".", 1)[0]
        if head in trained and last not in (*READS, "eval", "generate"):
            return f"`{full}` may change what is trained"
        given = {self.module.code(argument.value) for argument in node.args}
        if given & trained and head not in trained and not (_only_looks(last) and self._leaves(node, trained)):
            name = sorted(given & trained)[0]
            return f"`{full}` gets `{name}`, and may change it"
        return "" if head in trained or self._leaves(node, trained) else f"`{full}` changes what is trained, or how"

    def _leaves(self, call: cst.Call, trained: set[str], depth: int = 0) -> bool:
        """Whether a function of the file leaves the model and the optimizer as they are: those that it gets, and those
        that it takes from the file."""
        function = self.module.callees.get(call)
        if function is None or depth > DEEPEST:
            return True
        taken = [parameter_of(self.module, each, call) for each in call.args if self.module.code(each.value) in trained]
        own = self.module.scopes[function].bindings
        names = {*(name for name in taken if name is not None), *(trained - own.keys())}
        if any(altered(self.module, function.body, names)):
            return False
        return not any(self._takes_part(node, names, depth) for node in inside(function.body))

    def _takes_part(self, node: cst.CSTNode, names: set[str], depth: int) -> bool:
        """Whether a node of a function changes what is trained, which has these names there."""
        if isinstance(node, cst.Call):
            owner = root_of(node.func.value) if isinstance(node.func, cst.Attribute) else ""
            if owner in names and last_name(node.func) in (*IN_ITS_WAY, "step"):
                return True
            return changed_by(self.module, node) in names or not self._leaves(node, names, depth + 1)
        if not isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Del):
            return False
        let_go = all(IDLE_SETTINGS.search(self.module.code(part)) for part in targets(node))
        return changed_by(self.module, node) in names and not let_go

    def _changes(self, call: cst.Call, held: set[str]) -> str:
        """Why a call changes the batch or the loss in place: a method of it, or a function that is given it."""
        if (name := changed_by(self.module, call)) in held:
            return f"`{name}` is changed between the batch and the step"
        function = self.module.callees.get(call)
        changed = {changed_by(self.module, node) for node in inside(function.body)} if function is not None else set()
        for argument in call.args if changed - {""} else ():
            name = root_of(argument.value)
            if name in held and parameter_of(self.module, argument, call) in changed:
                return f"`{self.module.code(call.func)}` changes `{name}` between the batch and the step"
        return ""

    def _of_assignment(
        self, node: cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Del, trained: set[str], held: set[str]
    ) -> str:
        for target in targets(node):
            if isinstance(node, cst.Del) and isinstance(target, cst.Name):
                continue  # a name alone
            text = self.module.code(target)
            head = root_of(target)
            if text.endswith((".grad", ".data")):
                return f"`{text}` is changed between the batch and the step"
            if re.search(r"""\[["'](?:lr|weight_decay|initial_lr)["']\]$""", text):
                return BY_HAND
            if IDLE_SETTINGS.search(text):
                continue
            if text in trained or head in trained or head in held:
                return f"`{head if text not in trained else text}` is changed between the batch and the step"
        return ""

    def kinds(self, line: cst.CSTNode, model: str) -> Iterator[tuple[cst.CSTNode, str]]:
        """What a statement that looks on does, each kind once with its place: saving, evaluation (where it calls
        `model`, too), sampling, an end of its own, or logging where it does no more."""
        found: dict[str, cst.CSTNode] = {}
        for node in inside(line):
            if isinstance(node, cst.Call):
                if model and self.module.code(node.func) == model:
                    found.setdefault("evaluation", node)
                for what in self._of_function(node, 0):
                    found.setdefault(what, node)
            elif isinstance(node, cst.Break | cst.Return) and self._ends(node, line):
                found.setdefault("stopping", node)
            elif isinstance(node, cst.Continue) and self._guards(node):
                found.setdefault("guard", node)
        yield from ((node, what) for what, node in found.items()) if found else [(line, "logging")]

    def _ends(self, node: cst.CSTNode, line: cst.CSTNode) -> bool:
        """Whether a `break` or `return` of a statement ends the loop that it stands in."""
        nested = self._nested(node, line)
        return (cst.FunctionDef if isinstance(node, cst.Return) else cst.For) not in nested

    def _guards(self, node: cst.CSTNode) -> bool:
        """Whether a `continue` leaves out a batch whose loss isn't finite."""
        around = [node, *self.module.ancestors(node)]
        holder = next((parent for parent in around if isinstance(parent, cst.If)), None)
        names = inside(holder.test) if holder is not None else ()
        if holder is None or not any(isinstance(name, cst.Name) and name.value in FINITE for name in names):
            return False
        return _is_bad(holder.test, holds=holder.body in around)

    def catches_memory(self, line: cst.Try) -> bool:
        """Whether a `try` around a step is there for a GPU that runs out of memory."""
        texts = [self.module.code(handler).lower() for handler in line.handlers]
        plain = line.orelse is None and line.finalbody is None
        return plain and all("outofmemory" in text or "out of memory" in text for text in texts)

    def _of_function(self, call: cst.Call, depth: int) -> Iterator[str]:
        """What a call does: by its name, or by what the function of the file does that it calls."""
        last = last_name(call.func)
        if self._saves(call) or re.match(r"_*save_\w*(?:model|checkpoint|ckpt|adapter)", last):
            yield "saving"
        elif last == "eval" or last.lstrip("_").startswith(EVALUATES) or last.endswith(EVALUATES):
            yield "evaluation"
        elif last == "generate":
            yield "sampling"
        else:
            function = self.module.callees.get(call)
            for node in inside(function.body) if function is not None and depth < DEEPEST else ():
                if isinstance(node, cst.Call):
                    yield from self._of_function(node, depth + 1)


def is_saved_elsewhere(module: Module, gone: Sequence[cst.CSTNode]) -> bool:
    """Whether anything but nodes that go saves a model, itself or in a function that is called elsewhere."""
    watching = Watching(module)

    def stays(node: cst.CSTNode) -> bool:
        return not any(parent in gone for parent in module.ancestors(node))

    for call in module.calls:
        owner = module.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        if not watching._saves(call) or TOKENIZERS.search(owner) or not stays(call):
            continue
        function = function_around(module, call)
        calls = calls_of(module, function) if function is not None else []
        if function is None or any(map(stays, calls)):
            return True
    return False


def _is_bad(test: cst.BaseExpression, *, holds: bool) -> bool:
    """Whether a condition that holds, or doesn't, says that a number isn't finite, or isn't there."""
    match test:
        case cst.UnaryOperation(operator=cst.Not() | cst.BitInvert()):
            return _is_bad(test.expression, holds=not holds)
        case cst.BooleanOperation() | cst.BinaryOperation(operator=cst.BitOr() | cst.BitAnd()):
            found = [_is_bad(part, holds=holds) for part in (test.left, test.right)]
            return all(found) if isinstance(test.operator, cst.Or | cst.BitOr) is holds else any(found)
        case cst.Comparison(comparisons=[cst.ComparisonTarget(cst.Is(), cst.Name("None"))]):
            return holds
        case cst.Comparison(comparisons=[cst.ComparisonTarget(cst.GreaterThan(), cst.Integer("0"))]):
            return _is_bad(test.left, holds=holds)  # `.sum() > 0`
        case cst.Call(func=func):
            if (finite := FINITE.get(last_name(func))) is not None:
                return finite is not holds
            return isinstance(func, cst.Attribute) and not test.args and _is_bad(func.value, holds=holds)
    return False


def _only_looks(name: str) -> bool:
    """Whether a function of this name changes nothing of the model that it gets."""
    words = set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    return name in BUILTINS or NORMS.search(name) is not None or bool(words & LOOKS and not words & ACTS)
