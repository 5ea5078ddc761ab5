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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...runtime.facts.field_tables import FieldTable, load_table
from ...tables import rules_folder

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
    """A Python rule: `apply(site, porting)` says what stands at a matched call afterwards."""

    id: str
    title: str
    doc: str
    matches: tuple[str, ...]
    apply: Callable[[Site, Porting], None]
    path: Path


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

    @property
    def title(self) -> str:
        return f"{', '.join(self.matches)}: {self.reason}"

    @property
    def doc(self) -> str:
        return self.reason


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
    def every_rule(self) -> tuple[TableRule | SiteRule | Rewrite, ...]:
        return (*self.tables, *self.rules, *self.rewrites)


def load_packs(paths: Sequence[Path] = ()) -> tuple[Pack, ...]:
    """The built-in packs and those at `paths`, which come first and so win. InputError when one fails to load."""
    packs = (*map(load_pack, paths), *_built_in(rules_folder()))
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
    return packs


@cache
def _built_in(folder: Path) -> tuple[Pack, ...]:
    """The built-in packs, read once: a folder's many files are ported by the same."""
    return tuple(load_pack(folder / name) for name in BUILT_IN if (folder / name / "pack.toml").exists())


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
    rule = TableRule(row["id"], title, role, names, head, tuple(row.get("positional", ())), file)
    if not file.is_relative_to(rules_folder()):
        _ = rule.table  # somebody's own table is checked whole, whether this source needs it or not
    return rule


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
        return SiteRule(module.ID, doc.splitlines()[0], doc, tuple(module.MATCHES), module.apply, file)
    except Exception as error:
        raise InputError(f"fails to load: {type(error).__name__}: {error}", file, fix="mend the rule") from None


def _rewrite(manifest: Path, row: Mapping[str, Any]) -> Rewrite:
    action = row["action"]
    if action not in ("remove", "replace", "import", "refuse", "never"):
        raise InputError(
            f"rewrite {row['id']} has action {action!r}", manifest, fix="remove, replace, import, refuse or never"
        )
    matches = row["match"]
    return Rewrite(
        id=row["id"],
        matches=tuple([matches] if isinstance(matches, str) else matches),
        action=action,
        replacement=row.get("replacement", ""),
        module=row.get("module", ""),
        imports=tuple(row.get("imports", ())),
        reason=row["reason"],
        fix=row.get("fix", ""),
        keep_in_calls=row.get("keep_in_calls", False),
        library=row.get("library", ""),
        path=manifest,
    )
