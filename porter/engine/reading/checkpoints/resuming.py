"""Whether a run resumes, where the script decides it behind its trainer: Tunix resumes when the trainer is made.

    checkpoint = None
    if training_args.resume_from_checkpoint is not None:
        checkpoint = training_args.resume_from_checkpoint
    elif last_checkpoint is not None:
        checkpoint = last_checkpoint
    trainer.train(resume_from_checkpoint=checkpoint)

resumes from `training_args.resume_from_checkpoint or last_checkpoint`, which can be said at the trainer. So can the
condition of

    if list(pathlib.Path(training_args.output_dir).glob("checkpoint-*")):
        trainer.train(resume_from_checkpoint=True)
    else:
        trainer.train()

which is `rt.get_last_checkpoint(training_args.output_dir)`, as Orbax names its checkpoints by their step alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from ....recipe import Value
from ....source.read_value import read_value
from ....text.expressions import choice, names_in
from ...script.flow import origins
from ...script.porting import Porting
from ...script.training import Training
from ...steps.step import Phase, step
from .checkpoint_tests import decided_by_checkpoints
from .decided_later import chosen_behind, is_there, start
from .own_checkpoints import finds_last

RULE = "TP111"
NAMED = "checkpoint-"  # how transformers' checkpoints begin


def resumed_from(porting: Training, calls: Sequence[cst.Call]) -> str:
    """What the calls of train() resume from, as code that can stand at the trainer; empty where none of them does."""
    module = porting.module
    asked = [(call, value) for call in calls if (value := _asked(porting, call)) is not None]
    if not asked:
        return ""
    call, value = asked[-1]
    fresh = [other for other in calls if other not in [one for one, _ in asked]]
    condition = _condition(porting, call, fresh) if fresh else None
    if condition is None:
        return resume_code(porting, value)
    test, holds = condition
    folder = f"{porting.rt('get_last_checkpoint')}({porting.output_dir()})"
    if test is None or _is_of_checkpoints(porting, test) or _is_last(porting, test):
        if test is not None and not isinstance(test, cst.Name):
            asks = folder if holds else f"not {folder}"
            porting.resume_test = test, asks
        return folder
    code = " ".join(module.code(test).split())
    if not is_there(porting, code, test):
        line, column = module.location(value)
        message = f"resume_from_checkpoint={module.code(value)}: it hangs on {code}, which is not known at the trainer."
        fix = "Decide it before the trainer, which resumes when it is made."
        porting.find(RULE, "error", message, fix, line, column)
    elif NAMED in code:
        _say_names(porting, value)
    code = code if holds else f"not ({code})"
    code = _of_runtime(porting, code)
    if module.code(value) == "True":
        is_bool = not holds or isinstance(test, cst.Comparison) or not porting.arguments_object
        return code if is_bool else f"bool({code})"
    return f"({choice(code, resume_code(porting, value), 'None')})"


@step(Phase.WRITE, of="trainer")
def write_resume_test(porting: Porting) -> None:
    """Ask for checkpoints where the script does, as Orbax names them."""
    if porting.resume_test is not None:
        test, asks = porting.resume_test
        porting.edit(*porting.module.span(test), asks, RULE, "Orbax names its checkpoints by their step")


def _of_runtime(porting: Training, code: str) -> str:
    """Code that asks transformers for its last checkpoint asks for Orbax's."""
    return re.sub(r"(?<![\w.])get_last_checkpoint\(", f"{porting.rt('get_last_checkpoint')}(", code)


def _say_names(porting: Training, value: cst.BaseExpression) -> None:
    text = porting.module.code(value)
    message = f"resume_from_checkpoint={text}: Orbax names its checkpoints by their step, not checkpoint-500."
    fix = "Look for them with rt.get_last_checkpoint(folder)."
    porting.find(RULE, "error", message, fix, *_place(porting, value))


