"""Packs: folders of rules. Built-in and contributed ones are loaded by the same function.

A pack is `pack.toml` plus the tables and rule modules that it names. TOML is data; a Python rule module runs
when its pack is loaded, which for a pack that is not built in happens only when the user names it (`--rules PATH`),
trusted it (`[tool.tpu-port] rules`, see `porter/front/trust.py`) or installed it (entry point `tpu_port.packs`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InputError
from ...runtime.facts.field_tables import FieldTable, load_table
from ...runtime.facts.toml_memory import read_toml
from ...source.project.printed import Shown
from ...tables import rules_folder
from ..steps.step import Step
from .claims import check_claims, check_match
from .facts import NONE, Facts, Release, read_facts, read_release, read_shown
from .python_rule import SiteRule as SiteRule
from .python_rule import load_python_rule
from .rule_modules import forget

ROLES = (
    "arguments", "lora", "quantization", "model", "prepare", "inject", "trainer", "collator", "launch",
    "optimizer", "schedule", "loader",
)  # fmt: skip
ACTIONS = ("remove", "replace", "import", "refuse", "never", "always")


@dataclass(frozen=True)
class TableRule:
    """A config class or call that a field table reads into the recipe; `role` says what part it plays.

    `names` are the import paths of the class. The rows are read when they are first asked for.
    """

    id: str
    title: str
    role: str
    names: tuple[str, ...]
    head: Mapping[str, Any]
    positional: tuple[str, ...]
    path: Path
    instead_of: tuple[str, ...] = ()
    line: int = 0

    @property
    def claims(self) -> tuple[str, ...]:
        """A class counts as its call: a rule on `acme.Config()` beside a table of `acme.Config` is a clash as well."""
        return tuple(f"{name}()" for name in self.names)

    @property
    def doc(self) -> str:
        return f"`{self.names[0]}`: every keyword has a row in `{self.path.name}`."

    @property
    def library(self) -> str:
        return str(self.head.get("library", ""))

    @property
    def kind(self) -> str:
        """Of a trainer's table: how it trains, which chooses the writer (`sft`; see `porter/target/write.py`)."""
        return str(self.head.get("kind", "sft"))

    @property
    def config(self) -> str:
        """Of a trainer's table: the config class whose defaults hold when the script gives none."""
        return str(self.head.get("config", ""))

    @property
    def hands_on(self) -> str:
        """The class whose keywords the call takes as well, as it hands on what it doesn't know itself."""
        return str(self.head.get("hands_on", ""))

    @property
    def hands_on_with(self) -> frozenset[str]:
        """The keywords without one of which it hands on nothing; none where it always does."""
        return frozenset(self.head.get("hands_on_with", ()))

    @cached_property
    def table(self) -> FieldTable:
        """The rows. InputError when the file is no field table."""
        try:
            return load_table(self.path)
        except (ValueError, LookupError, OSError) as error:
            raise InputError(f"is no field table: {error}", self.path, fix="see docs/packs.md for the format") from None


@dataclass(frozen=True)
class Rewrite:
    """A small idiom beside the recipe.

    `action`: `remove` (the statement goes), `replace` (the expression becomes `replacement`; with a `fix` it is
    also said as a warning), `import` (the name stays and comes from the runtime's `module`, or from `library`),
    `refuse` (a finding for a person), `never` (false on a TPU) and `always` (true there): the condition that asks is
    decided, the branch that runs is kept.
    `releases`: of an imported class, the module's function that makes it as an older release has it.
    `keep_in_calls`: not where it is an argument of a call that stays (`x.to(torch.bfloat16)`).
    """

    id: str
    matches: tuple[str, ...]
    action: str
    replacement: str
    module: str
    imports: tuple[str, ...]
    reason: str
    fix: str
    keep_in_calls: bool
    library: str
    releases: str
    path: Path
    instead_of: tuple[str, ...] = ()
    line: int = 0

    @property
    def claims(self) -> tuple[str, ...]:
        return self.matches

    @property
    def title(self) -> str:
        return f"{', '.join(self.matches)}: {self.reason}"

    @property
    def doc(self) -> str:
        return self.reason


