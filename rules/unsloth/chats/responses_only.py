"""train_on_responses_only(trainer, ...): Unsloth's mask of everything but the answers.

What it does: the batches get `label_mask=rt.ResponsesOnly(...)`, and the call goes. Parts that the call doesn't give
are read off the tokenizer's chat template, as Unsloth does. Releases before 2025.3.9 look for the tokens of a part that
stay whatever stands around it, and train the line end behind the assistant's header: `force_match=False`. With
`last_response_only=True` the last answer of a row alone is trained. A call under a condition is a mask under it:
`label_mask=rt.ResponsesOnly(...) if args.mask else None`. Beside another trainer than SFTTrainer, or with
`mask_out_tokens`, a person is asked.
Why: which tokens train is a part of the data here, and Tunix's trainer has no dataset to change.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Origin, Phase, Porting, Site, Value, step
from porter.packs.script import origins, role_uses
from porter.packs.training import Training, short_name, table_of
from porter.packs.writing import read_site

from .._release import is_before, unsloth_version
from ._conditions import NEVER, condition_at

ID = "TP720"

MATCHES_ALL = "2025.3.9"  # the first release that looks for all tokens of a part
ENDS_ANEW = "2024.9"  # the first that trains the answers alone

NAME = "unsloth.train_on_responses_only"
PARAMETERS = (
    *("trainer", "instruction_part", "response_part", "force_match", "tokenizer", "return_function", "num_proc"),
    *("last_response_only", "mask_out_tokens"),
)


def responses_only(porting: Training, trainer: Site) -> Site | None:
    """The call that masks the rows of `trainer`."""
    module = porting.module
    for call in module.calls_by_name.get(NAME, ()) if trainer.variable is not None else ():
        site = read_site(module, call, "mask", ID, NAME, PARAMETERS)
        given = site.argument("trainer")
        if given is not None and given.text == trainer.variable and trainer.node in set(origins(module, given.node)):
            return site
    return None


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "model", "inject", "branch_injects", "foreign_model"),
    fills=("masked_behind", "data.collator"),
)
def read_responses_only(porting: Training) -> None:
    """What the collator masks counts no more; parts that are made behind the trainer can't be ported."""
    trainer = porting.trainer
    site = responses_only(porting, trainer) if trainer is not None else None
    if trainer is None or site is None:
        return
    if not _masks_batches(porting, trainer):
        message = f"train_on_responses_only masks the rows of {short_name(trainer)}; the port does that for SFTTrainer."
        fix = "Give the rows labels before the trainer is made, -100 in front of each answer, and take the call out."
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    if condition_at(porting, trainer, site.node) == NEVER:
        return
    if (why := _why_elsewhere(porting, trainer, site)) is not None:
        message = f"train_on_responses_only {why}."
        fix = (
            "Let it run always, or never, right behind the trainer, under a condition that can be read in front of it."
        )
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    porting.masked_behind = True
    if trainer.argument("data_collator") is not None:
        reason = "rows are padded and masked by rt.SFTBatches(label_mask=)"
        porting.change_fate(".data_collator", fate="dropped", target="", reason=reason)
        porting.fill({"data.collator": Value("default", "None")})
        porting.withdraw(".data_collator")
    if _parts(porting, site) is None:
        message = "train_on_responses_only: instruction_part and response_part can't be read where the trainer is made."
        fix = 'Write both as text, such as "<|im_start|>user\\n", and port again.'
        porting.find(ID, "error", message, fix, site.line, site.column)
    elif (masked := site.argument("mask_out_tokens")) is not None and not masked.value.is_literal(None):
        message = f"mask_out_tokens={masked.text}: these tokens aren't trained on the GPU, and are in the port."
        porting.find(ID, "error", message, "Leave it out on both sides.", masked.line, masked.column)
    elif (last := site.argument("last_response_only")) is not None and _only_last(site) is None:
        message = f"last_response_only={last.text}: where it is True Unsloth trains the last answer of a row alone."
        porting.find(ID, "error", message, "Write it as True or False, and port again.", last.line, last.column)
    elif _matches_all(porting, site) is None and (match := site.argument("force_match")) is not None:
        message = f"force_match={match.text}: where it is False Unsloth trains the line end behind response_part, too."
        fix = "Write it as True or False, and port again."
        porting.find(ID, "warning", message, fix, match.line, match.column)
    else:
        _say_release(porting, site)


def _masks_batches(porting: Training, trainer: Site) -> bool:
    """Whether the trainer's batches take a mask of labels."""
    return table_of(porting, trainer).kind == "sft"


