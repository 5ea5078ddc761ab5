"""Which model an expression names when nothing says another: the default of an argument, or what a file beside says.

`args.model` of a parser, `config["model"]["name"]` of a YAML that the script reads, `MODEL_ID` of another module. The
port leaves the choice to its run; a model that can't be trained then is better known before.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ....errors import InputError
from ....files import read_text
from ....text.expressions import parsed
from ...merged import Merged
from ...module import Module
from ..modules import find_project_file
from .environment import variable_read
from .held_settings import Launched, Settings, one_of
from .parameters import defaults_of, given_to, is_spread
from .settings_files import settings_of
from .tables import DEEPEST
from .text_parts import changed_text, keys_loaded, keys_of, option_of, parts_of, text_method
from .trees import (
    ADDS,
    assigned_in,
    imports_of,
    last_name,
    names_imported,
    set_to_in,
    tree_of,
    unpacked_in,
)

DOWNLOADS = ("snapshot_download", "model_download")  # of huggingface_hub, modelscope and kagglehub
OPTIONS = ("Option", "Argument")  # of typer, in a parameter's default
WORD = re.compile(r"[\w-][\w.-]*(?:/[\w.-]+)?(?<!\.)")
LARGEST = 200_000  # characters of a file beside


def usual_values(code: str, text: str, script: Path, launched: Launched | None) -> list[tuple[str, str]]:
    """As `usual_value`; of a variable that is set in several places, what each sets, as far as it can be told."""
    try:
        finder, node = _Finder(text, script, launched), parsed(code)
        found = [each for value in finder.values(node) for each in finder.of_choices(value)]
    except (SyntaxError, ValueError, RecursionError):
        return []
    return found


def usual_values_in(module: Module, code: str, launched: Launched | None = None) -> list[tuple[str, str]]:
    """As `usual_values`, of a script's module; where its files together can't tell, of those that hold the code.

    Two files of a project may each have a `MODEL_ID` of their own.
    """
    found = usual_values(code, module.python, Path(module.path), launched)
    parts = [part.module for part in module.parts] if isinstance(module, Merged) else []
    for part in parts if not found else ():
        if code in part.text and not found:
            found = usual_values(code, part.python, Path(part.path), launched)
    return found


def usual_texts(module: Module, code: str) -> list[str]:
    """The texts that expression `code` of a script may hold unless its user says another; none where it can't be
    told."""
    return [text for text, _ in usual_values_in(module, code)]


def usual_value(code: str, text: str, script: Path) -> tuple[str, str] | None:
    """The text that expression `code` of a script holds unless its user says another, and where that stands.

    None where it can't be told, or several could be meant.
    """
    try:
        return _Finder(text, script).of(parsed(code))
    except (SyntaxError, ValueError, RecursionError):
        return None


def named_in_help(code: str, text: str, script: Path) -> list[tuple[str, str]]:
    """The words in the help of the argument that expression `code` reads, where it has neither default nor choices."""
    try:
        finder = _Finder(text, script)
        finder.of(parsed(code))
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [(word, where) for where, said in finder.helps.items() for word in WORD.findall(said)]


class _Finder(Settings):
    def of_choices(self, node: ast.expr) -> list[tuple[str, str]]:
        """What `node` holds; where that hangs on one argument without a default, for each of its choices."""
        self.choices.clear()
        self.forget()
        found = self.of(node)
        if found is not None or len(self.choices) != 1:
            return [found] if found is not None else []
        [(name, choices)] = self.choices.items()
        chosen = []
        for choice in choices:
            self.chosen = {name: choice}
            self.forget()
            chosen.append(self.of(node))
        self.chosen = {}
        return [each for each in chosen if each is not None]

    def forget(self) -> None:
        """Look again for what was found before a choice was made."""
        self.held.clear()
        self.settings.clear()

    def of(self, node: ast.expr, place: str = "", depth: int = 0) -> tuple[str, str] | None:
        """What `node` of the module `place` (its file, "" for the script) holds."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            text = node.value if isinstance(node.value, str) else ""
            return (text, self.shown[place]) if text else None
        if isinstance(node, ast.Name):
            return self.named(node.id, place, depth)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return self.of(node.values[-1], place, depth + 1)
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            return self.joined(node, place, depth)
        if (variable := variable_read(node)) is not None:
            return self.of_environment(*variable, place, depth)
        if isinstance(node, ast.Call | ast.Subscript) and (method := text_method(node)) is not None:
            owner = self.of(method[0], place, depth + 1)
            result = changed_text(owner[0], *method[1:]) if owner is not None else ""
            return (result, owner[1]) if owner is not None and result else None
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("os.path.join", "path.join", "join", "Path", "pathlib.Path", "str") and node.args:
                return self.joined(node, place, depth)
            if called.rpartition(".")[2] in DOWNLOADS:
                return self.downloaded(node, place, depth)
            if called.rpartition(".")[2] in OPTIONS:
                default = next((word.value for word in node.keywords if word.arg == "default"), None)
                return self.of(default or node.args[0], place, depth + 1) if default or node.args else None
            if (returned := self.result(node, place)) is not None:
                return self.of(*returned, depth + 1)
        entry = self.entry(node, place, depth) if not self.in_files(node) else None
        if entry is not None and not isinstance(entry[0], ast.Dict):
            return self.of(*entry, depth + 1)
        if (option := option_of(node)) and (held := one_of(self.texts(option))) is not None:
            return held
        keys = keys_of(node)
        if keys is None:
            return one_of(self.texts(path)) if (path := keys_loaded(node)) else None
        owner_name, path = keys
        module = self.imported(owner_name, place)
        if module is not None and module[1] == "" and len(path) == 1:
            return self.named(path[0], module[0], depth + 1)
        return self.of_setting(owner_name, path, place, depth) or self.otherwise(node, path, place, depth)

    def in_files(self, node: ast.expr) -> bool:
        """Whether a file of settings has what is asked of an object that holds them: `self.config["model"]["name"]`."""
        keys = keys_of(node)
        return keys is not None and len(keys[1]) > 1 and bool(self.texts(keys[1][1:]))

    def otherwise(self, node: ast.expr, path: list[str], place: str, depth: int) -> tuple[str, str] | None:
        """What is taken where no settings have a path, `config.get("model", DEFAULT)`; the text of an Enum's member."""
        if isinstance(node, ast.Call) and len(node.args) > 1 and not any(self.texts(path)):
            taken = node.args[1] if last_name(node.func) == "get" else node.args[2] if len(node.args) == 3 else None
            taken = next((word.value for word in node.keywords if word.arg == "fallback"), taken)
            return self.of(taken, place, depth + 1) if taken is not None else None
        if isinstance(node, ast.Attribute) and node.attr == "value":
            return self.of(node.value, place, depth + 1)
        return None

    def downloaded(self, node: ast.Call, place: str, depth: int) -> tuple[str, str] | None:
        """The repository whose files a call gets: `snapshot_download("org/name")`; of Kaggle without the version."""
        named = (word.value for word in node.keywords if word.arg in ("repo_id", "model_id", "handle"))
        asked = next(named, node.args[0] if node.args else None)
        found = self.of(asked, place, depth + 1) if asked is not None else None
        return ("/".join(found[0].split("/")[:2]), found[1]) if found is not None else None

    def joined(self, node: ast.expr, place: str, depth: int) -> tuple[str, str] | None:
        """A text of several parts, from the last slash in front of which everything behind is known."""
        text, where = "", ""
        for part in reversed(parts_of(node)):
            found = (part, "") if isinstance(part, str) else self.of(part, place, depth + 1)
            if found is None:
                return (text.partition("/")[2], where) if text.partition("/")[2] else None
            text, where = found[0] + text, found[1] or where
        return (text, where) if text else None

    def values(self, node: ast.expr) -> list[ast.expr]:
        """What the script's assignments set a name to; anything else is its own only value."""
        set_to = [
            value for name, value in assigned_in(self.trees[""]) if isinstance(node, ast.Name) and name == node.id
        ]
        values = set_to if len(set_to) > 1 or any(isinstance(value, ast.IfExp) for value in set_to) else [node]
        return [part for value in values for part in _branches(value)]

    def read_text(self, text: str) -> ast.expr | None:
        """What a text of JSON or YAML holds, as code."""
        held = settings_of(text)
        return ast.parse(repr(held), mode="eval").body if isinstance(held, dict) else None

    def named(self, name: str, place: str, depth: int) -> tuple[str, str] | None:
        """What a name holds: its only value, an import's, a parameter's default or what all calls give it."""
        if depth > DEEPEST:
            return None
        asked = name, place, depth
        if asked not in self.held:
            self.held[asked] = self._named(name, place, depth)
        return self.held[asked]

    def _named(self, name: str, place: str, depth: int) -> tuple[str, str] | None:
        tree = self.trees[place]
        values = set_to_in(tree, name)
        if len(values) == 1:
            return self.of(values[0], place, depth + 1)
        if values:
            return None
        module = self.imported(name, place)
        if module is not None and module[1]:
            return self.named(module[1], module[0], depth + 1)
        found, parts = self.of_parameter(name, place, depth), unpacked_in(tree, name)
        return found or (self.of(parts[0], place, depth + 1) if len(parts) == 1 else None)

    def of_parameter(self, name: str, place: str, depth: int) -> tuple[str, str] | None:
        """What all calls give a parameter, else its default, be it that of an option of the command line."""
        tree = self.trees[place]
        known = [each for each in (self.of(value, place, depth + 1) for value in given_to(tree, name)) if each]
        certain = self.may_be_chosen or all(where == self.shown[place] for _, where in known)
        if known and certain and len(known) == len(given_to(tree, name)):
            return known[0] if len({value for value, _ in known}) == 1 else None
        defaults = defaults_of(tree, name)
        if len(defaults) == 1:
            return self.of(defaults[0], place, depth + 1)
        adds = ADDS if is_spread(tree, name) else ("option",)
        found = list(self.in_parsers(name, depth + 1, adds)) if not defaults else []
        return found[0] if len({value for value, _ in found}) == 1 else None

    def imported(self, name: str, place: str) -> tuple[str, str] | None:
        """The module of the project that `name` is, or is from, and its name there; (file, "") for itself."""
        for node in imports_of(self.trees[place]):
            inside = 0 if isinstance(node, ast.Import) else 1  # names in the file that an import may mean
            for bound, path in names_imported(node):
                found = self.module(path, place) if bound == name else None
                if found is not None and len(found[1]) <= inside:
                    return found[0], "".join(found[1])
                if bound == "*" and (found := self.module(path[:-1].removesuffix("."), place)) is not None:
                    if not found[1] and any(target == name for target, _ in assigned_in(self.trees[found[0]])):
                        return found[0], name
        return None

    def module(self, name: str, place: str) -> tuple[str, list[str]] | None:
        """The file of the project that an import of `place` means, and what of the name lies in it; it is read."""
        found = find_project_file(place if place and name.startswith(".") else str(self.script), name)
        if found is None:
            return None
        file, shown = str(found[0]), found[1]
        if file not in self.trees:
            try:
                self.trees[file] = tree_of(read_text(found[0], LARGEST))
            except (SyntaxError, ValueError, OSError, RecursionError, MemoryError, InputError):
                return None
            self.shown[file] = shown
        own = shown.removesuffix(".py").removesuffix("/__init__").split("/")
        return file, name.lstrip(".").split(".")[len(own) :]


def _branches(node: ast.expr) -> list[ast.expr]:
    """What an expression may be by its conditions: `A if test else B`."""
    return [*_branches(node.body), *_branches(node.orelse)] if isinstance(node, ast.IfExp) else [node]
