"""Required arguments of the parsers that aren't argparse's: click, typer, fire, tyro, hydra, jsonargparse, absl."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.abc
import importlib.util
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arguments import Arguments

MAIN = re.compile(r"train|sft|tune|main|run|fit")
MOST = 12


def patch_libraries(arguments: Arguments) -> None:
    """Patch each library when the script imports it."""
    for name, patch in PATCHES.items():
        on_import(name, functools.partial(patch, arguments))


def on_import(name: str, patch: Callable[[ModuleType], None]) -> None:
    """Call `patch` with module `name`: now if it is loaded, else when it will be."""
    if name in sys.modules:
        patch(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Watch(name, patch))


class _Watch(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self.name, self.patch, self.busy = name, patch, False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def patch_click(arguments: Arguments, module: ModuleType) -> None:
    """A command's required parameters and those that it would prompt for; a group without a command gets one."""
    command: Any = module.Command
    original = command.make_context

    @functools.wraps(original)
    def make_context(self: Any, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        given, made = list(args), []
        outer = sys.argv[1:]
        at = len(outer) - len(given)
        if outer[at:] != given:
            return original(self, info_name, args, parent, **extra)
        words = list(given)
        asks = [one for one in self.params if getattr(one, "prompt", None) and not {*one.opts} & {*words}]
        needed = asks  # standard input is empty: a prompt would end the script
        for _ in range(MOST):
            for one in needed:
                new = _click_words(one, arguments)
                words = [*words, *new] if one.param_type_name == "argument" else [*new, *words]
                made.append(" ".join(new))
            commands = getattr(self, "commands", None)
            if commands and not any(word in commands for word in words) and not self.invoke_without_command:
                words.append(next((name for name in commands if MAIN.search(name)), next(iter(commands))))
                made.append(words[-1])
            try:
                context = original(self, info_name, list(words), parent, **extra)
            except Exception as problem:
                missing = getattr(problem, "param", None)
                if type(problem).__name__ != "MissingParameter" or missing is None:
                    raise
                needed = [missing]
                continue
            break
        else:
            return original(self, info_name, args, parent, **extra)
        if made:
            arguments.take([*outer[:at], *words], _were(made))
        return context

    command.make_context = make_context


def _click_words(parameter: Any, arguments: Arguments) -> list[str]:
    if hasattr(parameter, "type_descriptor"):  # typer's own copy of click
        annotation = parameter.type_descriptor.annotation
        kind, choices = _scalar(annotation), _literals(annotation)
        if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
            choices = tuple(one.value for one in annotation)
    else:
        kinds = {"integer": int, "float": float, "boolean": bool, "integer range": int, "float range": float}
        kind, choices = kinds.get(parameter.type.name), tuple(getattr(parameter.type, "choices", ()))
    word = arguments.word(parameter.name, kind, choices, getattr(parameter, "help", "") or "")
    if isinstance(parameter.default, str | int | float) and parameter.default != "":
        word = str(parameter.default)
    flag = [max(parameter.opts, key=len)] if parameter.param_type_name == "option" else []
    if flag and getattr(parameter, "is_flag", False):
        return flag
    return [*flag, *[word] * max(1, parameter.nargs)]


def patch_fire(arguments: Arguments, module: ModuleType) -> None:
    """Parameters without a default of the function that Fire is given, and those that the script insists on."""
    original = vars(module)["Fire"]

    @functools.wraps(original)
    def fire(component: Any = None, command: Any = None, *args: Any, **kwargs: Any) -> Any:
        if command is not None:
            return original(component, command, *args, **kwargs)
        given, words, made = sys.argv[1:], list(sys.argv[1:]), []
        if component is None:  # Fire then takes what its caller has
            component = {**sys._getframe(1).f_globals, **sys._getframe(1).f_locals}
        choices = component if isinstance(component, dict) else {}
        choices = {key: one for key, one in choices.items() if inspect.isfunction(one) and str(key)[0] != "_"}
        plain = [word for word in words if not word.startswith("-")]
        function = component
        if choices:
            name = next((word for word in plain if word in choices), None)
            if name is None:
                name = next((key for key in choices if MAIN.search(str(key))), None) or next(iter(choices))
                words = [str(name), *words]
                made.append(str(name))
            function, plain = choices[name], [word for word in plain if word != name]
        taken = {word.lstrip("-").split("=")[0].replace("-", "_") for word in words if word.startswith("-")}
        lacking = [one for one in _lacking(function, arguments.insisted) if one[0] not in taken]
        required = [one for one in lacking if one[2]]
        if required:  # words without a name are those of the first parameters
            lacking = [one for one in lacking if one not in required[: len(plain) if not taken else 0]]
        shown = next((one for one in arguments.commands if not any("$" in word for word in one.words)), None)
        if lacking and shown is not None and not given:
            arguments.take([*shown.words], f"the command line is that of {shown.where}: {' '.join(shown.words)}")
            return original(component, command, *args, **kwargs)
        for name, kind, _ in lacking:
            words.append(f"--{name}={arguments.word(name, kind)}")
            made.append(words[-1])
        if made:
            arguments.take(words, _were(made))
        return original(component, command, *args, **kwargs)

    vars(module)["Fire"] = fire


def _lacking(function: Any, insisted: set[str]) -> Iterator[tuple[str, Any, bool]]:
    """(name, type, whether it has no default) of the parameters that need a value."""
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function)
    except Exception:  # no signature, or annotations that don't resolve: nothing is known of it
        return
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        if required or (name in insisted and parameter.default in (None, "")):
            yield name, _scalar(hints.get(name), parameter.default), required


