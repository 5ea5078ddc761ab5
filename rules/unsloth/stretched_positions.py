"""Rows longer than what a model was made for: Unsloth stretches its rotary embedding there.

    FastLanguageModel.from_pretrained("unsloth/tinyllama", max_seq_length=4096)  # made for 2048

From such a length on Unsloth loads a Llama or Mistral with `rope_scaling={"type": "linear", "factor": 2.0}`, which its
attention takes from the layers of transformers before 4.48. Tunix has the embedding that config.json says.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, usual_texts, version_key
from porter.packs.training import Training

PART_OF = "TP701"
UNTIL = (4, 48)
# What models of few positions are made for, by their names, the more special ones first.
MADE_FOR = (
    (r"tinyllama", 2048),
    (r"codellama", 16384),
    (r"llama-?2|vicuna", 4096),
    (r"llama-?3-\d+b", 8192),  # 3.1 and later are made for 131,072
    (r"mistral-7b|zephyr", 32768),
)


@step(Phase.READ, of="trainer", reads=("model", "model.id", "script values"))
def say_stretched_positions(porting: Training) -> None:
    """A warning where the GPU run's positions are closer together than the port's."""
    site, value, length = porting.model, porting.value("model.id"), porting.value("model.max_seq_length")
    version = plain_version(porting.versions.get("transformers", ""))
    if site is None or value is None or length is None or not site.qualified.startswith("unsloth."):
        return
    if not version or version_key(version) >= UNTIL or not length.known or not isinstance(length.literal, int):
        return
    for name in [str(value.literal)] if value.known else usual_texts(porting.module, value.code):
        known = next((made for pattern, made in MADE_FOR if re.search(pattern, name.lower())), None)
        if known is not None and length.literal > known:
            message = f"max_seq_length={length.literal}: {name} is made for {known} tokens, and Unsloth stretches its"
            message += (
                f" rotary embedding by {length.literal / known:g} beside transformers {version}; the port doesn't."
            )
            fix = f"Give max_seq_length={known} in both, or a config.json of your own with that rope_scaling."
            porting.find(PART_OF, "warning", message, fix, site.line, site.column)
            return
