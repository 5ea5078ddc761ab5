"""The YAML, JSON, TOML and INI files of a project that a script's settings may come from, and what stands in them."""

from __future__ import annotations

import ast
import configparser
import json
import re
import tomllib
from collections.abc import Iterable
from functools import cached_property, lru_cache, reduce
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....files import read_text
from ..folders import file_in, files_in, project_folders
from ..modules import ABOVE
from .trees import MODULES

CONFIG = re.compile(r"""["']([^"'\n]{1,200}\.(?:ya?ml|json|toml|ini|cfg))["']""")
ENDINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
OF_SECTIONS = (".ini", ".cfg")
HYDRAS = re.compile(r"""\b(config_path|config_name)\s*=\s*["']([^"'\n]{1,200})["']""")
HELD_ELSEWHERE = re.compile(r"\$\{([\w.]+)\}")  # OmegaConf's `${model.name}`
OF_VARIABLE = re.compile(r"\$\{oc\.env:\w+,\s*([^}]+)\}")
BESIDE = tuple(f"{below}*{ending}" for below in ("", "config/", "configs/", "conf/") for ending in ENDINGS)
ANCHOR = re.compile(r"&\S")
ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*\w")  # of an anchor of YAML: some dozens make a file of what fills all memory
MOST_ALIASES = 6
MOST_FILES = 40
DEEPEST = 4  # files that name one another
LARGEST = 200_000  # characters of a file
NOTED = ".env"
# What stands in for a `.env` that nobody commits; the first of a folder counts.
EXAMPLES = (".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env", "env.example")
VARIABLE = re.compile(
    r"""(?m)^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s#"'][^\n#]*))"""
)


class SettingsFiles:
    """The files of settings of a script's project, each of which is looked for once."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._found: dict[str, Path | None] = {}

    def texts_at(self, path: list[str], text: str, named: Iterable[str]) -> list[tuple[str, str]]:
        """The texts at `path` of the files that `text`, a script's, or its launches (`named`) name, each with the
        file's name; where none of them has any, of those that lie beside the script, unless it names one outside the
        project."""
        files = dict.fromkeys([*_files_named(text), *named])
        inside = ((name, self._file(name)) for name in files if not Path(name).is_absolute())
        found = [(held, name) for name, file in inside if file is not None and (held := _at(path, file))]
        if not found and not any(Path(name).is_absolute() for name in files):
            folder = self._script.absolute().parent
            found = [(held, str(file.relative_to(folder))) for file in self._beside if (held := _at(path, file))]
        return found

    def _file(self, name: str) -> Path | None:
        """The file that a name means: in one of the project's folders, or the only one a little below them."""
        if name not in self._found:
            file = file_in(self._folders, name)
            for above, folder in enumerate(self._folders if file is None and "/" not in name else ()):
                file = file or _below(name, folder, (1,) if above else (1, 2))
            self._found[name] = file
        return self._found[name]

    @cached_property
    def _folders(self) -> list[Path]:
        return project_folders(self._script.absolute(), above=ABOVE)

    @cached_property
    def _beside(self) -> list[Path]:
        found = chain.from_iterable(files_in(self._script.absolute().parent, BESIDE))
        return list(islice(found, MOST_FILES))


def loaded_settings(text: str, script: Path) -> Any:
    """What the one file of settings holds that a text names and that lies in the script's project; None for several."""
    files = _files_of(_files_named(text), script)
    return _loaded(files[0]) if len(files) == 1 else None


def settings_together(named: Iterable[str], script: Path) -> dict[Any, Any] | None:
    """What files of settings of the script's project hold together, each with those that its `defaults` name."""
    held = [each for file in _files_of(named, script) if (each := _composed(file, set())) is not None]
    return reduce(merged, held) if held else None


def _files_of(named: Iterable[str], script: Path) -> list[Path]:
    """The files of the script's project that names mean."""
    folders = project_folders(script.absolute(), above=ABOVE)
    found = (file_in(folders, name) for name in dict.fromkeys(named))
    return [file for file in found if file is not None]


