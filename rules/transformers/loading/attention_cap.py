"""Gemma 2's cap on attention scores, which torch's scaled_dot_product_attention doesn't have.

From transformers 4.48 on a Gemma 2 that is loaded without `attn_implementation` runs under sdpa, whose function gets
the cap and passes over it; before, the model chose eager attention by itself. Tunix always caps.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training

PART_OF = "TP302"

SINCE = (4, 48)
FIX = 'attn_implementation="eager" has the cap on a GPU, too; scores far below it are hardly changed by it.'


@step(Phase.READ, of="trainer", reads=("model", "family"))
def say_attention_cap(porting: Training) -> None:
    """A warning where the source's attention has no cap, and the port's has."""
    family = porting.family
    version = plain_version(porting.versions.get("transformers", ""))
    site = porting.model or porting.trainer
    if family is None or family.name != "gemma2" or site is None or not version or version_key(version) < SINCE:
        return
    if site.qualified.startswith("unsloth."):
        return
    given = site.argument("attn_implementation")
    if given is not None and not given.value.is_literal(None, "sdpa"):
        return
    if given is None and ("attn_implementation" in porting.module.text or "flash_attention" in porting.module.text):
        return  # given in another way
    message = f"Gemma 2 caps attention scores at 50, but not under sdpa, which transformers {version} takes here: "
    porting.find(PART_OF, "warning", f"{message}the port caps them.", FIX, site.line, site.column)
