"""A trainer that trains more than once: transformers' starts anew at every call of train(), Tunix's is done.

    for epoch in range(3):
        trainer.train()
        report(trainer.evaluate())

trains three times under transformers, each with its own schedule from the weights, and the moments, of the one before.
`rt.start_anew(trainer)` in front of each does the same; where it can't, a person is asked.
"""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, argument_of, calls_of, function_around, inside, origins, role_uses, set_by_name
from porter.packs.training import Training, launched_as, table_of

PART_OF = "trl"
RULE = "TP111"
KINDS = ("sft", "causal-lm", "dpo", "orpo", "cpo", "kto")
# What the optimizer holds, which transformers makes once: a change of it does nothing any more.
KEPT = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "optim")
DEEPEST = 8  # functions that call each other
LEAVES = (cst.Return, cst.Raise, cst.Break, cst.Continue)


def trained_again(porting: Training) -> tuple[cst.Call, ...]:
    """The calls of train() that come again, in a loop around them or behind another one, in the order of the file.

    One in a function comes wherever that is called, with this trainer.
    """
    module = porting.module
    if porting.trainer is None or porting.loop is not None:
        return ()
    found = (use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()")
    ways = [way for call in found if isinstance(call, cst.Call) for way in _ways(porting, call)]
    ways.sort(key=lambda way: [module.span(place)[0] for place in reversed(way)])
    again = {way[0] for way in ways if any(_repeats(porting, place) for place in way)}
    again |= {later[0] for earlier, later in pairwise(ways) if not _come_instead(porting, earlier, later)}
    return tuple(sorted(again, key=lambda call: module.span(call)[0]))


def _ways(porting: Training, call: cst.Call) -> list[tuple[cst.Call, ...]]:
    """The calls by which the run comes to a call of train(), from it outwards to the function that makes the trainer.

    Where a function trains what it is given, those that give it another trainer are left out.
    """
    module, trainer = porting.module, porting.trainer
    assert trainer is not None and isinstance(call.func, cst.Attribute)
    made_in, found = function_around(module, trainer.node), list[tuple[cst.Call, ...]]()
    pending: list[tuple[tuple[cst.Call, ...], cst.BaseExpression | None]] = [((call,), call.func.value)]
    while pending:
        way, held = pending.pop()
        function = function_around(module, way[-1])
        outer = calls_of(module, function) if function is not None and function is not made_in else []
        if function is None or not outer or len(way) > DEEPEST:
            found.append(way)
            continue
        named = {each.name.value for each in (*function.params.params, *function.params.kwonly_params)}
        is_given = isinstance(held, cst.Name) and held.value in named
        for each in outer:
            given = argument_of(module, each, module.code(held)) if held is not None and is_given else None
            if each not in way and (given is None or trainer.node in {*origins(module, given)}):
                pending.append(((*way, each), given))
    return found


def _come_instead(porting: Training, earlier: tuple[cst.Call, ...], later: tuple[cst.Call, ...]) -> bool:
    """The same as `_instead` of the outermost calls in which two ways differ."""
    differ = ((one, other) for one, other in zip(reversed(earlier), reversed(later), strict=False) if one is not other)
    return _instead(porting, *next(differ, (earlier[0], later[0])))


def why_not_anew(porting: Training) -> str:
    """What keeps a trainer from training again as the GPU run's did; nothing where it can."""
    assert porting.trainer is not None
    if table_of(porting, porting.trainer).kind not in KINDS:
        return "The port of a trainer that samples has its rounds planned from the start"
    if launched_as(porting) in ("fsdp", "deepspeed") or porting.known("mesh.fsdp") or porting.known("mesh.zero"):
        return "Under FSDP and DeepSpeed the optimizer of the time before isn't kept as it was"
    if porting.resumes:
        return "What a later time resumes from is decided where the trainer is made"
    return ""


@step(Phase.NAME, of="trainer")
def say_trained_again(porting: Porting) -> None:
    """Name the first call of train() that comes again, where the port's trainer can't."""
    again = trained_again(porting)
    reason = why_not_anew(porting) if again else ""
    if again and not reason:
        _say_changed(porting)
    for call in again[:1] if reason else ():
        message = (
            "train() is called again here: transformers starts anew each time, from the weights and moments of the "
            f"time before; Tunix's trainer has made its max_steps then, and trains nothing. {reason}."
        )
        fix = "Train once with as many epochs, or make batches, optimizer and trainer anew for each time."
        porting.find(RULE, "error", message, fix, *porting.module.location(call))


def _say_changed(porting: Porting) -> None:
    """Settings that the script changes behind the trainer: a later training of transformers' reads them anew."""
    module, site = porting.module, porting.trainer
    assert site is not None
    arguments = {porting.arguments_object, porting.config.variable if porting.config is not None else ""} - {"", None}
    for node in inside(module.tree):
        held, name = _set(module, node)
        if held not in arguments or name in KEPT or module.span(node)[0] < module.span(site.node)[1]:
            continue
        message = f"{held}.{name} is changed behind the trainer: transformers reads it when train() is called "
        message += "again; the port's batches, schedule and trainer are those of the first time."
        fix = "Make them anew for that training, or leave the setting as it is."
        porting.find(RULE, "error", message, fix, *module.location(node))


def _set(module: Module, node: cst.CSTNode) -> tuple[str, str]:
    """The object whose attribute a line sets, and which: `args.max_steps = 5`, `setattr(args, "max_steps", 5)`."""
    target = node.target if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign) else None
    if isinstance(target, cst.Attribute):
        return module.code(target.value), target.attr.value
    given = set_by_name(module, node)
    if given and isinstance(name := given[1], cst.SimpleString):
        return module.code(given[0]), str(name.evaluated_value)
    return "", ""