Answering = TypeVar("Answering", bound=TableRule | SiteRule | Rewrite)


@dataclass(frozen=True)
class Pack:
    """One loaded pack. `families` are its model family tables (`models/*.toml`)."""

    name: str
    version: str
    path: Path
    reads: Mapping[str, str]
    tables: tuple[TableRule, ...]
    rules: tuple[SiteRule, ...]
    rewrites: tuple[Rewrite, ...]
    families: tuple[Path, ...]
    facts: Facts = NONE
    evidence: tuple[Release, ...] = ()
    shown: tuple[Shown, ...] = ()
    steps: tuple[Step, ...] = ()  # of its rules' files
    filling: tuple[SiteRule, ...] = ()  # those that say what a table can't
    called: str = ""
    release_option: str = ""  # of the command line, by which its library's release is said

    @property
    def title(self) -> str:
        """How sentences call its library."""
        return self.called or self.name

    @property
    def built_in(self) -> bool:
        return self.path.is_relative_to(rules_folder())

    @property
    def answering(self) -> tuple[SiteRule | Rewrite, ...]:
        """What answers names and calls; tables are read."""
        return (*self.rules, *self.rewrites)

    @property
    def every_rule(self) -> tuple[TableRule | SiteRule | Rewrite, ...]:
        return (*self.tables, *self.rules, *self.rewrites)


def load_packs(paths: Sequence[Path] = ()) -> tuple[Pack, ...]:
    """The built-in packs and those at `paths`. InputError when one fails to load, or two answer the same name."""
    packs = (*map(load_pack, _once(paths)), *_built_in(rules_folder()))
    named: dict[str, Pack] = {}
    seen: dict[str, tuple[str, TableRule | SiteRule | Rewrite]] = {}
    for pack in packs:
        if pack.name in named:
            both = f"is loaded twice, from {named[pack.name].path} and from {pack.path}"
            raise InputError(f"pack {pack.name} {both}", pack.path / "pack.toml", 1, fix="name one of them")
        named[pack.name] = pack
    for pack in packs:
        for rule in pack.every_rule:
            owner, other = seen.setdefault(rule.id, (pack.name, rule))
            if other is not rule:
                said = f"rule {rule.id} of pack {owner} is also in pack {pack.name}"
                raise InputError(said, other.path, other.line or None, fix="give your rule an id of its own")
    check_claims([(pack.name, rule) for pack in packs for rule in pack.every_rule])
    return packs


@cache
def _built_in(folder: Path) -> tuple[Pack, ...]:
    """The built-in packs, read once: a folder's many files are ported by the same."""
    order = list(_toml(folder / "packs.toml")["order"])
    folders = sorted(file.parent for file in folder.glob("*/pack.toml"))
    return tuple(map(load_pack, sorted(folders, key=lambda each: [*order, each.name].index(each.name))))


def by_claim(rules: Iterable[Answering]) -> dict[str, Answering]:
    """The rule that answers each name: of two, the one that stands for the other."""
    found: dict[str, Answering] = {}
    for rule in rules:
        for name in rule.claims:
            other = found.get(name)
            if other is None or other.id in rule.instead_of:
                found[name] = rule
    return found


def _once(paths: Sequence[Path]) -> list[Path]:
    """The folders, each once: a pack may be named on the command line and by the project, too."""
    return list({path.resolve(): path for path in reversed(paths)}.values())[::-1]


def entry_point_packs() -> tuple[Path, ...]:
    """The folders that installed distributions offer as `tpu_port.packs`: a path, or a module beside its pack.toml."""
    from importlib.metadata import entry_points

    found: list[Path] = []
    for point in entry_points(group="tpu_port.packs"):
        try:
            target = point.load()
        except Exception as error:
            raise InputError(
                f"entry point {point.name} ({point.value}) fails to load: {error}", fix="mend or remove it"
            ) from None
        file = getattr(target, "__file__", None)
        found.append(Path(file).parent if file else Path(target))
    return tuple(found)


