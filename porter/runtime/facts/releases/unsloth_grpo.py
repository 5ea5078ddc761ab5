"""Unsloth's own loss of GRPO, which stands in TRL's place, by its release.

It takes the loss of `unsloth_num_chunks` parts of a process's micro-step apart, of each row unless that says another
number, and the mean of these. So a mean over a micro-step's tokens (`bnpo`) becomes one of means over parts, and what
is divided by the tokens of a whole generation batch (`dapo`) is divided by the number of parts as well. Its gradient
isn't that of the loss it gives back: what the Trainer divides that by doesn't reach it. (UnslothEfficientGRPO in
unsloth_zoo/rl_replacements.py)
"""

from __future__ import annotations

from typing import Any

from ..field_tables import version_key

OWN_SINCE = (2025, 2, 5)  # Unsloth's first release that writes TRL's trainers anew
READS_LOSS_TYPE = (2025, 5, 8)  # the first whose loss is another for another loss_type; before: each row's mean
OF_ALL_MODELS = (2025, 6, 6)  # before, models that FastModel loads were trained by a loss of the whole micro-step
DAPO_IS_BNPO = (2025, 6, 5)  # the first whose config trains with bnpo, without a divergence, for dapo
DIVIDES_STEPS = (2025, 10, 12)  # the first whose loss divides by gradient_accumulation_steps itself, and knows dapo
KEEPS_BETA = (2025, 11, 4)  # the first whose config leaves dapo its beta
WHOLE_AGAIN = (2026, 2, 1)  # the first that takes the loss of a micro-step at once


def loss_parts(unsloth: str | None) -> int | None:
    """`loss_parts=` of the batches where nothing says `unsloth_num_chunks`: -1, each row, or None, no parts."""
    return -1 if OWN_SINCE <= version_key(unsloth or "0") < WHOLE_AGAIN else None


def sums_micro_steps(unsloth: str | None) -> bool:
    """Whether a step's gradient was the sum over its micro-steps, not their mean."""
    return OWN_SINCE <= version_key(unsloth or "0") < DIVIDES_STEPS


def settings_of_loss(unsloth: str | None) -> dict[str, Any]:
    """What GRPO's batches are given for it, of a configuration that an Unsloth has written anew."""
    parts = loss_parts(unsloth)
    found: dict[str, Any] = {} if parts is None else {"loss_parts": parts}
    return found | ({"divides_by_made": False} if sums_micro_steps(unsloth) else {})


def settled_by_config(unsloth: str | None, loss_type: str, scale_rewards: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What its GRPOConfig, or its loss, makes of what it is given: fields of the loss, and settings of the batches."""
    number, kind = version_key(unsloth or "0"), loss_type.lower()
    if number < OWN_SINCE:
        return {}, {}
    if number < READS_LOSS_TYPE:
        return {"loss_type": "grpo"}, {}
    if kind == "dr_grpo":
        return {"loss_type": kind}, {"scale_rewards": False} if scale_rewards is True else {}
    if kind != "dapo":
        return {}, {}
    found: dict[str, Any] = {"loss_type": kind, "epsilon_high": 0.28}
    if DAPO_IS_BNPO <= number < KEEPS_BETA:
        found |= {"beta": 0.0, "loss_type": "bnpo" if number < DIVIDES_STEPS else kind}
    return found, {"mask_truncated_completions": True}


def parts_of(rows: int, asked: int | None) -> int:
    """How many parts a process's micro-step of `rows` is taken in: the next number that divides it, at most `rows`."""
    if asked is None:
        return 1
    return next((parts for parts in range(1, rows) if rows % parts == 0 and 0 <= asked <= parts), rows)