def _repeats(porting: Training, call: cst.Call) -> bool:
    """Whether a loop that the trainer isn't made in goes around a call, and goes on behind it."""
    assert porting.trainer is not None
    made_in = set(porting.module.ancestors(porting.trainer.node))
    below: cst.CSTNode = call
    for ancestor in porting.module.ancestors(call):
        if isinstance(ancestor, cst.FunctionDef) or ancestor in made_in:
            return False
        if isinstance(ancestor, cst.For | cst.While):
            return not _made_anew(porting, ancestor, call)
        if isinstance(ancestor, cst.IndentedBlock) and _is_left(ancestor, below, (cst.Return, cst.Raise, cst.Break)):
            return False  # a loop that tries until it has trained
        below = ancestor
    return False


def _made_anew(porting: Training, loop: cst.For | cst.While, call: cst.Call) -> bool:
    """Whether each round makes the trainer that `call` trains, or is given, by the function that makes it."""
    module, trainer = porting.module, porting.trainer
    maker = function_around(module, trainer.node) if trainer is not None else None
    makes = calls_of(module, maker) if maker is not None else []
    receiver = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    held = {module.code(node) for node in (*receiver, *(argument.value for argument in call.args))}
    for statement in loop.body.body if isinstance(loop.body, cst.IndentedBlock) else ():
        if call in {*inside(statement)}:
            return False
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Assign) and small.value in makes:
                if held & {module.code(target.target) for target in small.targets}:
                    return True
    return False


def _instead(porting: Training, earlier: cst.Call, later: cst.Call) -> bool:
    """Whether the later call runs only where the earlier one didn't, or failed."""
    module = porting.module
    if function_around(module, earlier) is not function_around(module, later):
        return True
    around = [later, *module.ancestors(later)]
    below: cst.CSTNode = earlier
    for ancestor in module.ancestors(earlier):
        if ancestor in around:
            other = around[around.index(ancestor) - 1]
            if isinstance(ancestor, cst.Try | cst.TryStar):
                return isinstance(other, cst.ExceptHandler | cst.ExceptStarHandler)
            return isinstance(ancestor, cst.If | cst.IfExp) and below is not other
        if isinstance(ancestor, cst.IndentedBlock) and _is_left(ancestor, below, LEAVES):
            return True
        below = ancestor
    return False


def _is_left(block: cst.IndentedBlock, statement: cst.CSTNode, ways: tuple[type[cst.CSTNode], ...]) -> bool:
    """Whether a block is left behind one of its statements."""
    behind = block.body[block.body.index(statement) :] if statement in block.body else ()
    lines = [line for line in behind if isinstance(line, cst.SimpleStatementLine)]
    return any(isinstance(small, ways) for line in lines for small in line.body)