def _say_last(porting: Training, value: cst.BaseExpression) -> None:
    text = porting.module.code(value)
    message = f"resume_from_checkpoint={text}: Orbax names its checkpoints by their step, not checkpoint-500."
    message += f" The port looks for the last one in {porting.output_dir()}."
    porting.find(RULE, "info", message, "", *_place(porting, value))


def _asked(porting: Training, call: cst.Call) -> cst.BaseExpression | None:
    """What a call of train() is told to resume from."""
    for argument in call.args:
        named = argument.keyword is None or argument.keyword.value == "resume_from_checkpoint"
        if named and porting.module.code(argument.value) not in ("None", "False"):
            return argument.value
    return None


def _condition(
    porting: Training, call: cst.Call, fresh: Sequence[cst.Call]
) -> tuple[cst.BaseExpression | None, bool] | None:
    """What decides that this call trains and not one that starts anew, and whether it must hold; None for a try."""
    assert porting.trainer is not None
    around = set(porting.module.ancestors(porting.trainer.node))
    below: cst.CSTNode = call
    for ancestor in porting.module.ancestors(call):
        if ancestor in around:
            return None
        others = [other for other in fresh if ancestor in porting.module.ancestors(other)]
        apart = not any(below in porting.module.ancestors(other) for other in fresh)
        if isinstance(ancestor, cst.Try) and others and below is ancestor.body:
            return None, True
        ends = below is getattr(ancestor, "body", None) and _leaves(below)
        if isinstance(ancestor, cst.If) and apart and (others or ends):
            return ancestor.test, below is ancestor.body
        below = ancestor
    return None


def _leaves(block: cst.CSTNode) -> bool:
    """Whether a block ends with a return."""
    last = block.body[-1] if isinstance(block, cst.IndentedBlock) else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)


def _is_of_checkpoints(porting: Training, test: cst.BaseExpression) -> bool:
    """Whether a condition asks, and asks nothing else, whether transformers left a checkpoint."""
    if isinstance(test, cst.BooleanOperation):
        return False
    return any(NAMED in porting.module.code(value) for value in origins(porting.module, test))


def _is_last(porting: Training, test: cst.BaseExpression) -> bool:
    return not isinstance(test, cst.BooleanOperation) and finds_last(porting, test) == "last"


def resume_code(porting: Training, value: cst.BaseExpression) -> str:
    """What train() is told to resume from, as code that can stand at the trainer; a finding where there is none."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    value = _or_none(porting, value)
    text = module.code(value)
    sources = [read_value(module, origin) for origin in origins(module, value)]
    if not read_value(module, value).known and any(map(is_checkpoint, sources)):  # of what is known its row says so
        message = f"resume_from_checkpoint={text}: a checkpoint of transformers' Trainer can't be read by Orbax."
        fix = "Resume from the output directory of a run of the port, whose checkpoints Orbax names by their step."
        porting.find(RULE, "error", message, fix, *_place(porting, value))
        return text
    decided = decided_by_checkpoints(porting, value)
    if decided is not None:
        if isinstance(value, cst.Name):
            porting.resume_test = decided.asked, decided.asks
            if is_there(porting, text, value):
                return text
        if not is_there(porting, decided.names, decided.asked):
            _say_later(porting, value)
        return decided.code
    looked_for = finds_last(porting, value)
    if looked_for == "elsewhere" and isinstance(value, cst.IfExp) and (asked := _asks_on_condition(porting, value)):
        _say_last(porting, value)
        return asked
    if looked_for == "last":
        _say_last(porting, value)
        return f"{porting.rt('get_last_checkpoint')}({porting.output_dir()})"
    found = module.meaning(value)
    chosen = chosen_behind(porting, value)
    if looked_for and (chosen is not None or _asks_in_front(porting, value)) and porting.resume_test is not None:
        _say_last(porting, value)
    elif looked_for:
        _say_names(porting, value)
    if not isinstance(value, cst.Name):
        if not is_there(porting, text, value):
            _say_later(porting, value)
        porting.resumes_from = not _is_bool(value)
        text = _of_runtime(porting, text)
        return f"({text})" if isinstance(value, cst.IfExp | cst.Lambda | cst.NamedExpr) else text
    porting.resumes_from = not any(_is_bool(origin) for origin in origins(module, value))
    if found is None:
        return text
    later = [item for item in found[1] if item.kind != "parameter" and start(porting, item) > trainer.statement_start]
    if not later:
        if not is_there(porting, text, value):
            _say_elsewhere(porting, value)
        return text
    if chosen is not None:
        if NAMED in chosen:
            _say_names(porting, value)
        return _of_runtime(porting, chosen)
    _say_later(porting, value)
    return text


def is_checkpoint(value: Value | None) -> bool:
    """Whether a value is the name of a folder that transformers' Trainer saves a run in: `out/checkpoint-500`."""
    named = value.literal if value is not None and value.known else None
    return isinstance(named, str) and re.fullmatch(rf"(?:.*[/\\])?{NAMED}\d+[/\\]?", named) is not None