def load_pack(path: Path) -> Pack:
    """The pack in a folder. InputError names the pack, the file and what is wrong with it."""
    manifest = path / "pack.toml"
    if not manifest.is_file():
        raise InputError("has no pack.toml", path, fix="`tpu-port rules new PATH` makes a pack to start from")
    data = _toml(manifest)
    name = data.get("name")
    try:
        return _pack(path, data)
    except InputError as error:
        if isinstance(name, str) and f"pack {name}" not in error.message:
            said = f"pack {name}: {error.message}"
            raise InputError(said, error.path, error.line, error.column, error.fix) from None
        raise


def _pack(path: Path, data: Mapping[str, Any]) -> Pack:
    manifest, line = path / "pack.toml", 1
    heads = re.compile(r"(?m)^[ \t]*\[\[?[ \t]*(\w+)[ \t]*\]\]?")
    text = manifest.read_text("utf-8")
    lines: dict[str, list[int]] = {}
    for head in heads.finditer(text):
        lines.setdefault(head[1], []).append(text.count("\n", 0, head.start(1)) + 1)

    def rows(kind: str) -> Iterator[tuple[Mapping[str, Any], int]]:
        nonlocal line
        for number, row in enumerate(_listed(manifest, data, kind)):
            places = lines.get(kind, ())
            line = places[number] if number < len(places) else 1
            if not isinstance(row, dict):
                raise InputError(f"has a {kind} {row!r}", manifest, line, fix=f"write [[{kind}]]")
            yield row, line
        line = 1

    try:
        name, version = str(data["name"]), str(data["version"])
        tables = tuple(_table_rule(path, row, at) for row, at in rows("table"))
        files = [_rule_file(path, row["file"], at) for row, at in rows("rule")]
        found = {file for pattern in _listed(manifest, data, "rules") for file in _rule_files(path, pattern)}
        files += sorted(found - {*files}, key=lambda file: (file.name, file))
        forget(name)
        loaded = [load_python_rule(file, name, path) for file in files]
        rewrites = tuple(_rewrite(manifest, row, at) for row, at in rows("rewrite"))
        evidence = tuple(read_release(row, manifest, at) for row, at in rows("evidence"))
        shown = tuple(read_shown(row, manifest, at) for row, at in rows("shown"))
        facts = read_facts(data.get("facts", {}), manifest, lines.get("facts", [1])[0])
    except KeyError as error:
        fix = "see docs/packs.md for what a pack.toml holds"
        raise InputError(f"lacks {error}", manifest, line, fix=fix) from None
    families = tuple(sorted((path / "models").glob("*.toml")))
    reads = dict(data.get("reads", {}))
    rules = tuple(rule for rule in loaded if not rule.part_of)
    ids = {name} | {each.id for each in tables} | {each.id for each in rules} | {each.id for each in rewrites}
    for part in loaded:
        if part.part_of and (part.id not in ids or part.claims):
            why = "answers places of its own" if part.claims else "its pack has no such rule"
            raise InputError(f"is a part of {part.id}, but {why}", part.path, 1, fix="give it an ID of its own")
    steps = tuple(step for rule in loaded for step in rule.steps)
    filling = tuple(rule for rule in loaded if rule.filled is not None)
    said = (str(data.get("title", "")), str(data.get("release_option", "")))
    return Pack(
        name, version, path, reads, tables, rules, rewrites, families, facts, evidence, shown, steps, filling, *said
    )


def _listed(manifest: Path, data: Mapping[str, Any], name: str) -> list[Any]:
    found = data.get(name, [])
    if not isinstance(found, list):
        raise InputError(f"{name} is {found!r}", manifest, 1, fix="write a list")
    return found


def _rule_file(path: Path, name: object, line: int) -> Path:
    file = _inside(path, name)
    if not file.is_file():
        raise InputError(f"names a rule file that does not exist: {name}", path / "pack.toml", line)
    return file


def _rule_files(path: Path, pattern: object) -> list[Path]:
    """The files of `rules = ["*.py"]`, and of `"*/*.py"`, those of its folders; `_shared.py` is none, and
    neither are cases and tables."""
    folder, _, name = pattern.rpartition("/") if isinstance(pattern, str) else ("", "", "")
    if not name.endswith(".py") or "\\" in name or re.fullmatch(r"\*|\w*", folder) is None:
        fix = 'write rules = ["*.py"], and "*/*.py" for those of its folders'
        raise InputError(f"has rules of {pattern!r}", path / "pack.toml", 1, fix=fix)
    folders = [path / folder] if folder != "*" else [each for each in path.iterdir() if _holds_rules(each)]
    found = [file for each in folders for file in each.glob(name) if not file.name.startswith("_")]
    return found if path.parent == rules_folder() else [_inside(path, str(file.relative_to(path))) for file in found]


