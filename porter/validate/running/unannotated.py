"""What a parameter without an annotation takes, by what its function does with it and by the words of its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..stand_ins.command_line.made_up_values import NUMBERS, PLACEHOLDER, number_value, text_value

SETTINGS = re.compile(
    r"(^|_)(args|arguments|cfg|conf|config|configs|configuration|hparams|opts?|options|params|settings)$"
)
ROWS = re.compile(r"(^|_)(data|datasets?|ds|rows|records|examples|samples)$")
TABLE = re.compile(r"(^|_)(df|frame|table)$")
SWITCH = re.compile(
    r"^(use|is|do|with|enable|no|should|has|push|load_in|merge|resume|debug|verbose|force|fp16|bf16|dry)(_|$)"
)
NAMES = re.compile(r"(^|_)(name|path|id|dir|checkpoint|ckpt|repo)(_|$)")
CONFIGURATIONS, MOST_FILES = ("configs/*.y*ml", "config/*.y*ml", "conf/*.y*ml", "*.y*ml"), 20
NOTHING = text_value("")  # what a name that says nothing gives
OF_TEXT = set("strip split lower upper replace startswith endswith format rsplit join".split())
OF_ROWS = set("map filter shuffle select train_test_split column_names remove_columns rename_column features".split())
OF_MAPPING = {"get", "items", "keys", "values", "pop", "update"}
SUMS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Sub, ast.Pow)


class Settings(SimpleNamespace):
    """Settings that answer as attributes and as items, whichever the script asks for."""

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        vars(self)[name] = value

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        return vars(self).get(name, default)

    def keys(self) -> Any:
        """As of a dict, so that `**settings` works."""
        return vars(self).keys()

    def items(self) -> Any:
        """As of a dict."""
        return vars(self).items()

    def as_dict(self) -> dict[str, Any]:
        """A dict of them, and of those within."""
        return {name: value.as_dict() if isinstance(value, Settings) else value for name, value in self.items()}


def is_settings(name: str) -> bool:
    """Whether a parameter of this name holds a run's settings."""
    return SETTINGS.search(name) is not None


def as_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Values that were written as JSON, with their settings as such again."""
    return {name: Settings(**as_settings(value)) if isinstance(value, dict) else value for name, value in given.items()}


def made_up_by_use(name: str, node: ast.AST, defaults: Mapping[str, Any], settings: bool = False) -> Any:
    """A value for parameter `name` of the function `node`; LookupError where neither its name nor a use tells.

    `defaults`: what the project's parsers and dataclasses have for settings of these names. `settings`: it holds some,
    whatever its name is.
    """
    uses = list(_uses(name, node))
    attributes, keys = _fields(uses)
    settings = settings or is_settings(name)
    if not settings and ROWS.search(name) and not keys and (attributes <= OF_ROWS or not attributes):
        return _dataset(attributes, uses)
    if not settings and TABLE.search(name):
        return _dataset(attributes, uses).to_pandas()
    fields = (attributes - OF_MAPPING - OF_TEXT) | keys
    if settings and (fields or _gotten(uses, 2)):
        return _settings(name, fields, _gotten(uses), node, defaults)
    if fields:
        raise LookupError(name)
    if name in defaults and defaults[name] is not None:
        return defaults[name]
    return _plain(name, uses)


def _settings(name: str, fields: set[str], gotten: set[str], node: ast.AST, defaults: Mapping[str, Any]) -> Settings:
    """Settings with these fields; what is `gotten` may be missing, and is where nothing tells its value."""
    made = Settings()
    for field in sorted(fields):
        inner = list(_uses_of_field(name, field, node))
        own, keys = _fields(inner)
        deeper = (own - OF_MAPPING - OF_TEXT) | keys
        if deeper:
            made[field] = Settings(**{each: _of_name(_full(field, each), defaults) for each in sorted(deeper)})
        elif field not in gotten or field in defaults or _tells(field, inner):
            made[field] = _of_name(field, defaults, inner)
    return made


def _tells(name: str, uses: Sequence[ast.AST]) -> bool:
    try:
        return _plain(name, uses) is not None
    except LookupError:
        return False


def _full(section: str, name: str) -> str:
    """A setting's name with that of its section where its own says too little: `model.name`."""
    return f"{section}_{name}" if name in ("name", "path", "id", "dir", "type", "file") else name


def _of_name(name: str, defaults: Mapping[str, Any], uses: Sequence[ast.AST] = ()) -> Any:
    """A setting's value: one that is asked for is a number or a text, whatever it says."""
    known = defaults.get(name)
    if known is not None:
        return known
    try:
        return _plain(name, uses)
    except LookupError:
        return text_value(name.lower())


