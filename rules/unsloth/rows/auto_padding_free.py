"""Unsloth from 2025.12.4 on switches padding_free on by itself; beside TRL 0.18 a micro-batch's rows see each other.

SFTTrainer(model, args=SFTConfig(per_device_train_batch_size=2), ...)    # no collator, no packing

That TRL flattens them with transformers' own collator, to which Unsloth adds no lengths, so that its models' attention
takes all for one row. From TRL 0.19 on TRL's collator brings the lengths, and rows are apart.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, table_of

from ..rollouts.loss import is_own_model

PART_OF = "TP703"

SINCE = (2025, 12, 4)
LEAVES_OUT = (2025, 12, 5)  # from here on Gemma 2, and models that are to return logits
TAKES_FALSE = (2026, 3, 3)  # before, a padding_free=False of the script was overruled, too
CHOOSES = (2026, 8, 20)  # behind the newest release that always does; in 2026.10.9 by the lengths of rows
SWITCHES = ("UNSLOTH_DISABLE_AUTO_PADDING_FREE", "UNSLOTH_RETURN_LOGITS", "UNSLOTH_PADDING_CHOICE")
FIX = (
    "For a GPU run of what the port trains, set UNSLOTH_DISABLE_AUTO_PADDING_FREE=1 in its environment and leave out "
    "padding_free=True, or take TRL 0.19.1 or later."
)


@step(
    Phase.WRITE,
    of="trainer",
    reads=("rows_by", "masked_behind", "config", "arguments_object", "model", "model.id", "data.packing"),
    fills=("said",),
)
def say_joined_rows(porting: Training) -> None:
    """A warning where rows of a micro-batch saw each other on the GPU: the port's don't."""
    site, trl = porting.trainer, version_key(plain_version(porting.versions.get("trl", "")) or "0")
    if site is None or porting.loop is not None or table_of(porting, site).kind != "sft" or porting.masked_behind:
        return
    if version_key(porting.rows_by or "0") < SINCE or not (0, 18) <= trl < (0, 19) or not _is_own(porting):
        return
    evaluates = site.argument("eval_dataset") is not None
    sizes = ("batch.per_device", "batch.eval_per_device") if evaluates else ("batch.per_device",)
    how = _joined_by(porting)
    if how is None or all(porting.known(size, None) == 1 for size in sizes):
        return
    message = f"{how}, and beside TRL 0.18 a row then sees those in front of it in its micro-batch: its attention gets "
    message += "no lengths. The port trains each row alone, so that its losses are others."
    porting.find(PART_OF, "warning", message, FIX, site.line, site.column)


def _is_own(porting: Training) -> bool:
    """Whether the model has Unsloth's own attention; transformers' parts rows by their positions."""
    return (porting.model is None or porting.model.qualified.startswith("unsloth.")) and is_own_model(porting)


def _joined_by(porting: Training) -> str | None:
    """Who flattens the rows, a sentence's beginning; None where a release leaves them apart."""
    site, text, release = porting.trainer, porting.module.text, version_key(porting.rows_by or "0")
    collator = site.argument("data_collator") if site is not None else None
    if (collator is not None and not collator.value.is_literal(None)) or porting.known("data.packing", False) is True:
        return None
    if release >= LEAVES_OUT and "gemma-2-" in str(porting.known("model.id", "")).lower():
        return None
    if porting.config is None:  # with none there is nothing to switch it on in
        made = bool(porting.arguments_object) and "SFTConfig" in text
    else:  # a TrainingArguments' padding_free TRL never reads
        made = porting.config.qualified.endswith(".SFTConfig")
    if not made or any(name in text for name in SWITCHES):
        return None
    if porting.known("data.padding_free") is True:
        return f"padding_free=True under Unsloth {porting.rows_by}: rows are flattened"
    if porting.given("data.padding_free") and release >= TAKES_FALSE:
        return None
    verb = "may switch" if release >= CHOOSES else "switches"
    return f"Unsloth {porting.rows_by} {verb} padding_free on by itself"
