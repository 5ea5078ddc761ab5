"""Rotary embeddings that Unsloth makes otherwise than config.json says, which Tunix has as it says.

    FastLanguageModel.from_pretrained("unsloth/tinyllama", max_seq_length=4096)  # made for 2048

For more tokens than a model was made for Unsloth loads a Llama or Mistral with
`rope_scaling={"type": "linear", "factor": 2.0}`. Its attention reads scalings, these and those of config.json, beside
transformers before 4.48, whose layers have the embedding; from there on the model has it, and Unsloth's own class in
its place reads none before Unsloth 2026.6.5 ("so config.rope_scaling is not dropped", its issue 2405).
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, usual_texts, version_key
from porter.packs.training import Training

from ._release import unsloth_version

PART_OF = "TP701"
OF_MODEL, READS_AGAIN = (4, 48), (2026, 6, 5)  # releases of transformers and of Unsloth
# What models of few positions are made for, by their names, the more special ones first.
MADE_FOR = (
    (r"tinyllama", 2048),
    (r"codellama", 16384),
    (r"llama-?2|vicuna", 4096),
    (r"llama-?3-\d+b", 8192),  # 3.1 and later are made for 131,072
    (r"mistral-7b|zephyr", 32768),
)
SCALED = re.compile(r"llama-?3[._][123]|r1-distill-llama")  # by config.json, by 8 or 32 in the low frequencies


@step(Phase.READ, of="trainer", reads=("model", "model.id", "script values", "model.max_seq_length"))
def say_rotary_embedding(porting: Training) -> None:
    """A warning where the GPU run's positions turn otherwise than the port's."""
    site, value = porting.model, porting.value("model.id")
    version = plain_version(porting.versions.get("transformers", ""))
    if site is None or value is None or not version or not site.qualified.startswith("unsloth."):
        return
    release = unsloth_version(porting)
    reads = version_key(version) < OF_MODEL or version_key(release) >= READS_AGAIN
    for name in [str(value.literal)] if value.known else usual_texts(porting.module, value.code):
        message, fix = _stretched(porting, name) if reads else _dropped(name, release)
        if message:
            message = message.format(beside=f"Unsloth {release} beside transformers {version}")
            porting.find(PART_OF, "warning", message, fix, site.line, site.column)
            return


def _stretched(porting: Training, name: str) -> tuple[str, str]:
    length = porting.value("model.max_seq_length")
    made = next((made for pattern, made in MADE_FOR if re.search(pattern, name.lower())), None)
    if made is None or length is None or not length.known or not isinstance(length.literal, int):
        return "", ""
    if length.literal <= made:
        return "", ""
    message = f"max_seq_length={length.literal}: {name} is made for {made} tokens, and {{beside}} stretches its rotary"
    message += f" embedding by {length.literal / made:g}; the port doesn't."
    return message, f"Give max_seq_length={made} in both, or a config.json of your own with that rope_scaling."


def _dropped(name: str, release: str) -> tuple[str, str]:
    if SCALED.search(name.lower()) is None:
        return "", ""
    message = f"{{beside}} drops the scaling of {name}'s rotary embedding (Unsloth's issue 2405); the port has it, as"
    message += " config.json says, and as whatever loads the trained weights later."
    return (
        message,
        f"Expect other losses than the GPU run's; Unsloth 2026.6.5 mended it, {release} is what this reads as.",
    )
