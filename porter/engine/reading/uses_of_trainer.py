"""What the script does with its trainer that its writer has to know: whether it evaluates, resumes, is given away."""

from __future__ import annotations

import libcst as cst

from ..script.following.may_be_none import is_none_somewhere
from ..script.training import Training
from ..script.uses_of_training import Use, is_in_reach, role_uses
from ..steps.step import Phase, step
from .checkpoints.resuming import resumed_from


@step(
    Phase.READ,
    of="trainer",
    reads=("model", "inject", "branch_injects", "foreign_model", "arguments_object", "values"),
    fills=(
        "evaluates",
        "evaluates_its_own",
        "only_evaluates",
        "given_away",
        "used_elsewhere",
        "resumes",
        "resumes_from",
        "resume_test",
    ),
)
def read_uses(porting: Training) -> None:
    """The lines behind the trainer."""
    uses_of_trainer = list(role_uses(porting, "trainer"))
    if not any(use.match == "@trainer.train()" for use in uses_of_trainer) and _is_given_away(porting, uses_of_trainer):
        porting.used_elsewhere = porting.given_away = True
    trains: list[cst.Call] = []
    for use in uses_of_trainer:
        if use.kind != "bare" and not is_in_reach(porting, use.name):
            porting.used_elsewhere = True
        if use.match == "@trainer.evaluate()":
            porting.evaluates = True
            porting.evaluates_its_own = porting.evaluates_its_own or not _is_given_rows(porting, use)
        if use.match == "@trainer.train()":
            assert isinstance(use.outer, cst.Call)
            trains.append(use.outer)
    porting.only_evaluates = porting.evaluates and not trains and _is_seen(porting, uses_of_trainer)
    porting.resumes = resumed_from(porting, trains)


def _is_given_rows(porting: Training, use: Use) -> bool:
    """Whether a call of `evaluate()` surely names the rows itself, and leaves the trainer's alone."""
    call = use.outer
    if not isinstance(call, cst.Call):
        return False
    given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "eval_dataset"]
    return bool(given) and not is_none_somewhere(porting.module, given[0])


def _is_seen(porting: Training, uses: list[Use]) -> bool:
    """Whether all that is done with the trainer is read here: nothing is given it, and no other file has its name."""
    name = porting.trainer.variable if porting.trainer is not None else None
    if name is None or "." in name or name in porting.options.imported or porting.used_elsewhere:
        return False
    return all(use.kind != "bare" for use in uses)


def _is_given_away(porting: Training, uses: list[Use]) -> bool:
    """Whether the trainer leaves its function: it is returned, or an attribute of `self`."""
    site = porting.trainer
    assert site is not None
    nodes = [site.node, *(use.name for use in uses)]
    returned = any(isinstance(porting.module.parents[node], cst.Return) for node in nodes)
    return returned or (site.variable is not None and "." in site.variable)
