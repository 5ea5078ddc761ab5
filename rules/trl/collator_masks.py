"""The collators that an SFTTrainer was given: TRL's mask of everything but the answers, and those of transformers.

What one of transformers' does there depends on what the release hands it: DataCollatorForLanguageModeling makes labels
of the tokens; the others pad or stack the labels that rows bring, and without any the GPU run ends at its first step.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Origin, Phase, Porting, Value, step
from porter.packs.script import (
    assigned_name,
    is_false,
    named_arguments,
    origins,
    plain_version,
    shown,
    version_key,
)
from porter.packs.training import Training, table_of

PART_OF = "trl"
RULE = "TP125"

COMPLETION_ONLY = "DataCollatorForCompletionOnlyLM"
DEFAULT = "transformers.DataCollatorForLanguageModeling"
PADS = "transformers.DataCollatorForSeq2Seq"
STACKS = ("transformers.DataCollatorWithPadding", "transformers.DefaultDataCollator")
REPLACED = (2025, 3, 18)  # the release of Unsloth that makes labels where a collator makes none
FUNCTION = "transformers.default_data_collator"
REFUSED = "TRL {} takes no collator beside rows that are run together: the GPU run ends"
ENDS = "the GPU run ends at its first step, as the model returns no loss without labels"


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "data.packing", "masked_behind", "rows_by"),
    fills=("data.collator",),
)
def read_mask(porting: Training) -> None:
    """`data_collator=DataCollatorForCompletionOnlyLM(...)` becomes `label_mask=`; what a release did anyway goes."""
    site = porting.trainer
    assert site is not None
    if table_of(porting, site).kind != "sft" or porting.masked_behind:
        return
    argument = site.argument("data_collator")
    if argument is None or argument.value.is_literal(None):
        return
    made = [node for node in origins(porting.module, argument.node) if isinstance(node, cst.Call)]
    name = porting.module.qualified(made[-1].func) if made else None
    version = plain_version(porting.versions.get("trl", ""))
    if name is not None and name.startswith("trl.") and name.endswith(f".{COMPLETION_ONLY}"):
        porting.change_fate(".data_collator", fate="exact", target="rt.SFTBatches(label_mask=)", reason="")
        packs = porting.known("data.packing", False) is True and version_key(version) < (0, 15)
        if packs or _runs_together(porting, version_key(version)):
            _say(porting, argument, f"TRL {version} refuses it beside rows that are packed: the GPU run ends")
            return
    elif name == DEFAULT and version_key(version) < (0, 16, 1) and _is_trainers_own(porting, made[-1]):
        _left_out(porting, argument, made, f"TRL {version} takes this collator anyway")
    elif name == DEFAULT and _runs_together(porting, version_key(version)):
        _say(porting, argument, REFUSED.format(version))
        porting.fill({"data.collator": Value("default", "None")})
        return
    elif name == DEFAULT and _masks_padding(porting, made[-1], packed=not porting.patched_by):
        _mask_padding(porting, argument, made[-1])
    elif not _is_labelled(porting, argument, made, name):
        porting.fill({"data.collator": Value("default", "None")})
        return
    porting.withdraw(".data_collator")


def _is_labelled(porting: Training, argument: Argument, made: list[cst.Call], name: str | None) -> bool:
    """Whether it is one of transformers' that make no labels, used as it comes, whose batches the port can make."""
    function = argument.node is not None and porting.module.qualified(argument.node) == FUNCTION
    known = function or name in STACKS or (name == PADS and not _further(porting, made[-1]))
    return known and _labelled(porting, argument, FUNCTION if function or name is None else name, made)


def _further(porting: Training, call: cst.Call) -> list[str]:
    """Keywords of a DataCollatorForSeq2Seq that would make other batches."""
    same = {"padding": ("True", '"longest"', "'longest'"), "label_pad_token_id": ("-100",), "max_length": ("None",)}
    places = ("tokenizer", "model", "padding", "max_length", "pad_to_multiple_of", "label_pad_token_id")
    given = {name: porting.module.code(value) for name, value in named_arguments(call, places).items()}
    return [name for name, code in given.items() if name in same and code not in same[name]]


def _runs_together(porting: Training, key: tuple[int, ...]) -> bool:
    """Whether TRL makes one row of a batch's, for which it takes no collator of the script's."""
    if porting.patched_by:  # Unsloth has ways of its own
        return False
    padded = ("wrapped", "bfd-requeue") if key < (1,) else ("wrapped",)
    packs = porting.known("data.packing", False) is True and key >= (0, 19)
    return porting.known("data.padding_free") is True or (
        packs and porting.known("data.packing_strategy") not in padded
    )


def _labelled(porting: Training, argument: Argument, kind: str, made: list[cst.Call]) -> bool:
    """What the batches are told of a collator that makes no labels; False where a person is asked."""
    version = plain_version(porting.versions.get("trl", ""))
    key, packs = version_key(version), porting.known("data.packing", False) not in (False, None)
    name = kind.rpartition(".")[2]
    if packs and porting.patched_by:
        return False
    if _runs_together(porting, key):
        _say(porting, argument, REFUSED.format(version))
        return False
    if packs and key < (0, 15):
        reason = f"TRL {version} packs rows of one length with labels of their own, which {name} leaves as they are"
        return _left_out(porting, argument, made, reason)
    if kind == PADS and key >= (1, 7):
        reason = f"TRL {version} gives the rows their labels, which {name} pads as its own does"
        return _left_out(porting, argument, made, reason)
    if packs or (0, 17) <= key < (0, 19):
        _say(porting, argument, f"{name} makes no labels, and TRL {version} hands it none: {ENDS}")
        return False
    tokenizer = _own_tokenizer(porting, made[-1]) if kind == PADS else ""
    if kind == PADS and version_key(porting.rows_by or "0") >= REPLACED and tokenizer and not _names_labels(porting):
        code = f"{porting.rt('IgnorePadding')}({tokenizer}, mlm=False)"
        reason = "Unsloth puts DataCollatorForLanguageModeling in its place where rows have no labels"
        return _told(porting, argument, made, code, reason)
    if key >= (1, 7) and not _names_labels(porting):
        _say(porting, argument, f"{name} pads no labels, and rows have several lengths: the GPU run ends there")
        return False
    if not _names_labels(porting):
        _say(porting, argument, f"{name} makes no labels, and nothing here gives the rows any: {ENDS}")
        return False
    return _told(porting, argument, made, f"{porting.rt('OwnLabels')}()", "the rows' own labels are trained")


