"""Loops over the model's parameters that only print or log them: by name, shape, type, or whether they are trained.

    for name, param in model.named_parameters():
        if param.requires_grad:
            print(name, param.shape)

Tunix's parameters have other names and shapes, and none of torch's attributes: such a loop goes, and is named.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, inside, role_uses, small_statement

PART_OF = "TP210"
REASON = "prints names and shapes that torch's model has"
MESSAGE = "This loop only prints torch's parameters; Tunix's have other names and shapes, and the loop goes."
FIX = "rt.print_trainable_parameters(model) says how many are trained; nnx.state(model) has them all."
SUMMARIES = ("torchinfo.summary", "torchsummary.summary")
WALKS = frozenset({"named_modules", "modules", "named_parameters", "parameters"})
LOGS = frozenset("print info debug warning log".split())
# What such a loop may call beside them and still change nothing.
PLAIN = LOGS | frozenset(
    """any all dim element_size endswith format hasattr int is_available isinstance len list lower max min nelement
    numel replace round size sorted split startswith str strip sum tuple type upper""".split()
)
# What a walk over Tunix's parameters answers (`_counting_loops`): types and sizes, where no name is asked for.
ANSWERED = frozenset({"dtype", "numel", "nelement"})


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_printed_parameters(porting: Porting) -> None:
    """Take out the loops over the model's parameters or layers that only show them."""
    module = porting.module
    for use in list(role_uses(porting)):
        chain = use.chain.removeprefix("model.") if use.role == "trainer" else use.chain
        if use.kind != "call" or chain not in WALKS:
            continue
        walked = _walked(module, use.outer)
        loop = module.parents[walked]
        if not isinstance(loop, cst.For) or loop.iter is not walked or small_statement(module, loop)[0] is not None:
            continue
        blocks = [loop.body, *([loop.orelse.body] if loop.orelse is not None else [])]
        shows = any(_is_shown(module, node) for node in inside(loop))
        if not shows or not all(_only_shows(module, block) for block in blocks):
            continue
        if not _answered(module, loop) and _is_alone(module, loop):
            porting.remove_statement(loop, PART_OF, REASON)
            porting.find(PART_OF, "info", MESSAGE, FIX, *module.location(loop))


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_summaries(porting: Porting) -> None:
    """Take out `summary(model)` of torchinfo and torchsummary, which prints torch's layers."""
    module = porting.module
    for use in list(role_uses(porting, "model")):
        call = module.parents[module.parents[use.name]]
        if use.kind != "bare" or not isinstance(call, cst.Call) or module.qualified(call.func) not in SUMMARIES:
            continue
        shown: cst.CSTNode = call
        if isinstance(around := module.parents[call], cst.Arg) and _is_shown(module, module.parents[around]):
            shown = module.parents[around]
        if isinstance(module.parents[shown], cst.Expr) and call.args[0].value is use.name:
            porting.remove_statement(shown, PART_OF, REASON)
            message = f"{module.code(call.func)} only prints torch's layers; Tunix's have other names, and it goes."
            porting.find(PART_OF, "info", message, FIX, *module.location(call))


def _walked(module: Module, walk: cst.CSTNode) -> cst.CSTNode:
    """What a loop goes through: the walk, or `enumerate(list(walk)[:10])` around it."""
    while True:
        above = module.parents[walk]
        call = module.parents[above]
        if isinstance(above, cst.Arg) and isinstance(call, cst.Call) and call.args[0] is above:
            if module.code(call.func) not in ("enumerate", "list", "islice", "itertools.islice"):
                return walk
            walk = call
        elif isinstance(above, cst.Subscript) and above.value is walk:
            walk = above
        else:
            return walk


def _only_shows(module: Module, block: cst.BaseSuite) -> bool:
    """Whether the statements of a block print, log, count in names of their own, or end the loop."""
    for item in block.body:
        if isinstance(item, cst.If):
            branch: cst.If | cst.Else | None = item
            while branch is not None:
                if isinstance(branch, cst.If) and not _is_plain(module, branch.test):
                    return False
                if not _only_shows(module, branch.body):
                    return False
                branch = branch.orelse if isinstance(branch, cst.If) else None
            continue
        smalls = item.body if isinstance(item, cst.SimpleStatementLine) else [item]
        if not all(isinstance(small, cst.BaseSmallStatement) and _shows(module, small) for small in smalls):
            return False
    return True


def _shows(module: Module, statement: cst.BaseSmallStatement) -> bool:
    match statement:
        case cst.Break() | cst.Continue() | cst.Pass():
            return True
        case cst.Expr():
            return _is_shown(module, statement.value) and _is_plain(module, statement)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())]) | cst.AugAssign(target=cst.Name()):
            return _is_plain(module, statement)
    return False


def _is_shown(module: Module, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and _called(module, node) in LOGS


def _is_plain(module: Module, node: cst.CSTNode) -> bool:
    """Whether evaluating changes nothing, as far as its calls tell."""
    nodes = [node, *inside(node)]
    calls = all(_called(module, each) in PLAIN for each in nodes if isinstance(each, cst.Call))
    return calls and not any(isinstance(each, cst.NamedExpr | cst.Await | cst.Yield) for each in nodes)


def _called(module: Module, call: cst.Call) -> str:
    return module.code(call.func).rsplit(".", 1)[-1]


def _answered(module: Module, loop: cst.For) -> bool:
    """Whether a loop asks for no name, and for nothing but types and sizes."""
    names = [each.value for each in [loop.target, *inside(loop.target)] if isinstance(each, cst.Name)]
    code = module.code(loop.body)
    asked = set(re.findall(rf"\b{names[-1]}\b(?:\.(\w+))?", code)) if names else set()
    return asked <= ANSWERED and not any(re.search(rf"\b{name}\b", code) for name in names[:-1])


def _is_alone(module: Module, loop: cst.For) -> bool:
    """Whether nothing else reads the names that a loop binds; other loops that bind them anew may."""
    scope = module.scope(loop)
    targets = [loop.target, *inside(loop.target)]
    for node in inside(loop):
        if isinstance(node, cst.AssignTarget | cst.AugAssign):
            targets.append(node.target)
    for name in {node.value for node in targets if isinstance(node, cst.Name)}:
        for read in module.references(name, scope):
            around = [*module.ancestors(read)]
            if loop in around:
                continue
            if not any(isinstance(above, cst.For) and name in _bound(above) for above in around):
                return False
    return True


def _bound(loop: cst.For) -> set[str]:
    return {node.value for node in [loop.target, *inside(loop.target)] if isinstance(node, cst.Name)}
