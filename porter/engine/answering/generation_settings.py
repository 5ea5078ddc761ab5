"""`model.generation_config.eos_token_id = ...`: settings that are saved with a whole model, and that sampling takes."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from ..packs.packs import Rewrite
from ..script.porting import Porting
from ..script.uses_of_training import Use

RULE = "TP316"
REASON = "saved in generation_config.json, and taken by rt.generate"
SAMPLES = ("merge", ".generate(", "pipeline(")  # where an adapter's run takes the settings, too


def keep_setting(porting: Porting, use: Use, variable: str) -> bool:
    """`model.generation_config` of Tunix's model, where a setting of it is read or set; whether it was that.

    A run that saves adapters alone, and samples nothing, has no use for them: those that are set are left to the rules.
    """
    parts = use.chain.split(".")
    held = ["model", "generation_config"] if use.role == "trainer" else ["generation_config"]
    if parts[:-1] != held or use.kind not in ("assign", "read"):
        return False
    if use.kind == "assign" and porting.saves_adapter and not any(text in porting.module.text for text in SAMPLES):
        return False
    setting = use.outer
    assert isinstance(setting, cst.Attribute)
    model = f"{variable}.model" if use.role == "trainer" else variable
    porting.edit(*porting.module.span(setting.value), f"{porting.rt('generation_config')}({model})", RULE, REASON)
    return True


def unused_setting(rules: Mapping[str, object], use: Use) -> Rewrite | None:
    """The rule that takes out a setting of `model.generation_config`, whatever its name."""
    head, _, _ = use.chain.removeprefix("model.").partition(".")
    rule = rules.get("@model.generation_config.eos_token_id=")
    return rule if head == "generation_config" and use.kind == "assign" and isinstance(rule, Rewrite) else None
