"""GRPO's loss of Unsloth's own models before 2025.9.6: completions see the padding in front of their prompts.

What it does: says so where prompts of different lengths may be padded together; the port masks the padding.
Why: their forward takes no attention mask while they train, and TRL pads what is sampled at once to its longest prompt.
From 2025.9.6 on Unsloth moves the padding behind the rows (left_pack_padding in unsloth_zoo).
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, step
from porter.packs.script import version_key
from porter.packs.training import samples_one_prompt

from .._release import unsloth_version
from .loss import is_its_own, is_own_model

PART_OF = "TP703"

MOVES_PADDING = (2025, 9, 6)


@step(Phase.WRITE, of="trainer", reads=("model", "model.id", "batch.per_device"), fills=("said",))
def say_seen_padding(porting: Porting) -> None:
    """A warning, unless the completions of one prompt alone are padded together."""
    if not is_its_own(porting) or not is_own_model(porting) or samples_one_prompt(porting):
        return
    release, site = unsloth_version(porting), porting.trainer
    assert site is not None
    if version_key(release) >= MOVES_PADDING:
        return
    message = (
        f"Unsloth {release} trains GRPO's completions as seeing the padding in front of their prompts, where those"
    )
    message += " that are sampled together differ in length; the port masks it."
    fix = "The same is trained with prompts of one length, or with the completions of one prompt at a time."
    porting.find(PART_OF, "warning", message, fix, site.line, site.column)
