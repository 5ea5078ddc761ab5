"""Conditions that ask an installed release what it takes: answered as the release that the script is read as.

    if "tokenizer" in inspect.signature(SFTTrainer.__init__).parameters:
        kwargs["tokenizer"] = tokenizer
    else:
        kwargs["processing_class"] = tokenizer

Such a script is written for several releases; one of them decides everything in the port. The TPU machine has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from ...releases.history import LIBRARIES, history
from ...source.conditions import simplified
from ...source.module import Module
from ...source.values import DECIDED, Unknown, evaluate
from ..dating.refused_tries import refused_tries
from ..script.dead_blocks import REFUSED
from ..script.fill_from_tables import plain_version
from ..script.porting import Porting
from ..script.training import Training
from ..settling.decisions import decide
from ..settling.kept_branch import keep_block
from ..steps.step import Phase, step

ASKS = re.compile(r"\bsignature\(|\bgetfullargspec\(|__dataclass_fields__|\bfields\(|co_varnames|\bhasattr\(")
WRAPS = ("set", "list", "tuple", "dict", "sorted", "frozenset")
MEMBERS = ("parameters", "args", "__code__", "co_varnames", "__init__", "__dataclass_fields__", "kwonlyargs")
LOOKS = ("signature", "getfullargspec", "fields")
MAX_DEPTH = 8


RULE = "TP008"
REASON = "answered as the release that the script is read as"


def answer_release_tests(porting: Training) -> bool:
    """Note what every such condition answers, and which `try` goes on in its `except`; whether there is one."""
    module = porting.module
    if not porting.versions:
        return False
    refused = refused_tries(porting)
    found = dict(_answers(module, porting.versions)) if ASKS.search(module.text) is not None else {}
    if found or refused:
        module.memory.clear()
        module.memory[DECIDED], module.memory[REFUSED] = found, refused
    return bool(found or refused)


@step(Phase.ANSWER, fills=("claimed names",))
def settle_release_tests(porting: Porting) -> None:
    """The branches that the release takes are kept; what only asked for its parameters goes."""
    module = porting.module
    answers: Mapping[cst.BaseExpression, bool] = module.memory.get(DECIDED, {})
    for branch in [branch for branch in module.parents if isinstance(branch, cst.If)] if answers else ():
        _keep_taken(porting, branch, answers)
    for node in answers:
        if not porting.covered(module.span(node)[0]):
            decide(porting, node, answers.get, RULE, REASON)
    for node in answers:
        if isinstance(node, cst.Comparison):
            _drop_unread(porting, node.comparisons[0].comparator)


def _keep_taken(porting: Porting, holder: cst.If, answers: Mapping[cst.BaseExpression, bool]) -> None:
    """Of `if "a" in taken: ... elif "b" in taken: ... else: ...` the block that runs."""
    module = porting.module
    above = module.parents[holder]
    if isinstance(above, cst.If) and above.orelse is holder:
        return
    branch: cst.If | cst.Else | None = holder
    while isinstance(branch, cst.If):
        answer = simplified(module, branch.test, answers.get)
        if not isinstance(answer, bool):
            return
        if answer:
            break
        branch = branch.orelse
    if branch is holder or branch is None:
        return  # `decide` keeps the first block, or takes the statement out
    head = module.span(branch.test)[1] if isinstance(branch, cst.If) else module.span(branch)[0] + len("else")
    keep_block(porting, holder, branch.body, head, RULE, REASON)


def _drop_unread(porting: Porting, asked: cst.BaseExpression | None) -> None:
    """`parameters = inspect.signature(SFTTrainer.__init__).parameters`, which nothing reads any more."""
    module = porting.module
    while asked is not None:
        binding = module.single_binding(asked) if isinstance(asked, cst.Name) else None
        if isinstance(asked, cst.Name) and binding is not None and binding.value is not None:
            uses = module.references(asked.value, module.scope(binding.node))
            if all(porting.covered(module.span(use)[0]) for use in uses) and not porting.covered(
                module.span(binding.node)[0]
            ):
                porting.remove_statement(binding.value, RULE, REASON)
            asked = binding.value
        elif isinstance(asked, cst.Call) and asked.args:
            asked = asked.args[0].value
        else:
            asked = asked.value if isinstance(asked, cst.Attribute) else None


def _answers(module: Module, versions: Mapping[str, str]) -> Iterator[tuple[cst.BaseExpression, bool]]:
    for node in module.parents:
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            part = node.comparisons[0]
            if isinstance(part.operator, cst.In | cst.NotIn):
                taken = _takes(module, versions, node.left, _asked(module, part.comparator))
                if taken is not None:
                    yield node, taken is isinstance(part.operator, cst.In)
        elif isinstance(node, cst.Call) and module.code(node.func) == "hasattr" and len(node.args) == 2:
            name = module.qualified(node.args[0].value) or ""
            if name.rpartition(".")[2].endswith(("Config", "Arguments")):
                taken = _takes(module, versions, node.args[1].value, name)
                if taken is not None:
                    yield node, taken


def _takes(module: Module, versions: Mapping[str, str], word: cst.BaseExpression, name: str | None) -> bool | None:
    """Whether a class takes a keyword in its release; None where that isn't known."""
    library, _, rest = (name or "").partition(".")
    last = rest.rpartition(".")[2]
    if library not in LIBRARIES or library not in versions or last not in history().record(library).data["calls"]:
        return None
    try:
        keyword = evaluate(module, word)
    except Unknown:
        return None
    others = {one: plain_version(said) for one, said in versions.items() if one in LIBRARIES}
    version = others.pop(library)
    return history().takes(library, version, last, keyword, **others) if isinstance(keyword, str) else None


def _asked(module: Module, node: cst.BaseExpression, depth: int = 0) -> str | None:
    """The class whose parameters an expression lists: `set(inspect.signature(SFTTrainer.__init__).parameters)`."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, cst.SetComp | cst.ListComp | cst.GeneratorExp) and not node.for_in.ifs:
        named = module.code(node.elt) in (module.code(node.for_in.target), f"{module.code(node.for_in.target)}.name")
        return _asked(module, node.for_in.iter, depth + 1) if named else None
    if isinstance(node, cst.Call):
        called = module.code(node.func).rsplit(".", 1)[-1]
        if called in LOOKS and node.args:
            return _class(module, node.args[0].value)
        if called in WRAPS and len(node.args) == 1:
            return _asked(module, node.args[0].value, depth + 1)
        if called == "keys" and isinstance(node.func, cst.Attribute):
            return _asked(module, node.func.value, depth + 1)
        return None
    if isinstance(node, cst.Attribute) and node.attr.value in MEMBERS:
        if node.attr.value in ("__dataclass_fields__", "__code__"):
            return _class(module, node.value)
        return _asked(module, node.value, depth + 1)
    binding = module.single_binding(node) if isinstance(node, cst.Name) else None
    if binding is None or binding.kind != "assign" or binding.value is None:
        return None
    return _asked(module, binding.value, depth + 1)


def _class(module: Module, node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.Attribute) and node.attr.value == "__init__":
        node = node.value
    return module.qualified(node)