def _tokenizer(porting: Training) -> str:
    """The code of the trainer's tokenizer; an empty text where it is given none."""
    given = porting.trainer.argument("processing_class", "tokenizer") if porting.trainer is not None else None
    return given.text if given is not None else ""


def _names_labels(porting: Training) -> bool:
    """Whether the script names a column `labels`."""
    return any(word in porting.module.text for word in ('"labels"', "'labels'", "labels="))


def _say(porting: Training, argument: Argument, message: str) -> None:
    porting.change_fate(".data_collator", fate="manual", target="", reason=message)
    fix = "Leave data_collator= out, with which the port makes labels as TRL does; or don't pack the rows."
    porting.withdraw(".data_collator")
    message = f"data_collator={shown(argument.text)}: {message}."
    porting.find(RULE, "error", message, fix, argument.line, argument.column)


def _told(porting: Training, argument: Argument, made: list[cst.Call], code: str, reason: str) -> bool:
    """The batches get another mask in a collator's place."""
    if made and argument.node is not made[-1]:
        porting.collator_made = made[-1], code
    else:
        origin = Origin("", argument.line, argument.column, RULE)
        porting.fill({"data.collator": Value("expression", code, origin, code)})
    porting.change_fate(".data_collator", fate="exact", target="rt.SFTBatches(label_mask=)", reason=reason)
    return True


def _left_out(porting: Training, argument: Argument, made: list[cst.Call], reason: str) -> bool:
    """A collator that makes the batches that the release makes without it."""
    if made and argument.node is not made[-1]:
        porting.collator_made = made[-1], ""
    porting.change_fate(".data_collator", fate="dropped", target="", reason=reason)
    porting.fill({"data.collator": Value("default", "None")})
    return True


def _is_trainers_own(porting: Training, call: cst.Call) -> bool:
    """Whether a release that makes this collator itself makes the same: `mlm=False` of the trainer's tokenizer, without
    packing.

    A trainer without a tokenizer loads its own, whose end token pads; packed rows bring labels of their own.
    """
    packed = porting.known("data.packing", False) not in (False, None)
    given = _own_tokenizer(porting, call)
    return not packed and bool(given) and given == _tokenizer(porting) and _is_causal(porting, call)


def _own_tokenizer(porting: Training, call: cst.Call) -> str:
    """The code of a collator's own tokenizer, `tokenizer=` or its first argument; an empty text where it has none."""
    given = named_arguments(call, ("tokenizer",)).get("tokenizer")
    return porting.module.code(given) if given is not None else ""


def _masks_padding(porting: Training, call: cst.Call, *, packed: bool) -> bool:
    """Whether transformers' collator changes no more than that: a causal model, rows that are trained whole.

    `packed`: it does so with packed rows, too, as releases did that handed it whole rows of tokens.
    """
    partly = ("data.assistant_only_loss", "data.completion_only_loss", *(() if packed else ("data.packing",)))
    whole = all(porting.known(place, False) in (False, None) for place in partly)
    return whole and _is_causal(porting, call)


def _is_causal(porting: Training, call: cst.Call) -> bool:
    """Whether a DataCollatorForLanguageModeling is `mlm=False`, and is given nothing that changes labels."""
    given = named_arguments(call, ("tokenizer", "mlm"))
    known = given.keys() <= {"tokenizer", "mlm", "return_tensors", "pad_to_multiple_of"}
    return known and "mlm" in given and is_false(given["mlm"])


def _mask_padding(porting: Training, argument: Argument, call: cst.Call) -> None:
    """`DataCollatorForLanguageModeling(tokenizer, mlm=False)`: tokens like the padding are not trained."""
    module = porting.module
    if argument.node is call:
        end = module.span(call.func)[1]
        code = porting.rt("IgnorePadding") + module.text[end : module.span(call)[1]]
        porting.fill(
            {"data.collator": Value("expression", code, Origin("", argument.line, argument.column, RULE), code)}
        )
    else:
        porting.padding_mask = call
    reason = "tokens equal to the padding token, such as an end token that pads, are not trained"
    porting.change_fate(".data_collator", fate="exact", target="rt.SFTBatches(label_mask=)", reason=reason)


@step(Phase.WRITE, of="trainer", reads=("names",))
def write_padding_mask(porting: Porting) -> None:
    """The collator of a variable becomes the runtime's, which masks the same; one that changes nothing goes."""
    if porting.padding_mask is not None:
        span = porting.module.span(porting.padding_mask.func)
        porting.edit(*span, porting.rt("IgnorePadding"), RULE, "the same tokens are masked, on the host")
    if porting.collator_made is None:
        return
    call, code = porting.collator_made
    if code:
        porting.edit(*porting.module.span(call), code, RULE, "the same tokens are trained")
        return
    name = assigned_name(porting.module, call)
    if name is not None and len(list(porting.module.references(name, porting.module.scope(call)))) == 1:
        porting.remove_statement(call, RULE, "the port's batches need no collator")
