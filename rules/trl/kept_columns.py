"""SFTTrainer of TRL before 0.16 with remove_unused_columns=False: the text stays in rows of which it makes tensors."""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training

PART_OF = "trl"
OWN_COLLATOR = (0, 16)  # the first release whose collator reads the columns that it needs


@step(Phase.READ, of="trainer", reads=("model", "config", "arguments", "arguments_object", "script values"))
def say_kept_columns(porting: Training) -> None:
    """A warning where the source ends at its first batch, and the port trains."""
    site = porting.trainer
    release = plain_version(porting.versions.get("trl", ""))
    if site is None or site.qualified != "trl.SFTTrainer" or "unsloth" in porting.module.roots:
        return
    config = porting.config or porting.arguments
    asked = config.argument("remove_unused_columns") if config is not None else None
    if asked is None or not asked.value.is_literal(False) or not release or version_key(release) >= OWN_COLLATOR:
        return
    if "skip_prepare_dataset" in porting.module.text:  # rows of the script's own making
        return
    collator = site.argument("data_collator")
    packed = porting.value("data.packing")
    if (collator is not None and not collator.value.is_literal(None)) or not porting.given("data.text_field"):
        return
    if packed is not None and not packed.is_literal(None, False):
        return
    message = (
        f"remove_unused_columns=False: TRL {release} leaves the text in its rows, of which its collator can make no "
        "tensor. The GPU run ends at its first batch; the port trains on the tokens."
    )
    fix = "Say --source-trl VERSION if it ran on another: from 0.16 on it trains."
    porting.find(site.rule, "warning", message, fix, asked.line, asked.column)
