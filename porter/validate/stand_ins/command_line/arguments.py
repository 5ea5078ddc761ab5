"""Gives a script the arguments that it needs and nobody gave, in the source's own process, as its parser asks for them.

A command line that the project shows for the script comes first, then a configuration file of the project, then words
made up from the parser's description. What was given is kept as a whole command line: the port gets the same one.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ....source.project.other_models import foreign_name
from .command_lines import LEFT_OUT, Shown, commands_for, configs_of, project_of
from .json_settings import document_for, read_as_json
from .made_up_values import TRUE, is_config, is_model, word_for
from .project import project_sources
from .script_needs import insisted_on, read_unasked, streams, words_by_number
from .training_flags import Flags, training_flags

KEPT = "arguments.json"
ENTRIES = ("parse_args_and_config", "parse")  # of parsers that read a configuration file before they parse
READING = ("parse_args_and_config", "parse_args_into_dataclasses")  # they look for words in a file first
MOST = 8  # rounds of asking a parser what is missing


class Arguments:
    """The words of one script's run, and what had to be made up for it. `note` gets a line for each."""

    def __init__(self, script: Path, work: Path, note: Callable[[str], None]) -> None:
        self.script, self.work, self.note, self.as_shown = script, work, note, False
        try:
            self.text = script.read_text(encoding="utf-8", errors="replace")
        except OSError:
            self.text = ""

    @functools.cached_property
    def tree(self) -> ast.AST:
        return _tree(self.text)

    @functools.cached_property
    def insisted(self) -> set[str]:
        """Settings that the script itself insists on, or can't do without, whatever its parser says."""
        found = insisted_on(self.tree) | read_unasked(self.tree, self.modules)
        return found | ({"max_steps"} if streams(self.text) else set())

    @functools.cached_property
    def flags(self) -> Flags:
        """The flags without which it trains nothing."""
        return training_flags(self.tree, self.modules)

    @functools.cached_property
    def modules(self) -> list[ast.AST]:
        """The modules of its project that the script imports."""
        return [_tree(text) for text in project_sources(self.script)[1:]] if self.text else []

    @functools.cached_property
    def commands(self) -> list[Shown]:
        return commands_for(self.script, project_of(self.script))

    @functools.cached_property
    def configs(self) -> list[str]:
        """Paths of configuration files of the project that the script can read, the likeliest first."""
        found = [str(path) for path, _ in configs_of(self.script, project_of(self.script))]
        json_alone = "json.load(" in self.text and "yaml" not in self.text
        return [path for path in found if path.endswith(".json") or not json_alone]

    def word(self, name: str, kind: Any = None, choices: Sequence[Any] = (), help: str = "") -> str:
        """A word for the setting `name`: see `word_for`; for a configuration, one that the project has."""
        if not choices and name in read_as_json(self.tree):
            document, where = document_for(self.script, project_of(self.script))
            if where:
                self.note(f"{name}, which the script reads as JSON, is a dictionary of {where}")
            return document
        if not choices and kind in (None, str, Path) and is_config(name) and self.configs:
            return self.configs[0]
        return word_for(name, kind, choices, help, self.text)

    def take(self, words: Sequence[str], reason: str) -> list[str]:
        """Make `words` the script's command line, keep them for the port, and note `reason`."""
        sys.argv[1:] = list(words)
        kept = self.work / f"{KEPT}.{os.getpid()}"
        kept.write_text(json.dumps({"words": list(words)}), encoding="utf-8")
        kept.replace(self.work / KEPT)
        if reason:
            self.note(f"{reason}; words after `--` win")
        return list(words)


