"""Unsloth's `trainer = train_on_responses_only(trainer, instruction_part=..., response_part=...)`.

It labels the rows of a trainer that is already made; the port hands the same mask to the batches, `label_mask=`.
"""

from __future__ import annotations

import libcst as cst

from ....recipe import Origin, Value
from ...script.porting import Porting
from ...script.sites import Argument, Site, read_site
from ...script.training import Training

RESPONSES_ONLY = "TP720"
NAME = "unsloth.train_on_responses_only"
POSITIONAL = ("trainer", "instruction_part", "response_part", "force_match")


def responses_only(porting: Training, trainer: Site) -> Site | None:
    """The call that masks the rows of `trainer`."""
    module = porting.module
    for call in module.calls_by_name.get(NAME, ()) if trainer.variable is not None else ():
        site = read_site(module, call, "mask", RESPONSES_ONLY, NAME, POSITIONAL)
        given = site.argument("trainer")
        if given is not None and given.text == trainer.variable:
            return site
    return None


def read_responses_only(porting: Training, trainer: Site) -> None:
    """Say what can't be ported: parts that are made behind the trainer."""
    site = responses_only(porting, trainer)
    assert site is not None
    if _parts(porting, site) is None:
        message = "train_on_responses_only: instruction_part and response_part can't be read where the trainer is made."
        fix = 'Write both as text, such as "<|im_start|>user\\n", and port again.'
        porting.find(RESPONSES_ONLY, "error", message, fix, site.line, site.column)
    elif (match := site.argument("force_match")) is not None and not match.value.is_literal(True):
        message = f"force_match={match.text}: Unsloth looks for the parts' common tokens; the port for all of them."
        fix = "Check that the answers are found, with force_match=True on the GPU."
        porting.find(RESPONSES_ONLY, "warning", message, fix, match.line, match.column)


def write_responses_only(porting: Porting) -> None:
    """The mask becomes `label_mask=rt.ResponsesOnly(...)`, and its statement goes."""
    trainer = porting.trainer
    site = responses_only(porting, trainer) if trainer is not None else None
    parts = _parts(porting, site) if site is not None else None
    if site is None or trainer is None or parts is None:
        return
    tokenizer = trainer.argument("processing_class", "tokenizer")
    name = tokenizer.text if tokenizer is not None else porting.names.tokenizer or "tokenizer"
    said = f"{parts[0]}, {parts[1]}, {name}" if parts[0] else f"tokenizer={name}"
    code = f"{porting.rt('ResponsesOnly')}({said})"
    porting.fill({"data.collator": Value("expression", code, Origin("", site.line, site.column, RESPONSES_ONLY), code)})
    porting.remove_statement(site.node, RESPONSES_ONLY, "the batches mask the same tokens: label_mask=")


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