def _composed(file: Path, read: set[Path]) -> dict[Any, Any] | None:
    """A file of settings with those that its `defaults` name, `- model: phi` is model/phi.yaml; each is read once."""
    held = _loaded(file) if file not in read and len(read) < MOST_FILES else None
    if not isinstance(held, dict):
        return None
    read.add(file)
    whole: dict[Any, Any] = {}
    defaults = held.get("defaults")
    for chosen in defaults if isinstance(defaults, list) else ():
        if isinstance(chosen, str) and chosen != "_self_":
            whole = merged(whole, _composed(file.parent / f"{chosen}.yaml", read) or {})
        for group, option in chosen.items() if isinstance(chosen, dict) else ():
            name = str(group).rpartition(" ")[2].lstrip("/")
            part = _composed(file.parent / name / f"{option}.yaml", read) if isinstance(option, str) else None
            for key in reversed(name.partition("@")[0].split("/")):
                part = {key: part} if part is not None else None
            whole = merged(whole, part or {})
    own = {key: value for key, value in held.items() if key != "defaults" or not isinstance(value, list)}
    return merged(whole, own)


def merged(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    """Two files of settings together: of what both have the other's."""
    found = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


def settings_of(text: str) -> Any:
    """What a text of JSON or YAML holds; None where it is neither."""
    try:
        return _parsed(text, ".json" if text.lstrip().startswith("{") else ".yaml")
    except Exception:  # as of a file
        return None


@lru_cache(MODULES)
def files_named_in(tree: ast.Module) -> list[str]:
    """The files of settings that a module names."""
    return _files_named(ast.unparse(tree))


@lru_cache(MOST_FILES)
def _files_named(text: str) -> list[str]:
    named = hydras_file(text)
    return [*CONFIG.findall(text), *([named] if named else [])]


def hydras_file(text: str) -> str:
    """The file that Hydra composes its settings from: `@hydra.main(config_path="conf", config_name="config")`."""
    given = dict(HYDRAS.findall(text)) if "hydra" in text else {}
    name = given.get("config_name", "")
    named = name if name.endswith(ENDINGS) else f"{name}.yaml"
    return f"{given['config_path']}/{named}" if name and "config_path" in given else named if name else ""


def _below(name: str, folder: Path, depths: tuple[int, ...]) -> Path | None:
    """The only file of that name in the folders so far below one of the project's: `ROOT / "settings" / "a.yaml"`."""
    found = [*chain.from_iterable(files_in(folder, tuple(f"{'*/' * depth}{name}" for depth in depths)))]
    return found[0] if len(found) == 1 else None


def _at(path: list[str], file: Path, depth: int = 0) -> str:
    held: Any = _composed(file, set())
    for key in path:
        held = held.get(key) if isinstance(held, dict) else None
    if not isinstance(held, str) or depth > DEEPEST:
        return ""
    if (elsewhere := HELD_ELSEWHERE.fullmatch(held)) is not None:
        return _at(elsewhere[1].split("."), file, depth + 1)
    of_variable = OF_VARIABLE.fullmatch(held)
    return of_variable[1].strip() if of_variable is not None else held


def _loaded(file: Path) -> Any:
    """A file of settings; None where it can't be read."""
    try:
        return _parsed(read_text(file, LARGEST), file.suffix)
    except Exception:  # what a stranger's file holds says nothing then
        return None


@lru_cache(MOST_FILES)
def _parsed(text: str, suffix: str) -> Any:
    """What the text holds, which nobody may change: a port asks for many values of the same file."""
    import yaml

    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    if suffix in OF_SECTIONS:
        return _sections(text)
    too_many = ANCHOR.search(text) is not None and len(ALIAS.findall(text)) > MOST_ALIASES
    return None if too_many else yaml.safe_load(text)


def _sections(text: str) -> dict[str, dict[str, str]]:
    """What an INI file holds; each section has what the one of defaults has."""
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.read_string(text)
    return {name: dict(section) for name, section in read.items()}


def variable_in_files(name: str, script: Path) -> tuple[str, str] | None:
    """What the `.env` file of a script's project gives a variable, or the example that is there for it."""
    for folder in project_folders(script.absolute()):
        for file in chain.from_iterable(files_in(folder, (NOTED, *EXAMPLES))):
            held = _variables(file).get(name)
            if held:
                return held, file.name
    return None


def _variables(file: Path) -> dict[str, str]:
    try:
        text = read_text(file, LARGEST)
    except (OSError, ValueError, InputError):
        return {}
    return {each[1]: (each[2] or each[3] or each[4] or "").strip() for each in VARIABLE.finditer(text)}