def _tree(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def recorded_arguments(work: str | Path) -> tuple[str, ...]:
    """The command line that the source's run was given in the end, for the port; empty when nothing was made up."""
    kept = Path(work) / KEPT
    return tuple(json.loads(kept.read_text(encoding="utf-8"))["words"]) if kept.exists() else ()


def provide_arguments(
    script: str | Path, work: str | Path, note: Callable[[str], None], given: Sequence[str], *, as_shown: bool = False
) -> list[str]:
    """Let this process' parsers make up what `script` needs, and return the words that it starts with.

    Those are `given`, with what it takes from `sys.argv` by number. A script that needs nothing runs as it would, or
    `as_shown`, with a command line that its project has for it.
    """
    from .arguments_of_libraries import patch_libraries

    arguments = Arguments(Path(script), Path(work), note)
    arguments.as_shown = as_shown
    words = list(given)
    by_number = words_by_number(arguments.tree)
    if len(words) < len(by_number):
        made = []
        for number in range(len(words) + 1, len(by_number) + 1):
            kind, _, name = by_number[number].rpartition(":")
            made.append(arguments.word(name, {"int": int, "float": float}.get(kind)))
        words = arguments.take([*words, *made], f"sys.argv[{len(words) + 1}:] was made up: {' '.join(made)}")
    if flags := sorted(arguments.flags.words - {*words}):
        words = arguments.take([*words, *flags], f"{' '.join(flags)} was given, without which nothing trains")
    patch_argparse(arguments)
    patch_libraries(arguments)
    return words


class Needed(Exception):
    """A parser's complaint, instead of its leaving."""


def patch_argparse(arguments: Arguments) -> None:
    """ArgumentParser, and all that are made of it, get what they require."""
    cls = argparse.ArgumentParser
    init, original = cls.__init__, cls.parse_known_args
    nested: list[bool] = []  # while a parser is at work its subparsers are asked
    probing: list[bool] = []

    @functools.wraps(init)
    def patched_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        for name in ENTRIES:
            for owner in type(self).__mro__:
                if name in vars(owner) and not hasattr(vars(owner)[name], "_porter"):
                    setattr(owner, name, _entry(vars(owner)[name], arguments, probing, name))

    @functools.wraps(original)
    def patched(self: Any, args: Any = None, namespace: Any = None, **kwargs: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        whole = sys.argv[1:]
        # Parsers that read something else first hand over a list, which may be empty.
        read_before = any(hasattr(self, name) for name in READING) or type(self).parse_known_args is not patched
        if not (args is None or nested or (given and _within(given, whole)) or (not given and read_before)):
            return original(self, args, namespace, **kwargs)

        def attempt(words: list[str]) -> tuple[str, Any, list[str]]:
            """The parser's complaint, what it parsed, and `words` with those that its subparsers needed."""
            if not nested:
                sys.argv[1:] = words
            nested.append(True)
            self.error = _complain
            try:
                parsed, _ = original(self, words, copy.copy(namespace), **kwargs)
            except Needed as complaint:
                return str(complaint), None, words
            finally:
                del self.error
                nested.pop()
                completed = sys.argv[1:]
                if not nested:
                    sys.argv[1:] = whole
            return "", parsed, words if nested else completed

        complaint, parsed, completed = attempt(given)
        missing = _missing(self, complaint, parsed, arguments)
        if not missing and not probing and (shown := _shown(self, given, parsed, arguments, attempt)):
            arguments.take(*shown)
            return original(self, shown[0], namespace, **kwargs)
        if not missing and completed == given:
            return original(self, args, namespace, **kwargs)
        if probing:
            raise Needed(", ".join(action.dest for action in missing))
        words, reason = _found(self, given, missing, arguments, attempt) if missing else (completed, "")
        before = whole[: len(whole) - len(given)] if nested else [word for word in whole if word not in given]
        arguments.take([*before, *words], reason)
        return original(self, words, namespace, **kwargs)

    cls.__init__, cls.parse_known_args = patched_init, patched  # type: ignore[method-assign]


def _entry(method: Callable[..., Any], arguments: Arguments, probing: list[bool], name: str) -> Callable[..., Any]:
    """`method`, which reads a configuration file: with a command line or a file of the project where needed."""

    @functools.wraps(method)
    def entry(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs.get("args") or probing:
            return method(self, *args, **kwargs)
        given = sys.argv[1:]

        def works(words: list[str]) -> bool:
            sys.argv[1:] = words
            probing.append(True)
            # A file's settings become the parser's defaults, whether the whole of it is taken or not.
            before = [(action, action.default, action.required) for action in self._actions]
            defaults = dict(self._defaults)
            try:
                method(copy.copy(self), *args, **kwargs)
            except (Exception, SystemExit) as problem:
                needed.append(isinstance(problem, Needed))
                return False
            finally:
                probing.pop()
                sys.argv[1:] = given
                for action, default, required in before:
                    action.default, action.required = default, required
                self._defaults = defaults
            return True

        needed: list[bool] = []
        if works(given) or not needed[0]:
            return method(self, *args, **kwargs)
        flag = ["--config"] if name == ENTRIES[0] else []
        shown = [(list(one.words), f"the command line is that of {one.where}") for one in arguments.commands]
        files = [([*flag, path], f"the configuration file {path} was taken") for path in arguments.configs]
        for words, reason in [*shown, *files]:
            words = _without(words, given)
            if works([*words, *given]):
                arguments.take([*words, *given], f"{reason}: {' '.join(words)}")
                break
        return method(self, *args, **kwargs)

    entry._porter = True  # type: ignore[attr-defined]
    return entry


def _complain(message: str) -> None:
    raise Needed(message)


def _missing(
    parser: argparse.ArgumentParser, complaint: str, parsed: Any, arguments: Arguments
) -> list[argparse.Action]:
    """The parser's settings that its complaint names as required, or that the script insists on and `parsed` lacks."""
    if parsed is not None:
        lacks = dict.fromkeys(arguments.insisted, (None, "", -1)) | dict.fromkeys(
            arguments.flags.settings, (None, False)
        )
        empty = [action for action in parser._actions if action.dest in lacks and action.option_strings]
        empty = [action for action in empty if getattr(parsed, action.dest, "there") in lacks[action.dest]]
        return [action for action in empty if not _excluded(parser, action, parsed)]
    if "required" not in complaint:
        return []
    named = re.split(r"[:,]?\s+", complaint)
    found = [
        action
        for action in parser._actions
        if {*action.option_strings, action.dest, str(action.metavar), argparse._get_action_name(action) or ""}
        & {*named}
        or "/".join(action.option_strings) in named
    ]
    if complaint.startswith("one of the arguments"):
        return found[:1]
    required = [action for action in found if action.required]
    return required or [action for action in parser._actions if action.required]


def _shown(
    parser: argparse.ArgumentParser,
    given: list[str],
    parsed: Any,
    arguments: Arguments,
    attempt: Callable[[list[str]], tuple[str, Any, list[str]]],
) -> tuple[list[str], str] | None:
    """The project's command line and where it is from, where it is to be taken or the script's own default is a model
    that Tunix lacks."""
    names = [action.dest for action in parser._actions if action.option_strings and is_model(action.dest)]
    foreign = [name for name in names if foreign_name(str(getattr(parsed, name, "")))]
    for shown in arguments.commands if foreign or arguments.as_shown else ():
        words = _without(_known(parser, list(shown.words)), given)
        complaint, found, completed = attempt([*given, *words])
        if words and not complaint and not any(foreign_name(str(getattr(found, name, ""))) for name in foreign):
            return completed, f"the command line is that of {shown.where}: {' '.join(words)}"
    return None


def _excluded(parser: argparse.ArgumentParser, action: argparse.Action, parsed: Any) -> bool:
    """Whether another option, which excludes `action`, was given."""
    groups = [group._group_actions for group in parser._mutually_exclusive_groups if action in group._group_actions]
    return any(getattr(parsed, other.dest, other.default) != other.default for group in groups for other in group)


def _found(
    parser: argparse.ArgumentParser,
    given: list[str],
    missing: list[argparse.Action],
    arguments: Arguments,
    attempt: Callable[[list[str]], tuple[str, Any, list[str]]],
) -> tuple[list[str], str]:
    """A command line with which the parser is content, and where it is from."""
    for shown in arguments.commands:
        words = _without(_known(parser, list(shown.words)), given)
        complaint, parsed, completed = attempt([*given, *words])
        if words and not complaint and not _missing(parser, "", parsed, arguments):
            return completed, f"the command line is that of {shown.where}: {' '.join(words)}"
    words, made = list(given), []
    commands = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    for _ in range(MOST):
        first: list[str] = []
        for action in missing:
            new = _words(action, arguments)
            made.append(" ".join(new))
            # What has no name goes to the front, where no option takes it; so do options that a command comes after.
            if isinstance(action, argparse._SubParsersAction) or (action.option_strings and not commands):
                words += new
            else:
                first += new
        words = [*first, *words]
        complaint, parsed, words = attempt(words)
        missing = _missing(parser, complaint, parsed, arguments)
        if not missing:
            break
    return words, f"{', '.join(made)} {'was' if len(made) == 1 else 'were'} made up"


def _words(action: argparse.Action, arguments: Arguments) -> list[str]:
    """Words that give `action` a value."""
    name = action.dest if action.dest != argparse.SUPPRESS else str(action.metavar)
    flag = [max(action.option_strings, key=len)] if action.option_strings else []
    if action.nargs == 0:
        return flag
    if isinstance(action, argparse._SubParsersAction):
        known = [str(one) for one in action.choices or {}]
        return [next((one for one in known if re.search(r"train|sft|tune|fit|run", one)), known[0])]
    kind: Any = action.type
    if isinstance(kind, argparse.FileType):
        kind = None
    if getattr(kind, "__name__", "") == "string_to_bool":
        return [*flag, TRUE]
    word = arguments.word(name, kind, tuple(action.choices or ()), action.help or "")
    return [*flag, *[word] * (action.nargs if isinstance(action.nargs, int) else 1)]


def _known(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """`words` without options that the parser doesn't know or that say nothing here, and without unset variables."""
    kept: list[str] = []
    for option, values in _grouped(words):
        flag = option.split("=", 1)[0]
        known = not option or flag in parser._option_string_actions
        if known and not LEFT_OUT.match(option) and "$" not in option + " ".join(values):
            kept += [option, *values] if option else values
    return kept


def _without(words: list[str], given: list[str]) -> list[str]:
    """`words` without the options that `given` has too: those win."""
    mine = {word.split("=", 1)[0] for word in given if word.startswith("-")}
    groups = [group for group in _grouped(words) if group[0].split("=", 1)[0] not in mine or not group[0]]
    return [word for option, values in groups for word in ([option, *values] if option else values)]


def _grouped(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    option, values = "", list[str]()
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            yield option, values
            option, values = word, []
        else:
            values.append(word)
    yield option, values


def _within(part: list[str], whole: list[str]) -> bool:
    """Whether `part` is `whole` with some words left out."""
    rest = iter(whole)
    return all(word in rest for word in part)
