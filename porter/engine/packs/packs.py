"""Packs: folders of rules. Built-in and contributed ones are loaded by the same function.

A pack is `pack.toml` plus the tables and rule modules that it names. TOML is data; a Python rule module runs
when its pack is loaded, which for a pack that is not built in happens only when the user names it (`--rules PATH`),
trusted it (`[tool.tpu-port] rules`, see `porter/front/trust.py`) or installed it (entry point `tpu_port.packs`).
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import InputError
from ...runtime.facts.field_tables import FieldTable, load_table
from ...tables import rules_folder
from .claims import check_claims, check_match

if TYPE_CHECKING:
    from ..script.porting import Porting
    from ..script.sites import Site

ROLES = (
    "arguments", "lora", "quantization", "model", "prepare", "inject", "trainer", "collator", "launch",
    "optimizer", "schedule", "loader",
)  # fmt: skip
BUILT_IN = ("trl", "peft", "bitsandbytes", "transformers", "unsloth", "accelerate", "torch")


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

    @cached_property
    def table(self) -> FieldTable:
        """The rows. InputError when the file is no field table."""
        try:
            return load_table(self.path)
        except (ValueError, LookupError, OSError) as error:
            raise InputError(f"is no field table: {error}", self.path, fix="see docs/packs.md for the format") from None


@dataclass(frozen=True)
class SiteRule:
    """A Python rule: `apply(site, porting)` says what stands at a matched call afterwards.

    It may return `porting.NOT_MINE` for a call that it leaves to the rule that it stands for.
    """

    id: str
    title: str
    doc: str
    matches: tuple[str, ...]
    apply: Callable[[Site, Porting], object]
    path: Path
    positional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by match, as in a signature
    instead_of: tuple[str, ...] = ()  # ids of rules whose matches it takes over

    @property
    def built_in(self) -> bool:
        return self.path.is_relative_to(rules_folder())

    @property
    def claims(self) -> tuple[str, ...]:
        return self.matches


@dataclass(frozen=True)
class Rewrite:
    """A small idiom beside the recipe.

    `action`: `remove` (the statement goes), `replace` (the expression becomes `replacement`; with a `fix` it is
    also said as a warning), `import` (the name stays and comes from the runtime's `module`, or from `library`),
    `refuse` (a finding for a person), `never` (false on a TPU: an `if` that tests it goes, elsewhere it is `False`).
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
    path: Path
    instead_of: tuple[str, ...] = ()

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

    @property
    def answering(self) -> tuple[SiteRule | Rewrite, ...]:
        """What answers names and calls; tables are read."""
        return (*self.rules, *self.rewrites)

    @property
    def every_rule(self) -> tuple[TableRule | SiteRule | Rewrite, ...]:
        return (*self.tables, *self.rules, *self.rewrites)


def load_packs(paths: Sequence[Path] = ()) -> tuple[Pack, ...]:
    """The built-in packs and those at `paths`. InputError when one fails to load, or two answer the same name."""
    own = [load_pack(path) for path in _once(paths)]
    built_in = [load_pack(rules_folder() / name) for name in BUILT_IN if (rules_folder() / name / "pack.toml").exists()]
    packs = (*own, *built_in)
    seen: dict[str, Pack] = {}
    for pack in packs:
        for rule in pack.every_rule:
            if rule.id in seen:
                raise InputError(
                    f"rule {rule.id} of pack {seen[rule.id].name} is also in pack {pack.name}",
                    seen[rule.id].path,
                    fix="give your rule an id of its own",
                )
            seen[rule.id] = pack
    check_claims([(pack.name, rule) for pack in packs for rule in pack.every_rule])
    return packs


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
    """The pack in a folder. InputError names the file and what is wrong with it."""
    manifest = path / "pack.toml"
    if not manifest.is_file():
        raise InputError("has no pack.toml", path, fix="`tpu-port rules new PATH` makes a pack to start from")
    data = _toml(manifest)
    try:
        name, version = str(data["name"]), str(data["version"])
        tables = tuple(_table_rule(path, row) for row in data.get("table", ()))
        rules = tuple(_site_rule(path, name, row) for row in data.get("rule", ()))
        rewrites = tuple(_rewrite(manifest, row) for row in data.get("rewrite", ()))
    except KeyError as error:
        raise InputError(f"lacks {error}", manifest, fix="see docs/packs.md for what a pack.toml holds") from None
    families = tuple(sorted((path / "models").glob("*.toml")))
    return Pack(name, version, path, dict(data.get("reads", {})), tables, rules, rewrites, families)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", path, fix="mend it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", path) from None


def _table_rule(path: Path, row: Mapping[str, Any]) -> TableRule:
    file = _inside(path, row["file"])
    role = row.get("role", "")
    if role not in ROLES:
        raise InputError(
            f"table {row['file']} has role {role!r}", path / "pack.toml", fix=f"use one of {', '.join(ROLES)}"
        )
    head = _head(file)
    title = row.get("title", head["class"])
    names = (head["class"], *head.get("also", ()))
    instead_of = _ids(row, path / "pack.toml")
    rule = TableRule(row["id"], title, role, names, head, tuple(row.get("positional", ())), file, instead_of)
    if not file.is_relative_to(rules_folder()):
        _ = rule.table  # somebody's own table is checked whole, whether this source needs it or not
    return rule


def _ids(row: Mapping[str, Any], manifest: Path) -> tuple[str, ...]:
    """`instead_of` of a row: ids of rules. InputError for anything else."""
    found = row.get("instead_of", [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{row['id']} has instead_of {found!r}", manifest, fix="write a list of ids of rules")
    return tuple(found)


def _inside(path: Path, name: object) -> Path:
    """The file of a pack that its pack.toml names; a pack is hashed, copied and trusted as a folder."""
    if not isinstance(name, str) or not (path / name).resolve().is_relative_to(path.resolve()):
        raise InputError(f"names a file that is not in the pack: {name!r}", path / "pack.toml", fix="put it there")
    return path / name


def _head(file: Path) -> dict[str, Any]:
    """What a field table says in front of its rows: reading all rows of all tables would take longer than porting."""
    try:
        head = tomllib.loads(re.split(r"(?m)^\[fields\b", file.read_text("utf-8"), maxsplit=1)[0])
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"is no field table: {error}", file, fix="see docs/packs.md for the format") from None
    missing = [name for name in ("class", "library", "newest") if not isinstance(head.get(name), str)]
    if missing:
        raise InputError(
            f"is no field table: it lacks {', '.join(missing)}", file, fix="see docs/packs.md for the format"
        )
    return head


def _site_rule(path: Path, pack: str, row: Mapping[str, Any]) -> SiteRule:
    file = _inside(path, row["file"])
    if not file.is_file():
        raise InputError("names a rule file that does not exist: " + row["file"], path / "pack.toml")
    name = f"_tpu_port_rules_{pack}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError("is no Python module", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if file.is_relative_to(rules_folder()):
            spec.loader.exec_module(module)
        else:  # from its source: what lies in __pycache__ may be another program
            exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
        doc = (module.__doc__ or "").strip()
        id, matches = module.ID, tuple(check_match(match, file, calls=True) for match in module.MATCHES)
        positional = _positional(getattr(module, "POSITIONAL", ()), matches, file)
        instead_of = tuple(getattr(module, "INSTEAD_OF", ()))
        return SiteRule(id, doc.splitlines()[0], doc, matches, module.apply, file, positional, instead_of)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"fails to load: {type(error).__name__}: {error}", file, fix="mend the rule") from None


def _positional(given: object, matches: tuple[str, ...], file: Path) -> Mapping[str, tuple[str, ...]]:
    """`POSITIONAL` of a rule: the names of a call's positional arguments, of all matches or by match."""
    by_match: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(matches, given)
    for match, names in by_match.items():
        if match not in matches:
            raise InputError(f"POSITIONAL names {match!r}, which is none of its MATCHES", file, fix="mend the rule")
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise InputError(f"POSITIONAL of {match} is {names!r}", file, fix='write names, ("output_dir",)')
    return by_match


def _rewrite(manifest: Path, row: Mapping[str, Any]) -> Rewrite:
    action = row["action"]
    if action not in ("remove", "replace", "import", "refuse", "never"):
        raise InputError(
            f"rewrite {row['id']} has action {action!r}", manifest, fix="remove, replace, import, refuse or never"
        )
    matches = row["match"]
    return Rewrite(
        id=row["id"],
        matches=tuple(check_match(match, manifest) for match in ([matches] if isinstance(matches, str) else matches)),
        action=action,
        replacement=row.get("replacement", ""),
        module=row.get("module", ""),
        imports=tuple(row.get("imports", ())),
        reason=row["reason"],
        fix=row.get("fix", ""),
        keep_in_calls=row.get("keep_in_calls", False),
        library=row.get("library", ""),
        path=manifest,
        instead_of=_ids(row, manifest),
    )
