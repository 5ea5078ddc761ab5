"""Answers what a script asks at its keyboard: `input("Continue? (y/n)")` has nobody to answer it here.

The answer is the one with which the script goes on, and hangs on the question alone, so that both sides are answered
alike, whichever of them asks.
"""

from __future__ import annotations

import builtins
import functools
import getpass
import linecache
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...observing.callers import asking_line
from .made_up_values import text_value, word_for

# Words that mean "go on"; `[Y/n]`, `(yes/no)`, `yes or no`.
CONSENT = re.compile(r"\b(yes|y|ok)\b\s*(?:/|\||,|\bor\b)\s*\bn(?:o)?\b", re.IGNORECASE)
OTHER_WAY = re.compile(r"\bn(?:o)?\b\s*(?:/|\||,|\bor\b)\s*\b(yes|y)\b", re.IGNORECASE)
TYPED = re.compile(
    r"\b(?:type|enter|write)\s+['\"`]?(\w+)['\"`]?\s+to\s+(?:continue|confirm|proceed|start)", re.IGNORECASE
)
DEFAULT = re.compile(r"\bdefault(?:s to)?\b\s*[:=]?\s*['\"`]?([^\s'\"`)\]]+)|\[([^\]\s/|,]+)\]", re.IGNORECASE)
CHOICE = re.compile(r"[\[(]\s*(\w+)\s*(?:[/|,-]\s*\w+\s*)+[\])]")
KEY = re.compile(r"\b(?:press|hit)\b.*\b(?:enter|return|key)\b", re.IGNORECASE)
NUMBER = re.compile(r"\b(int|float)\(\s*input\(")
OFTEN = 20  # times that one question is answered: a script that asks until it gets another answer ends then
GO_ON = re.compile(r"\b(?:continue|proceed|go on|are you sure|confirm|overwrite|start)\b", re.IGNORECASE)


def answer_to(question: str, line: str = "") -> str:
    """What to type: consent where it is asked for, else a default or the first choice that the question names.

    `line` is the line of code that asks: a number where it makes one of the answer.
    """
    if number := NUMBER.search(line):
        return word_for(_setting(question), int if number[1] == "int" else float)
    if KEY.search(question):
        return ""
    for pattern in (CONSENT, OTHER_WAY, TYPED):
        if found := pattern.search(question):
            return found[1]
    if found := DEFAULT.search(question):
        return found[1] or found[2]
    if found := CHOICE.search(question):
        return found[1]
    if GO_ON.search(question):
        return "y"
    return text_value(_setting(question)) if question.strip() else ""


def _setting(question: str) -> str:
    """A question as a setting's name: "Enter the path of the data: " asks for `path_of_the_data`."""
    words = re.findall(
        r"\w+", re.sub(r"(?i)\b(?:please|enter|input|type|give|your|the|what|is|which)\b", " ", question)
    )
    return "_".join(words[:6])


def answer_questions(note: Callable[[str], None]) -> None:
    """`input` and `getpass`, asked by the script's own code of this process, are answered; `note` hears each."""
    builtins.input = _answering(builtins.input, note)
    getpass.getpass = _answering(getpass.getpass, note)


def _answering(original: Callable[..., str], note: Callable[[str], None]) -> Callable[..., str]:
    times: Counter[str] = Counter()

    @functools.wraps(original)
    def asked(prompt: Any = "", *args: Any, **kwargs: Any) -> str:
        place = asking_line()
        question = " ".join(str(prompt).split())
        times[question] += 1
        if place is None or times[question] > OFTEN:
            return original(prompt, *args, **kwargs)
        answer = answer_to(question, linecache.getline(*place))
        note(f"the script asks {question[:80]!r}: {answer!r} was answered")
        print(f"{prompt}{answer}")
        return answer

    return asked