def _is_bool(value: cst.BaseExpression) -> bool:
    """Whether an expression is True or False, and surely no path."""
    negated = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not)
    return negated or isinstance(value, cst.Comparison) or (isinstance(value, cst.Name) and value.value == "True")


def _say_later(porting: Training, value: cst.BaseExpression) -> None:
    text = porting.module.code(value)
    message = f"resume_from_checkpoint={text}: it is set after the trainer, which resumes when it is made."
    porting.find(RULE, "error", message, f"Set {text} before the trainer.", *_place(porting, value))


def _say_elsewhere(porting: Training, value: cst.BaseExpression) -> None:
    text = porting.module.code(value)
    message = (
        f"resume_from_checkpoint={text}: it isn't known in the function that makes the trainer, which resumes there."
    )
    porting.find(RULE, "error", message, f"Hand {text} to that function.", *_place(porting, value))


def _place(porting: Training, value: cst.BaseExpression) -> tuple[int, int]:
    return porting.module.location(value)


def _or_none(porting: Training, value: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x if x else None` and of `x or None`."""
    module = porting.module
    if isinstance(value, cst.IfExp) and module.code(value.orelse) in ("None", "False"):
        tested = module.code(value.test).removesuffix(" is not None")
        return value.body if tested == module.code(value.body) else value
    if isinstance(value, cst.BooleanOperation) and isinstance(value.operator, cst.Or):
        return value.left if module.code(value.right) in ("None", "False") else value
    return value


def _asks_in_front(porting: Training, value: cst.BaseExpression) -> bool:
    """Whether a variable is `find_last(OUTPUT)` in front of the trainer where the script wants to resume, else None: it
    may ask for Orbax's there."""
    module = porting.module
    found = module.meaning(value)
    made = [item.value if item.kind == "assign" else None for item in found[1]] if found is not None else []
    made = [each.body if isinstance(each, cst.IfExp) and _is_none(each.orelse) else each for each in made]
    calls = [each for each in made if each is not None and not _is_none(each)]
    if None in made or len(calls) != 1 or not isinstance(calls[0], cst.Call) or finds_last(porting, calls[0]) != "last":
        return False
    folder = porting.output_dir()
    known = all(module.scope(calls[0]).lookup(name) is not None for name in names_in(folder))
    if known:
        porting.resume_test = calls[0], f"{porting.rt('get_last_checkpoint')}({folder})"
    return known


def _asks_on_condition(porting: Training, value: cst.IfExp) -> str:
    """`train(resume_from_checkpoint=find_last(OUTPUT) if args.resume else None)` as it stands at the trainer; empty for
    another folder, or where something isn't known there."""
    if not _is_none(value.orelse) or not isinstance(value.body, cst.Call) or finds_last(porting, value.body) != "last":
        return ""
    test, folder = porting.module.code(value.test), porting.output_dir()
    if not all(is_there(porting, code, value) for code in (test, folder)):
        return ""
    last = f"{porting.rt('get_last_checkpoint')}({folder})"
    return f"({choice(test, last, 'None')})"


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"
