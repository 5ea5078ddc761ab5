"""A line of the shell as its commands: their words without quotes, and the file that their output goes to."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<comment>\#.*)
    | (?P<redirection>\d*(?:>>|>\||>&|>|<<<|<<-?|<>|<&|<) | &>>?)
    | (?P<operator>&&|\|\||\|&|[;&|()\n])
    | (?P<word>(?:[^\s\\'"&|;<>()] | \\. | '[^']*' | "(?:[^"\\]|\\.)*")+)
    | (?P<odd>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
PIPES = ("|", "|&")
WRITING = re.compile(r"(?:1?(?P<kind>>>|>\||>&|>)|(?P<both>&>>?))")
SINGLE, QUOTED = re.compile(r"'[^']*'|\\."), re.compile(r"'[^']*'|\\.|\"(?:[^\"\\]|\\.)*\"")
ASKED = re.compile(r"\$[\w({]|`")
BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


@dataclass(frozen=True)
class Command:
    """`words` are without quotes; `path` is the file that the output goes to, at its end if `at_end`.

    `certain`: nothing in it has to be asked of a shell, such as variables, braces, pipes or quotes without an end.
    """

    text: str
    words: tuple[str, ...]
    path: str = ""
    at_end: bool = False
    certain: bool = True


def commands_of(line: str) -> Iterator[Command]:
    """The commands of a line, each part of a pipe by itself."""
    tokens: list[re.Match[str]] = []
    piped = False
    for token in TOKEN.finditer(line):
        if token["operator"] and token[0] not in "()":
            yield from _command(line, tokens, piped or token[0] in PIPES)
            tokens, piped = [], token[0] in PIPES
        elif not token["comment"]:
            tokens.append(token)
    yield from _command(line, tokens, piped)


def _command(line: str, tokens: list[re.Match[str]], piped: bool) -> Iterator[Command]:
    words, path, at_end = [], "", False
    certain = not piped and not any(token["odd"] or token["operator"] for token in tokens)
    open_: re.Match[str] | None = None
    for token in tokens:
        if token["redirection"]:
            open_ = token
        elif token["word"]:
            certain = certain and not _is_asked(token[0])
            word = _unquoted(token[0])
            writes = WRITING.fullmatch(open_[0]) if open_ else None
            if writes and not (writes["kind"] == ">&" and re.fullmatch(r"\d+|-", word)):
                path, at_end = word, open_ is not None and open_[0].endswith(">>")
            elif open_ is None:
                words.append(word)
            open_ = None
    if words or path:
        yield Command(line[tokens[0].start() : tokens[-1].end()], tuple(words), path, at_end, certain)


def _is_asked(raw: str) -> bool:
    return bool(ASKED.search(SINGLE.sub("", raw)) or BRACES.search(QUOTED.sub("", raw)))


def _unquoted(raw: str) -> str:
    text = "".join(shlex.split(raw)) if QUOTED.search(raw) else raw
    return os.path.expanduser(text) if raw.startswith("~") else text