def _plain(name: str, uses: Sequence[ast.AST]) -> Any:
    """A switch, a number or a text."""
    lower = name.lower()
    if SWITCH.search(lower):
        return False
    is_text = any(isinstance(use, ast.Attribute) and use.attr in OF_TEXT for use in uses)
    counted = any(
        (isinstance(use, ast.BinOp) and isinstance(use.op, SUMS))
        or (isinstance(use, ast.Call) and getattr(use.func, "id", "") in ("range", "int", "float"))
        for use in uses
    )
    if counted or (not is_text and _is_number(lower)):
        number = number_value(lower)
        whole = number == int(number) and not re.search(r"rate|(^|_)lr|ratio|decay", lower)
        return int(number) if whole else number
    value = text_value(lower)
    loaded = any(isinstance(use, ast.Call) and getattr(use.func, "attr", "") == "from_pretrained" for use in uses)
    if value == PLACEHOLDER and not loaded and not NAMES.search(lower):  # the model itself, or its tokenizer
        raise LookupError(name)
    if value == NOTHING and not is_text:
        raise LookupError(name)
    return value


def _is_number(name: str) -> bool:
    """Whether a name is one of a number's, and not of a place whose name says more: `train_batch_file`."""
    said = any(re.search(pattern, name) for pattern, _ in NUMBERS)
    return said and re.search(r"name|path|dir|file|model|dataset|type|column|field|device|token$", name) is None


def _dataset(attributes: set[str], uses: list[ast.AST]) -> Any:
    import datasets

    by_split = any(
        isinstance(use, ast.Subscript) and _text(use.slice) in ("train", "test", "validation") for use in uses
    )
    return datasets.load_dataset("tpu-port/data", **({} if by_split else {"split": "train"}))


def _fields(uses: list[ast.AST]) -> tuple[set[str], set[str]]:
    attributes = {use.attr for use in uses if isinstance(use, ast.Attribute)}
    keys = {text for use in uses if isinstance(use, ast.Subscript) and (text := _text(use.slice))}
    return attributes, keys - {"train", "test", "validation"} | _gotten(uses)


def _gotten(uses: list[ast.AST], given: int = 1) -> set[str]:
    """Names that `.get("name")` asks for with so many arguments: without a default of its own, or with one."""
    calls = (use for use in uses if isinstance(use, ast.Call) and isinstance(use.func, ast.Attribute))
    gets = (call for call in calls if call.func.attr == "get" and len(call.args) == given)  # type: ignore[attr-defined]
    return {text for call in gets if (text := _text(call.args[0]))}


def _uses(name: str, node: ast.AST) -> Iterator[ast.AST]:
    """The expressions around each mention of `name`, and the calls of its methods."""
    for part in ast.walk(node):
        for child in ast.iter_child_nodes(part):
            method = isinstance(part, ast.Call) and isinstance(child, ast.Attribute)
            if _mentions(child.value if method and isinstance(child, ast.Attribute) else child, name):
                yield part


def _uses_of_field(name: str, field: str, node: ast.AST) -> Iterator[ast.AST]:
    for part in ast.walk(node):
        for child in ast.iter_child_nodes(part):
            if isinstance(child, ast.Attribute | ast.Subscript) and _mentions(child.value, name):
                said = child.attr if isinstance(child, ast.Attribute) else _text(child.slice)
                if said == field:
                    yield part


def _mentions(node: ast.AST, name: str) -> bool:
    """Whether an expression is the parameter, or the attribute of that name in which an object keeps it."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id == name


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def defaults_of(trees: Sequence[ast.AST]) -> dict[str, Any]:
    """What settings have by name: in `add_argument("--name", default=...)` and fields of dataclasses of these modules,
    else in `settings = {"name": ...}` and `settings.get("name", ...)`."""
    found: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for node in (part for tree in trees for part in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            flags = [text for each in node.args if (text := _text(each))]
            default = next((word.value for word in node.keywords if word.arg == "default"), None)
            if flags and isinstance(default, ast.Constant):
                found.setdefault(flags[-1].lstrip("-").replace("-", "_"), default.value)
        elif isinstance(node, ast.ClassDef) and node.decorator_list:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    if isinstance(line.value, ast.Constant):
                        found.setdefault(line.target.id, line.value.value)
        for name, value in _written_out(node):
            if isinstance(value, ast.Constant):
                other.setdefault(name, value.value)
    return other | found


def defaults_of_files(folder: Path) -> dict[str, Any]:
    """What settings have by name in the YAML files of a project, the first that says it: `configs/base.yaml`."""
    try:
        import yaml
    except ImportError:
        return {}
    found: dict[str, Any] = {}
    for file in [file for pattern in CONFIGURATIONS for file in sorted(folder.glob(pattern))][:MOST_FILES]:
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, yaml.YAMLError):
            continue
        for name, value in _leaves("", content):
            found.setdefault(name, value)
    return found


def _leaves(section: str, content: Any) -> Iterator[tuple[str, Any]]:
    for name, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, dict):
            yield from _leaves(str(name), value)
        elif value is not None:
            yield (_full(section, str(name)) if section else str(name)), value


def _written_out(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What a dict of settings holds, and what one is said to hold otherwise."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and isinstance(node.targets[0], ast.Name):
        if SETTINGS.search(node.targets[0].id.lower()) or "default" in node.targets[0].id.lower():
            yield from (
                (_text(key), value) for key, value in zip(node.value.keys, node.value.values, strict=True) if key
            )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        if len(node.args) == 2 and SETTINGS.search(ast.unparse(node.func.value).lower()):
            yield _text(node.args[0]), node.args[1]
