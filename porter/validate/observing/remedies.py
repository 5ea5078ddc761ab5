"""Sources that end by themselves on what a GPU run may never have met, and what lets them be compared all the same.

What is done about it is done on the source's side alone, and the verdict says so in the words of `NOTES`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SHORT_ROWS = "short rows"
INPUT_GRADIENTS = "input gradients"
MIXED_ROWS = "rows taken as texts"
REWARDS = "rewards by the completion's text"
NOTES = {
    SHORT_ROWS: (
        "the source ends on a row longer than its limit of {limit} tokens ({error}): no made-up row is, and "
        "cutting was not compared"
    ),
    INPUT_GRADIENTS: (
        "the source ends by itself: {error} (reentrant gradient checkpointing passes no gradient through frozen "
        "embeddings); compared as if it called model.enable_input_require_grads()"
    ),
    MIXED_ROWS: (
        "the source ends by itself in some of its runs: {error} (by the order of a set, another in each run, TRL takes "
        "rows with a text and turns for a conversation); compared as in the others, in which it takes their texts"
    ),
    REWARDS: (
        "this reward function ends on made-up rows ({error}): a number of each completion's text stood in for what it "
        "says, on both sides, and what it says was not compared"
    ),
}
NO_GRADIENT = re.compile(r"element 0 of tensors does not require grad")
OF_TURNS = re.compile(r"string ind(?:ices|ex)|'str object' has no attribute")
OF_TEMPLATE = re.compile(r"trl/data_utils\.py\", line \d+, in apply_chat_template")
OF_REWARDS = re.compile(r"_trainer\.py\", line \d+, in \w+\n\s*[^\n]*\breward_func\(")
SHAPES = re.compile(
    r"(shape|size|dimension|batch_size|length)s?\b.*\b(match|mismatch|broadcast|differ|same|equal|expect|must|align)|"
    r"(match|mismatch|broadcast|same|expect|must|align)\w*\b.*\b(shape|size|dimension|batch_size|length)|"
    r"Unable to create tensor",
    re.IGNORECASE,
)


def remedy_for(error: str, made_up: Path, output: str = "") -> str:
    """The remedy for a source that ended with `error`, the last line of its `output`; "" where none is known.

    `made_up` is the file in which the run noted what it made up: rows that are longer than the script cuts them.
    """
    if NO_GRADIENT.search(error):
        return INPUT_GRADIENTS
    if OF_TURNS.search(error) and OF_TEMPLATE.search(output):
        return MIXED_ROWS
    if SHAPES.search(error) and made_up.is_file():
        entries: dict[str, Any] = json.loads(made_up.read_text(encoding="utf-8"))
        if any(entry.get("limit") for entry in entries.values()):
            return SHORT_ROWS
    return ""


def ended_in_rewards(output: str) -> bool:
    """Whether a source ended in a reward function that TRL's trainer called."""
    return OF_REWARDS.search(output) is not None


def said_of(remedy: str, error: str, limit: int | None = None) -> str:
    """What the verdict says of `remedy`."""
    return NOTES[remedy].format(error=error[:160], limit=limit)
