"""Gemma 2's cap on attention scores, which torch's scaled_dot_product_attention doesn't have.

Under sdpa a Gemma 2 has no cap: the releases before 4.48 had a class of their own for it without one, and from there on
torch's function is handed the cap and passes over it. Loaded without `attn_implementation`, transformers 4.45 to 4.47
chose eager attention for it, those before and behind sdpa. Tunix always caps.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training

PART_OF = "TP302"

EAGER = ((4, 45), (4, 48))  # the releases that left sdpa by themselves, for Gemma 2 alone
FIX = 'attn_implementation="eager" has the cap on a GPU, too; scores far below it are hardly changed by it.'


@step(Phase.READ, of="trainer", reads=("model", "family"))
def say_attention_cap(porting: Training) -> None:
    """A warning where the source's attention has no cap, and the port's has."""
    family = porting.family
    version = plain_version(porting.versions.get("transformers", ""))
    site = porting.model or porting.trainer
    if family is None or family.name != "gemma2" or site is None or not version:
        return
    if site.qualified.startswith("unsloth."):
        return
    given = site.argument("attn_implementation")
    if given is not None and not given.value.is_literal(None, "sdpa"):
        return
    if given is None and ("attn_implementation" in porting.module.text or "flash_attention" in porting.module.text):
        return  # given in another way
    named = given is not None and given.value.is_literal("sdpa")
    if not named and EAGER[0] <= version_key(version) < EAGER[1]:
        return
    message = f"Gemma 2 caps attention scores at 50, but not under sdpa, which transformers {version} takes here: "
    porting.find(PART_OF, "warning", f"{message}the port caps them.", FIX, site.line, site.column)
