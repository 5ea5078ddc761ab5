"""The reward functions that TRL ships (`trl.rewards`), without torch: same names, arguments and values."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

Messages = Sequence[Sequence[dict[str, str]]]
Log = Callable[[str, list[Any]], None]

THOUGHT = re.compile(r"^<think>(?!.*<think>)(.*?)</think>.*$", re.DOTALL | re.MULTILINE)


def think_format_reward(completions: Messages, **kwargs: Any) -> list[float]:
    """1 for a completion that begins with one thought between <think> and </think>, else 0."""
    return [float(THOUGHT.match(completion[0]["content"]) is not None) for completion in completions]


def accuracy_reward(
    completions: Messages, solution: Sequence[str], log_extra: Log | None = None, **kwargs: Any
) -> list[float | None]:
    """1 where the answer is mathematically the solution, else 0; None for a solution that can't be read.

    Needs the package math-verify; ImportError without it.
    """
    return _judged([completion[0]["content"] for completion in completions], solution, log_extra)


def reasoning_accuracy_reward(
    completions: Messages,
    solution: Sequence[str],
    reasoning_delimiters: Sequence[str] | None = None,
    log_extra: Log | None = None,
    **kwargs: Any,
) -> list[float | None]:
    """`accuracy_reward` of what follows the reasoning; 0 for a completion whose reasoning doesn't end.

    `reasoning_delimiters`: what ends it, the first of them that a completion has; "</think>" by default.
    """
    answers: list[str | None] = []
    for completion in completions:
        content = completion[0]["content"]
        end = next((mark for mark in reasoning_delimiters or ("</think>",) if mark in content), None)
        answers.append(None if end is None else content.split(end)[-1])
    return _judged(answers, solution, log_extra)


def get_soft_overlong_punishment(max_completion_len: int, soft_punish_cache: int) -> Callable[..., list[float]]:
    """DAPO's punishment of length: 0 up to max_completion_len - soft_punish_cache tokens, then falling to -1."""

    def soft_overlong_punishment_reward(completion_ids: Sequence[Sequence[int]], **kwargs: Any) -> list[float]:
        free = max_completion_len - soft_punish_cache
        rewards = []
        for ids in completion_ids:
            if len(ids) <= free:
                rewards.append(0.0)
            elif len(ids) <= max_completion_len:
                rewards.append((free - len(ids)) / soft_punish_cache)
            else:
                rewards.append(-1.0)
        return rewards

    return soft_overlong_punishment_reward


def get_repetition_penalty_reward(ngram_size: int = 3, max_penalty: float = -1.0) -> Callable[..., list[float]]:
    """`max_penalty` times the share of n-grams of tokens that a completion repeats. ValueError for one above 0."""
    if max_penalty > 0:
        raise ValueError(f"max_penalty={max_penalty} is a reward; a penalty is 0 or less")

    def repetition_penalty_reward(completion_ids: Sequence[Sequence[int]], **kwargs: Any) -> list[float]:
        rewards = []
        for ids in completion_ids:
            count = len(ids) - ngram_size + 1
            different = {tuple(ids[start : start + ngram_size]) for start in range(count)}
            repeated = 1 - len(different) / count if count > 0 else 0.0
            rewards.append(repeated * max_penalty if repeated else 0.0)
        return rewards

    return repetition_penalty_reward


def get_cosine_scaled_reward(
    max_len: int,
    min_value_wrong: float = -1.0,
    max_value_wrong: float = -0.5,
    min_value_correct: float = 0.5,
    max_value_correct: float = 1.0,
) -> Callable[..., list[float | None]]:
    """`accuracy_reward` scaled by length: short right answers earn most, short wrong ones least, along a cosine."""

    def cosine_scaled_reward(
        completions: Messages, solution: Sequence[str], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float | None]:
        rewards: list[float | None] = []
        for right, ids in zip(accuracy_reward(completions, solution), completion_ids, strict=True):
            if right is None:
                rewards.append(None)
                continue
            short, long = (max_value_correct, min_value_correct) if right else (min_value_wrong, max_value_wrong)
            share = (1.0 + math.cos(min(len(ids) / max_len, 1.0) * math.pi)) / 2
            rewards.append(float(long + share * (short - long)))
        return rewards

    return cosine_scaled_reward


def _judged(answers: Sequence[str | None], solutions: Sequence[str], log_extra: Log | None) -> list[float | None]:
    """1 or 0 for each answer, None where the solution can't be read; an answer of None is wrong."""
    try:
        from latex2sympy2_extended import NormalizationConfig  # type: ignore[import-not-found]
        from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError("accuracy rewards need the package math-verify: pip install math-verify") from error
    # math-verify stops by signals, which only the main thread gets
    main = threading.current_thread() is threading.main_thread()
    if not main:
        for name in ("math_verify.parser", "math_verify.grader"):
            logging.getLogger(name).setLevel(logging.ERROR)
    reading = LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=True), boxed_match_priority=0, try_extract_without_anchor=False
    )
    rewards: list[float | None] = []
    read: list[tuple[str, str]] = []
    for answer, solution in zip(answers, solutions, strict=True):
        if answer is None:
            rewards.append(0.0)
            read.append(("[incomplete reasoning]", "[incomplete reasoning]"))
            continue
        gold = parse(solution, parsing_timeout=10 if main else None)
        if not gold:
            rewards.append(None)
            read.append(("[unparseable]", "[skipped]"))
            continue
        found = parse(
            answer,
            extraction_config=[reading],
            extraction_mode="first_match",
            parsing_timeout=10 if main else None,
        )
        rewards.append(float(verify(gold, found, timeout_seconds=5 if main else None)))
        read.append((str(gold), str(found) if found else "[unparseable]"))
    if log_extra is not None:
        log_extra("solution", list(solutions))
        log_extra("gold_parsed", [gold for gold, _ in read])
        log_extra("answer_parsed", [found for _, found in read])
    return rewards