def _scalar(kind: Any, default: Any = None) -> Any:
    """int, float, bool or str of an annotation such as `int | None`; str where it says nothing."""
    for one in (kind, *typing.get_args(kind)):
        if one in (int, float, bool):
            return one
    return type(default) if type(default) in (int, float, bool) else str


def patch_tyro(arguments: Arguments, module: ModuleType) -> None:
    """Fields and parameters without a default, those of nested dataclasses as `--model.name`."""
    original = vars(module)["cli"]

    @functools.wraps(original)
    def cli(f: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("args") is None and kwargs.get("default") is None:
            words, made = sys.argv[1:], []
            taken = {word.split("=")[0].replace("_", "-") for word in words if word.startswith("--")}
            for name, kind in _fields(f):
                flag = "--" + name.replace("_", "-")
                if flag not in taken:
                    made.append(f"{flag} {arguments.word(name, kind, _literals(kind))}")
            if made:
                arguments.take([*words, *(word for pair in made for word in pair.split(" ", 1))], _were(made))
        return original(f, *args, **kwargs)

    vars(module)["cli"] = cli


def _fields(f: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if not dataclasses.is_dataclass(f):
        yield from ((prefix + name, kind) for name, kind, _ in _lacking(f, set()))
        return
    hints = typing.get_type_hints(f)
    for field in dataclasses.fields(f):
        kind = hints.get(field.name)
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            continue
        if dataclasses.is_dataclass(kind):
            yield from _fields(kind, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, _literal_or_scalar(kind)


def _literal_or_scalar(kind: Any) -> Any:
    return kind if typing.get_origin(kind) is typing.Literal else _scalar(kind)


def _literals(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()


def patch_omegaconf(arguments: Arguments, module: ModuleType) -> None:
    """A mandatory `???` that is read has a value, which goes to the command line as `key=value`."""
    config: Any = module.DictConfig
    for reader in ("__getattr__", "__getitem__", "get"):
        original = getattr(config, reader)

        def read(self: Any, key: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            try:
                return _original(self, key, *args, **kwargs)
            except module.errors.MissingMandatoryValue:
                name = str(self._get_full_key(key))
                value = arguments.word(name)
                module.OmegaConf.update(self._get_root(), name, value, force_add=True)
                arguments.take([*sys.argv[1:], f"{name}={value}"], f"{name}={value} was made up")
                return value

        setattr(config, reader, functools.wraps(original)(read))


def patch_jsonargparse(arguments: Arguments, module: ModuleType) -> None:
    """Keys that jsonargparse requires; it checks them after argparse."""
    cls: Any = module.ArgumentParser
    original = cls.parse_args

    @functools.wraps(original)
    def parse_args(self: Any, args: Any = None, *more: Any, **kwargs: Any) -> Any:
        if args is None:
            words, made = sys.argv[1:], []
            taken = {word.split("=")[0] for word in words if word.startswith("-")}
            plain = [word for word in words if not word.startswith("-")]
            for action in self._actions:
                flags = {*action.option_strings}
                if not _required(self, action) or flags & taken or (not flags and plain):
                    continue
                kind = getattr(action, "_typehint", None) or action.type
                word = arguments.word(action.dest, _scalar(kind), tuple(action.choices or ()) or _literals(kind))
                made.append(f"--{action.dest}={word}" if flags else word)
            if made:
                arguments.take([*words, *made], _were(made))
        return original(self, args, *more, **kwargs)

    cls.parse_args = parse_args


def _required(parser: Any, action: Any) -> bool:
    """Whether jsonargparse requires the action: older releases keep the names apart."""
    return bool(action.required) or action.dest in getattr(parser, "required_args", ())


def patch_absl(arguments: Arguments, module: ModuleType) -> None:
    """Flags that are marked as required."""
    cls: Any = module.FlagValues
    original = cls.__call__

    @functools.wraps(original)
    def call(self: Any, argv: Any, *args: Any, **kwargs: Any) -> Any:
        words, made = list(argv), list[str]()
        for _ in range(MOST):
            try:
                rest = original(self, words, *args, **kwargs)
            except module.IllegalFlagValueError as problem:
                names = re.findall(r"Flag --(\w+) must have a value other than None", str(problem))
                if not names or list(argv)[1:] != sys.argv[1 : len(argv)]:
                    raise
                for name in names:
                    kind = {"int": int, "float": float, "bool": bool}.get(self[name].flag_type())
                    choices = tuple(getattr(self[name].parser, "enum_values", ()))
                    made.append(f"--{name}={arguments.word(name, kind, choices, self[name].help or '')}")
                words = [*argv, *made]
                continue
            if made:
                arguments.take(words[1:], _were(made))
            return rest
        return original(self, argv, *args, **kwargs)

    cls.__call__ = call


def _were(made: list[str]) -> str:
    return f"{', '.join(made)} {'was' if len(made) == 1 else 'were'} made up"


PATCHES: dict[str, Callable[[Arguments, ModuleType], None]] = {
    "click.core": patch_click,
    "typer._click.core": patch_click,
    "fire.core": patch_fire,
    "tyro": patch_tyro,
    "omegaconf": patch_omegaconf,
    "jsonargparse": patch_jsonargparse,
    "absl.flags": patch_absl,
}
