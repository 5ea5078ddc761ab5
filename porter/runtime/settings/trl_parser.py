"""TRL's command line: transformers' HfArgumentParser, with a YAML file behind `--config`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import yaml
from transformers import HfArgumentParser

from ..facts.field_tables import version_key

NEWEST = "99"
STRICT = (0, 9)  # from here on keys that no class has are an error; before, they and unknown flags were a warning,
FORGIVING = (0, 13)  # from here on they are nothing,
FAILING = (0, 19)  # and from here on an error again


class TrlParser(HfArgumentParser):
    """trl.TrlParser without torch: dataclasses make the flags, a YAML file gives them other defaults.

    `none` and `null` stand for None where a flag takes a number or None, as in TRL 1.16. What becomes of keys that no
    class has is the release's of the argument classes among the dataclasses (`trl_arguments("0.8.6", ...)`); before
    0.13 one of these may have a field named config, which stays None.
    `parsers` and `ignore_extra_args` are older releases' own.
    """

    def __init__(
        self, dataclass_types: Any = None, ignore_extra_args: bool | None = None, parsers: Any = None, **kwargs: Any
    ) -> None:
        dataclass_types = parsers if dataclass_types is None else dataclass_types
        if dataclass_types is None:
            dataclass_types = []
        elif not isinstance(dataclass_types, Iterable):
            dataclass_types = [dataclass_types]
        dataclass_types = list(dataclass_types)
        releases = (getattr(kind, "of_trl", None) for kind in dataclass_types)
        self._trl = next((release for release in releases if release is not None), None)
        for kind in dataclass_types:
            held = kind.__dataclass_fields__.get("config")
            if held is not None and (self._release >= FORGIVING or held.default is not None):
                raise ValueError(f"{kind.__name__} has a field named config, which is the flag of the YAML file")
        super().__init__(dataclass_types=dataclass_types, **kwargs)
        self._ignore_extra_args = ignore_extra_args

    @property
    def _release(self) -> tuple[int, ...]:
        return version_key(self._trl or NEWEST)

    @staticmethod
    def _parse_dataclass_field(parser: argparse.ArgumentParser, field: Any) -> None:
        kinds = getattr(field.type, "__args__", ())
        optional = type(None) in kinds and bool not in kinds
        HfArgumentParser._parse_dataclass_field(parser, field)
        action = parser._option_string_actions[f"--{field.name}"]
        if optional and action.type is not str and isinstance(action.type, type) and action.nargs is None:
            action.type = _or_none(action.type)

    def parse_args_and_config(
        self,
        args: Iterable[str] | None = None,
        return_remaining_strings: bool = False,
        fail_with_unknown_args: bool = True,
        separate_remaining_strings: bool = False,
    ) -> tuple[Any, ...]:
        """The dataclasses, filled from the command line, then from the YAML file of `--config`, then by default.

        `env` in the file sets environment variables. Keys of the file that no class knows are an error, unless
        `fail_with_unknown_args` is False or `return_remaining_strings` hands them back (with
        `separate_remaining_strings` apart from those of the command line). Unknown flags of the command line are
        an error unless they are handed back. TRL 0.13 to 0.18 left unknown keys alone, 0.8 unknown flags, too.
        """
        release = self._release
        if self._ignore_extra_args is not None and release >= FORGIVING:
            return_remaining_strings = not self._ignore_extra_args
        words = list(sys.argv[1:] if args is None else args)
        unknown: list[str] = []
        if "--config" in words:
            at = words.index("--config")
            path = words[at + 1]
            del words[at : at + 2]
            unknown = self.set_defaults_with_config(**_read_config(path))
        if release < STRICT:
            *parsed, rest = self.parse_args_into_dataclasses(args=words, return_remaining_strings=True)
            self._say_ignored(unknown + rest)
            return tuple(parsed)
        output = self.parse_args_into_dataclasses(args=words, return_remaining_strings=return_remaining_strings)
        if return_remaining_strings:
            *parsed, rest = output
            return (*parsed, unknown, rest) if separate_remaining_strings else (*parsed, unknown + rest)
        if self._ignore_extra_args or FORGIVING <= release < FAILING:
            self._say_ignored(unknown)
        elif unknown and fail_with_unknown_args:
            raise ValueError(
                f"Unknown arguments from config file: {unknown}. Please remove them, add them to the dataclass, or set "
                "`fail_with_unknown_args=False`."
            )
        return tuple(output)

    def _say_ignored(self, words: list[str]) -> None:
        if words:
            said = f"TrlParser: no class has {' '.join(words)}: without effect, as under TRL {self._trl}"
            print(said, file=sys.stderr)

    def set_defaults_with_config(self, **kwargs: Any) -> list[str]:
        """Make the values the flags' defaults, in subparsers too; returns those that no flag took, as flags."""
        used = _set_defaults(self, kwargs)
        return [word for key, value in kwargs.items() if key not in used for word in (f"--{key}", str(value))]


def _set_defaults(parser: argparse.ArgumentParser, values: dict[str, Any]) -> set[str]:
    used = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                used |= _set_defaults(subparser, values)
        elif action.dest in values:
            action.default = values[action.dest]
            action.required = False
            used.add(action.dest)
    return used


def _read_config(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    if not isinstance(config, dict):
        raise ValueError(f"Config file {path} must contain a YAML mapping.")
    environment = config.pop("env", {})
    if not isinstance(environment, dict):
        raise ValueError("`env` field should be a dict in the YAML file.")
    os.environ.update({key: str(value) for key, value in environment.items()})
    return config


def _or_none(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        return None if text.lower() in ("none", "null") else kind(text)

    parse.__name__ = getattr(kind, "__name__", "value")  # argparse's messages name it
    return parse
