"""What the settings of a project hold: its files, what its parsers and dataclasses take unless told otherwise, the
variables of its environment, and what its own commands give a script."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from .environment import variable_set_in
from .settings_files import NOTED, SettingsFiles, files_named_in, variable_in_files
from .tables import DEEPEST, Tables
from .text_parts import keys_loaded, keys_of
from .trees import (
    declarations_of,
    fields_of,
    has_field,
    held_by_objects,
    imports_of,
    keywords_by_name,
    last_name,
    names_imported,
    set_to_in,
    tree_of,
)

NOTED_VALUES = "dotenv_values"  # the function that gives what a `.env` file holds


@dataclass(frozen=True)
class Launched:
    """What a project's commands give a script: files of settings, and flags and variables of the environment, each
    with a value and where that stands, `always` those variables that every command sets; of settings that a command
    sets by their path, `model.name=gpt2`, that."""

    files: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    paths: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class Settings(Tables):
    """What reads the settings of a script and of the modules that it imports."""

    def __init__(self, text: str, script: Path, launched: Launched | None = None) -> None:
        self.text, self.script, self.launched = text, script, launched or Launched()
        self.may_be_chosen = launched is not None  # whether what a user may choose otherwise counts, handed on
        self.trees: dict[str, ast.Module] = {"": tree_of(text)}
        self.shown: dict[str, str] = {"": ""}
        self.all_read = False  # the modules that the script imports
        self.choices: dict[str, list[str]] = {}  # of arguments that were asked for and have no default
        self.chosen: dict[str, str] = {}
        self.helps: dict[str, str] = {}  # of such arguments, by their flags
        # Of names by module and depth: functions that hand a value on to one another are asked in turn, and so are
        # fields of the same name in several classes.
        self.held: dict[tuple[str, str, int], tuple[str, str] | None] = {}
        self.settings: dict[tuple[tuple[str, ...], int], tuple[str, str] | None] = {}
        self.asked: set[tuple[str, ...]] = set()  # paths whose value is being looked for
        self.files = SettingsFiles(script)

    def module(self, name: str, place: str) -> tuple[str, list[str]] | None:
        """The file of the project that an import means, and what of the name lies in it; it is read."""
        raise NotImplementedError

    def of_environment(self, name: str, default: ast.expr | None, place: str, depth: int) -> tuple[str, str] | None:
        """What a variable of the environment holds: what a module sets it to, a launch or a `.env` file gives it, or
        what is taken where it isn't set."""
        set_to = variable_set_in(self.trees[place], name)
        if set_to:
            return self.of(set_to[0], place, depth + 1) if len(set_to) == 1 else None
        if name in self.launched.variables and (default is None or name in self.launched.always):
            return self.launched.variables[name]
        of_files = variable_in_files(name, self.script)
        if of_files is not None and (default is None or (of_files[1] == NOTED and self.reads_noted())):
            return of_files
        found = self.of(default, place, depth + 1) if default is not None else None
        return (found[0], f"the default of '{name}'") if found is not None else None

    def reads_noted(self) -> bool:
        """Whether a module that is read loads a `.env` file."""
        names = (getattr(node, "module", "") or "" for tree in self.trees.values() for node in imports_of(tree))
        return any(name.partition(".")[0] == "dotenv" for name in names)

    def of_setting(self, owner: str, path: list[str], place: str, depth: int) -> tuple[str, str] | None:
        """What settings hold at `path` of the name `owner`, which may be a part of them: `model = config["model"]`."""
        found = self.at(path, depth)
        if found is not None:
            return found
        if owner in ("self", "cls"):
            found = self.at(path[1:], depth) if len(path) > 1 else None
            return found or self._of_attribute(path, place, depth)
        set_to = set_to_in(self.trees[place], owner)
        if len(set_to) != 1 or depth > DEEPEST:
            return None
        if loaded := keys_loaded(set_to[0]):
            return self.at([*loaded, *path], depth)
        if isinstance(made := set_to[0], ast.Call) and last_name(made.func) == NOTED_VALUES and len(path) == 1:
            return variable_in_files(path[0], self.script)
        if (above := keys_of(set_to[0])) is None:
            return None
        return self.of_setting(above[0], [*above[1], *path], place, depth + 1)

    def _of_attribute(self, path: list[str], place: str, depth: int) -> tuple[str, str] | None:
        """What settings hold at a path whose first attribute is a part of them: `self.name = self.part["base"]`
        where `self.part = config["model"]`."""
        classes = [node for node in declarations_of(self.trees[place]) if isinstance(node, ast.ClassDef)]
        values = [value for node in classes for value in held_by_objects(node).get(path[0], ())]
        above = keys_of(values[0]) if len({ast.dump(value) for value in values}) == 1 else None
        if above is None or depth > DEEPEST:
            return None
        return self.of_setting(above[0], [*above[1], *path[1:]], place, depth + 1)

    def read_imported(self) -> None:
        """Read the project's modules that the script imports: a class of settings may stand there."""
        if self.all_read:
            return
        self.all_read = True
        for _, path in chain.from_iterable(map(names_imported, imports_of(self.trees[""]))):
            self.module(path, "")

    def at(self, path: list[str], depth: int) -> tuple[str, str] | None:
        """What the settings hold at `path`: one value of all parsers, dataclasses and files that have it."""
        asked = tuple(path), depth
        if asked not in self.settings:
            if asked[0] in self.asked:  # what it is made of leads back to it
                return None
            self.asked.add(asked[0])
            self.settings[asked] = self._at(path, depth)
            self.asked.remove(asked[0])
        return self.settings[asked]

    def _at(self, path: list[str], depth: int) -> tuple[str, str] | None:
        if (given := self.launched.paths.get(".".join(path))) is not None:
            return given
        found = self.texts(path)
        found += self.in_parsers(path[-1], depth + 1) if len(path) == 1 else ()
        if not found:
            self.read_imported()
            found += (each for each in self.in_parsers(path[-1], depth + 1) if len(path) == 1 or "." in each[1])
        name = ".".join(path)
        found = [each for each in found if each[0] == self.chosen.get(name, each[0])]
        values = {value for value, _ in found}
        if len(values) > 1 and self.may_be_chosen:  # each launch gives another file of settings
            self.choices[name] = sorted(values)
        return found[0] if len(values) == 1 else None

    def texts(self, path: list[str]) -> list[tuple[str, str]]:
        """The texts at `path` of the files of settings that the script names, or a module that it imports."""
        found = self.files.texts_at(path, self.text, self.launched.files)
        if not found:
            self.read_imported()
            names = [name for file, tree in self.trees.items() if file for name in files_named_in(tree)]
            found = self.files.texts_at(path, "", names) if names else []
        return found

    def in_parsers(self, name: str, depth: int, adds: tuple[str, ...] = ("add_argument",)) -> Iterator[tuple[str, str]]:
        """What arguments and fields of that name usually hold: their defaults, or what the project's launches give."""
        for tree in list(self.trees.values()):
            for node in declarations_of(tree):
                if isinstance(node, ast.ClassDef):
                    held = [value for field, value in fields_of(node) if field == name]
                    if not held and not has_field(node, name):
                        continue
                    made = [word.value for word in keywords_by_name(tree).get(node.name, ()) if word.arg == name]
                    for value in made or held:
                        if found := self.of(value, "", depth):
                            yield found[0], f"{node.name}.{name}"
                elif last_name(node.func).endswith(adds):
                    flags = [flag.value for flag in node.args if isinstance(flag, ast.Constant)]
                    words = {word.arg: word.value for word in node.keywords}
                    flag = next((str(flag) for flag in flags if str(flag).startswith("--")), str(flags[:1]))
                    target = words.get("dest")
                    dest = target.value if isinstance(target, ast.Constant) else flag.lstrip("-").replace("-", "_")
                    if dest != name:
                        continue
                    if flag in self.launched.flags:
                        yield self.launched.flags[flag]
                    elif "default" in words and (default := self.of(words["default"], "", depth)):
                        yield default[0], f"the default of {flag}"
                    elif name in self.chosen:
                        yield self.chosen[name], f"a choice of {flag}"
                    elif isinstance(choices := words.get("choices"), ast.List | ast.Tuple):
                        values = [each.value for each in choices.elts if isinstance(each, ast.Constant)]
                        self.choices[name] = [value for value in values if isinstance(value, str) and value]
                    elif isinstance(said := words.get("help"), ast.Constant):
                        self.helps[f"the help of {flag}"] = str(said.value)


def one_of(texts: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The text that all of them are, with where it stands first."""
    return texts[0] if len({text for text, _ in texts}) == 1 else None