def _holds_rules(folder: Path) -> bool:
    return folder.is_dir() and folder.name not in ("cases", "tables") and not folder.name.startswith(("_", "."))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return dict(read_toml(path))
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        line = int(at[1]) if at else path.read_text("utf-8").count("\n") + 1
        raise InputError(f"is no TOML: {error}", path, line, fix="mend it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", path) from None


def _table_rule(path: Path, row: Mapping[str, Any], line: int) -> TableRule:
    file = _inside(path, row["file"])
    role = row.get("role", "")
    if role not in ROLES:
        fix = f"use one of {', '.join(ROLES)}"
        raise InputError(f"table {row['file']} has role {role!r}", path / "pack.toml", line, fix=fix)
    head = _head(file)
    marks = head.get("marks", [])
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise InputError(f"marks is {marks!r}", file, 1, fix='write a list of keys, ["job.gpus"]')
    if role == "optimizer" and not isinstance(head.get("optimizer"), str):
        fix = 'write optimizer = "adamw_torch", which of those that `optim` names it computes like'
        raise InputError("says of no optimizer which it is", file, 1, fix=fix)
    title = row.get("title", head["class"])
    names = (head["class"], *head.get("also", ()))
    instead_of = _ids(row, path / "pack.toml", line)
    rule = TableRule(row["id"], title, role, names, head, tuple(row.get("positional", ())), file, instead_of, 1)
    if not file.is_relative_to(rules_folder()):
        _ = rule.table  # somebody's own table is checked whole, whether this source needs it or not
    return rule


def _ids(row: Mapping[str, Any], manifest: Path, line: int) -> tuple[str, ...]:
    """`instead_of` of a row: ids of rules. InputError for anything else."""
    found = row.get("instead_of", [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{row['id']} has instead_of {found!r}", manifest, line, fix="write a list of ids of rules")
    return tuple(found)


def _inside(path: Path, name: object) -> Path:
    """The file of a pack that its pack.toml names; a pack is hashed, copied and trusted as a folder."""
    ours = path.parent == rules_folder()
    if not isinstance(name, str) or not (ours or (path / name).resolve().is_relative_to(path.resolve())):
        raise InputError(f"names a file that is not in the pack: {name!r}", path / "pack.toml", fix="put it there")
    return path / name


def _head(file: Path) -> dict[str, Any]:
    """What a field table says in front of its rows."""
    try:
        head = {name: value for name, value in read_toml(file).items() if name != "fields"}
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"is no field table: {error}", file, fix="see docs/packs.md for the format") from None
    missing = [name for name in ("class", "library", "newest") if not isinstance(head.get(name), str)]
    if missing:
        raise InputError(
            f"is no field table: it lacks {', '.join(missing)}", file, fix="see docs/packs.md for the format"
        )
    return head


def _rewrite(manifest: Path, row: Mapping[str, Any], line: int) -> Rewrite:
    action = row["action"]
    if action not in ACTIONS:
        raise InputError(f"rewrite {row['id']} has action {action!r}", manifest, line, fix=f"use {', '.join(ACTIONS)}")
    matches = row["match"]
    return Rewrite(
        id=row["id"],
        matches=tuple(
            check_match(match, manifest, line) for match in ([matches] if isinstance(matches, str) else matches)
        ),
        action=action,
        replacement=row.get("replacement", ""),
        module=row.get("module", ""),
        imports=tuple(row.get("imports", ())),
        reason=row["reason"],
        fix=row.get("fix", ""),
        keep_in_calls=row.get("keep_in_calls", False),
        library=row.get("library", ""),
        releases=row.get("releases", ""),
        path=manifest,
        instead_of=_ids(row, manifest, line),
        line=line,
    )