def _why_elsewhere(porting: Training, trainer: Site, site: Site) -> str | None:
    """Why the batches can't be told of the mask where they are made; None where they can."""
    condition = condition_at(porting, trainer, site.node)
    if condition is None:
        return "runs where a condition holds that can't be read where the trainer is made"
    if condition and trainer.argument("data_collator") is not None:
        return f"takes the place of data_collator where {condition}"
    trains = (use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()")
    start, scope = site.start, porting.module.scope(site.node)
    if any(porting.module.scope(call) is scope and porting.module.span(call)[0] < start for call in trains):
        return "comes behind a training, which masks nothing"
    return None


def _only_last(site: Site) -> bool | None:
    """Whether the last answer of a row alone is trained; None where the run decides it."""
    last = site.argument("last_response_only")
    return False if last is None else next((said for said in (True, False) if last.value.is_literal(said)), None)


def _say_release(porting: Training, site: Site) -> None:
    """What older releases of Unsloth train otherwise."""
    release = unsloth_version(porting)
    if is_before(porting, ENDS_ANEW):
        message = (
            f"Unsloth {release} also trains the instruction_part behind an answer, and no answer that is shorter than "
            "the parts; it leaves the evaluation's rows whole. The port trains and evaluates the answers alone."
        )
        porting.find(ID, "warning", message, "Expect other losses.", site.line, site.column)
    elif site.argument("force_match") is None and _matches_all(porting, site) is False:
        message = f"Read as Unsloth {release}, which trains the line end behind response_part, too: force_match=False."
        fix = "Pin its release (pip install unsloth==VERSION) if it was another."
        porting.find(ID, "info", message, fix, site.line, site.column)


def _matches_all(porting: Training, site: Site) -> bool | None:
    """Whether all tokens of the parts are looked for; None where the source's own word isn't known."""
    match = site.argument("force_match")
    if match is None:
        return is_before(porting, ENDS_ANEW) or not is_before(porting, MATCHES_ALL)
    return next((said for said in (True, False) if match.value.is_literal(said)), None)


@step(Phase.WRITE, of="trainer", reads=("names",), fills=("parts", "data.collator"))
def write_responses_only(porting: Porting) -> None:
    """The mask becomes `label_mask=rt.ResponsesOnly(...)`, and its statement goes."""
    trainer = porting.trainer
    site = responses_only(porting, trainer) if trainer is not None else None
    parts = _parts(porting, site) if site is not None else None
    if site is not None and trainer is not None and condition_at(porting, trainer, site.node) == NEVER:
        porting.remove_statement(site.node, ID, "it never runs")
        return
    if site is None or trainer is None or parts is None or not porting.masked_behind:
        return
    tokenizer = trainer.argument("processing_class", "tokenizer")
    name = tokenizer.text if tokenizer is not None else porting.names.tokenizer or "tokenizer"
    said = f"{parts[0]}, {parts[1]}, {name}" if parts[0] else f"tokenizer={name}"
    if _matches_all(porting, site) is False:
        said += ", force_match=False"
    if _only_last(site):
        said += ", last_response_only=True"
    code = f"{porting.rt('ResponsesOnly')}({said})"
    if condition := condition_at(porting, trainer, site.node):
        code = f"{code} if {condition} else None"
    porting.fill({"data.collator": Value("expression", code, Origin("", site.line, site.column, ID), code)})
    porting.remove_statement(site.node, ID, "the batches mask the same tokens: label_mask=")


def _parts(porting: Training, site: Site) -> tuple[str, str] | None:
    """The code of both parts as it can stand at the trainer, empty where the call has none; None where not known."""
    given = [site.argument("instruction_part"), site.argument("response_part")]
    if all(argument is None or argument.value.is_literal(None) for argument in given):
        return "", ""
    codes = [_code(porting, argument) for argument in given if argument is not None]
    return (codes[0], codes[1]) if len(codes) == 2 and codes[0] and codes[1] else None


def _code(porting: Training, argument: Argument) -> str:
    if argument.value.is_literal(None):
        return ""
    if isinstance(argument.node, cst.SimpleString | cst.ConcatenatedString):
        return argument.text
    binding = porting.module.single_binding(argument.node) if isinstance(argument.node, cst.Name) else None
    trainer = porting.trainer
    if binding is not None and trainer is not None and porting.module.span(binding.node)[0] < trainer.start:
        return argument.text
    return argument.value.code if argument.value.known else ""
