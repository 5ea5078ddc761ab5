"""torch.cuda.is_available(): decided as on the GPU, where it decides a setting or ends the run.

What it does: takes out guards (`if not torch.cuda.is_available(): raise ...`), and writes what the GPU run had where
the answer is a setting of the training (`bf16=torch.cuda.is_available()`); other uses are named.
Why: a TPU machine answers False, so that the port would end, or train in another precision than the source did.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    asks_for_gpu,
    bare,
    function_around,
    inside,
    is_elif,
    keep_branch,
    line_start,
    speaks_of_gpu,
)

from ..gpus_left.cuda_left import RAISING
from ._gpu_choices import settle_choices
from ._gpu_questions import (
    CAPABLE,
    ENDS,
    GUARD,
    HALF,
    REASON,
    SAYS,
    decision,
    is_on_gpu,
    is_question,
    known_value,
    on_gpu,
    small,
)
from ._gpu_settings import is_setting, sets, sets_and_says, settle, take_value, unwrap

ID = "TP526"
NO_GPU = ("False", "1", "-1")  # what a function that looks for one gives back


@step(Phase.ANSWER, reads=("gpu branches", "gpu reports"), fills=("claimed names", "gpu answers"))
def answer_gpu_tests(porting: Porting) -> None:
    """Guards go, settings get what the GPU run had; what else asks is named."""
    module = porting.module
    if not speaks_of_gpu(module):
        return
    branches = [node for node in module.parents if isinstance(node, cst.If)]
    for holder in branches:
        _drop_held_guard(porting, holder)
    for call in [call for call in module.calls if is_question(porting, call) or module.qualified(call.func) in HALF]:
        if porting.covered(module.span(call)[0]) or _drop_guard(porting, call):
            continue
        if is_question(porting, call) or module.qualified(call.func) == CAPABLE:
            settle(porting, call)
        if is_question(porting, call):
            if not porting.covered(module.span(call)[0]):
                take_value(porting, call)
    for holder in branches:
        if "cuda" in module.code(holder.test) and not porting.covered(module.span(holder.test)[0]):
            _keep_precision(porting, holder)
    settle_choices(porting)


def _keep_precision(porting: Porting, holder: cst.If) -> None:
    """`if device == "cuda": ...`, of which the `else:` switches half precision off: the first branch is the port's,
    where nothing of it is for a GPU."""
    other = holder.orelse
    if (
        known_value(porting, holder.test) is not True
        or not isinstance(other, cst.Else)
        or not sets(porting, other.body)
    ):
        return
    if is_elif(porting.module, holder):
        return
    if not any(is_on_gpu(porting, node) for node in inside(holder.body)):
        porting.edit(*porting.module.span(holder.test), "True", ID, REASON)


def _drop_guard(porting: Porting, call: cst.Call) -> bool:
    """`if not torch.cuda.is_available(): raise ...`, `assert torch.cuda.is_available()`, and an `else:` that raises."""
    module = porting.module
    test = decision(porting, call)
    holder, known = module.parents[test], on_gpu(porting, test)
    if isinstance(holder, cst.Assert) and holder.test is test and known is not None:
        if known is True:
            porting.remove_statement(call, ID, GUARD)
        else:
            porting.edit(*module.span(test), bare(str(known)), ID, REASON)
        return True
    if not isinstance(holder, cst.If) or holder.test is not test:
        return False
    alone = not is_elif(module, holder)
    if known is False and holder.orelse is None and _only_for_cpu(porting, holder.body):
        if not alone:
            return False
        porting.remove_statement(holder, ID, GUARD)
        return True
    if known is False and isinstance(holder.orelse, cst.Else) and alone:
        if _only_for_cpu(porting, holder.body) and _only_tells(porting, holder.orelse.body):
            porting.remove_statement(holder, ID, "tells of a GPU")
            return True
        if _only_for_cpu(porting, holder.body) and keep_branch(porting, holder, False, ID, GUARD):
            return True
    if known is True and _tells(porting, holder) and alone:
        porting.remove_statement(holder, ID, "tells of a GPU")
        return True
    of_gpu = not is_question(porting, call)  # a question that only a GPU can answer
    if known is True and (of_gpu or sets(porting, holder.body)):
        if not unwrap(porting, holder, any_value=of_gpu):
            porting.edit(*module.span(test), "True", ID, REASON)
        return True
    taken = holder.body if known is not False else holder.orelse.body if isinstance(holder.orelse, cst.Else) else None
    if known is not None and taken is not None and sets_and_says(porting, taken):
        porting.edit(*module.span(test), bare(str(known)), ID, REASON)
        return True
    if known is True and isinstance(holder.orelse, cst.Else) and _only_for_cpu(porting, holder.orelse.body):
        if any(isinstance(item, cst.Return) for item in small(holder.body)):  # what the function gives back is decided
            if _needs_gpu(porting, holder.body):
                return False
            porting.edit(*module.span(test), "True", ID, REASON)
            return True
        start = module.span(holder.orelse)[0]
        begin = line_start(module.text, start)
        porting.edit(begin, module.span(holder.orelse)[1], "", ID, GUARD)
        return True
    return False


def _drop_held_guard(porting: Porting, holder: cst.If) -> None:
    """`device = "cuda" if available() else "cpu"`, and then `if device == "cpu": args.quantize = False`."""
    module, test = porting.module, holder.test
    if (
        porting.covered(module.span(test)[0])
        or not asks_for_gpu(module, test)
        or known_value(porting, test) is not False
    ):
        return
    if isinstance(holder.orelse, cst.If) or is_elif(module, holder):
        return
    asks = any(is_question(porting, node) or node in module.callees for node in inside(test))
    if not asks and _only_for_cpu(porting, holder.body):
        keep_branch(porting, holder, False, ID, GUARD)


def _only_for_cpu(porting: Porting, body: cst.BaseSuite, guard: cst.BaseSuite | None = None) -> bool:
    """Whether a block only complains, asks, ends the run or switches settings off: nothing that other code needs."""
    guard = guard or body
    found = [
        _complains(porting, statement) or is_setting(porting, statement) or _asks(porting, statement, guard)
        for statement in small(body)
    ]
    return bool(found) and all(found)


def _asks(porting: Porting, statement: cst.CSTNode, guard: cst.BaseSuite) -> bool:
    """`answer = input("Go on without a GPU?")`, which the guard alone reads, and `if answer != "y": sys.exit(1)`."""
    module = porting.module
    if isinstance(statement, cst.If):
        other = statement.orelse
        blocks = [statement.body] if other is None or isinstance(other, cst.If) else [statement.body, other.body]
        more = not isinstance(other, cst.If) or _asks(porting, other, guard)
        return more and all(_only_for_cpu(porting, block, guard) for block in blocks)
    if isinstance(statement, cst.Expr):
        return isinstance(statement.value, cst.Call) and module.code(statement.value.func) == "input"
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0].target
    asked = any(isinstance(node, cst.Call) and module.code(node.func) == "input" for node in inside(statement.value))
    found = module.scope(statement).lookup(target.value) if isinstance(target, cst.Name) and asked else None
    if found is None or not isinstance(target, cst.Name):
        return False
    return all(guard in module.ancestors(use) for use in module.references(target.value, found[0]))


def _tells(porting: Porting, holder: cst.If) -> bool:
    """Whether an `if` prints what the GPU is or frees its memory, and at most complains where there is none."""
    other = holder.orelse
    if other is not None and not (isinstance(other, cst.Else) and _only_for_cpu(porting, other.body)):
        return False
    return _only_tells(porting, holder.body)


def _only_tells(porting: Porting, body: cst.BaseSuite) -> bool:
    calls = [item.value for item in small(body) if isinstance(item, cst.Expr)]
    return len(calls) == len(list(small(body))) and all(_tells_alone(porting, call) for call in calls)


def _tells_alone(porting: Porting, call: cst.BaseExpression) -> bool:
    """`print(f"{step}: {torch.cuda.memory_allocated()}")`, `torch.cuda.empty_cache()`."""
    if not isinstance(call, cst.Call):
        return False
    of_cuda = (porting.module.qualified(call.func) or "").startswith("torch.cuda.")
    return of_cuda or (
        porting.module.code(call.func).rsplit(".", 1)[-1] in SAYS and "torch.cuda." in porting.module.code(call)
    )


def _needs_gpu(porting: Porting, block: cst.CSTNode) -> bool:
    """Whether something of a block that stays raises where there is no GPU."""
    module = porting.module
    return any(
        (module.qualified(call.func) or "") in RAISING and not porting.covered(module.span(call)[0])
        for call in module.calls
        if block in module.ancestors(call)
    )


def _gives_up(porting: Porting, statement: cst.CSTNode) -> bool:
    """`return False`, `return 1`: a function that looks for a GPU tells its caller that there is none; `return` in one
    that trains, itself or by another function.

    It goes where nothing behind it needs a GPU.
    """
    if not isinstance(statement, cst.Return):
        return False
    function = function_around(porting.module, statement)
    return function is not None and gives_none(porting, statement) and not _needs_gpu(porting, function)


def gives_none(porting: Porting, statement: cst.Return) -> bool:
    """Whether a function gives back that there is no GPU, or ends so before its training."""
    said = porting.module.code(statement.value) if statement.value is not None else "None"
    if said != "None":
        return said in NO_GPU
    trains = {function_around(porting.module, site.node) for site in porting.sites if site.role == "trainer"}
    return _reaches(porting, function_around(porting.module, statement), trains)


def _reaches(porting: Porting, function: cst.FunctionDef | None, wanted: set[cst.FunctionDef | None]) -> bool:
    """Whether a function of the file is one of `wanted`, or calls one, others in between."""
    module = porting.module
    found, further = {function}, [function]
    while further:
        here = further.pop()
        if here is None or here in wanted:
            return here is not None
        inner = {callee for call, callee in module.callees.items() if here in module.ancestors(call)} - found
        found |= inner
        further += inner
    return False


def _complains(porting: Porting, statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.Raise | cst.Pass) or _gives_up(porting, statement):
        return True
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    name = porting.module.code(call.func)
    return name in ENDS or name.rsplit(".", 1)[-1] in SAYS
