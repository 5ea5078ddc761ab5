"""The collators that an SFTTrainer was given: TRL's mask of everything but the answers, transformers' own default."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Origin, Phase, Porting, Site, Value, step
from porter.packs.script import origins, plain_version, version_key
from porter.packs.training import Training, table_of

PART_OF = "trl"
RULE = "TP125"

COMPLETION_ONLY = "DataCollatorForCompletionOnlyLM"
DEFAULT = "transformers.DataCollatorForLanguageModeling"


@step(Phase.READ, of="trainer", reads=("script values", "masked_behind"), fills=("data.collator",))
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
    elif name == DEFAULT and version_key(version) < (0, 16, 1) and _is_trainers_own(porting, site, made[-1]):
        reason = f"TRL {version} takes this collator anyway"
        porting.change_fate(".data_collator", fate="dropped", target="", reason=reason)
        porting.fill({"data.collator": Value("default", "None")})
    elif name == DEFAULT and _masks_padding(porting, made[-1], packed=version_key(version) < (0, 16, 1)):
        _mask_padding(porting, argument, made[-1])
    else:
        porting.fill({"data.collator": Value("default", "None")})
        return
    porting.withdraw(".data_collator")


def _is_trainers_own(porting: Training, site: Site, call: cst.Call) -> bool:
    """Whether a release that makes this collator itself makes the same: of the trainer's tokenizer, without packing.

    A trainer without a tokenizer loads its own, whose end token pads; packed rows bring labels of their own.
    """
    module = porting.module
    if porting.known("data.packing", False) not in (False, None) or not call.args:
        return False
    named = (each.value for each in call.args if each.keyword is not None and each.keyword.value == "tokenizer")
    collators = next(named, call.args[0].value if call.args[0].keyword is None else None)
    trainers = next((site.argument(name) for name in ("tokenizer", "processing_class") if site.argument(name)), None)
    return collators is not None and trainers is not None and module.code(collators) == trainers.text


def _masks_padding(porting: Training, call: cst.Call, *, packed: bool) -> bool:
    """Whether transformers' collator changes no more than that: a causal model, rows that are trained whole.

    `packed`: it does so with packed rows, too, as releases did that handed it whole rows of tokens.
    """
    given = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    mlm = given.get("mlm")
    known = set(given) <= {"tokenizer", "mlm", "return_tensors", "pad_to_multiple_of"}
    partly = ("data.assistant_only_loss", "data.completion_only_loss", *(() if packed else ("data.packing",)))
    whole = all(porting.known(place, False) in (False, None) for place in partly)
    return known and whole and mlm is not None and porting.module.code(mlm) == "False"


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
    """The collator of a variable becomes the runtime's, which masks the same."""
    if porting.padding_mask is not None:
        span = porting.module.span(porting.padding_mask.func)
        porting.edit(*span, porting.rt("IgnorePadding"), RULE, "the same tokens are masked, on the host")
