"""A pack's folder, read and checked: its pack.toml, the tables and the Python rules that it names.

TOML is data; a Python rule runs when its pack is loaded.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...runtime.facts.toml_memory import read_toml
from ...tables import rules_folder
from .claims import check_match
from .facts import read_facts, read_release, read_shown
from .pack import Pack, Rewrite, TableRule
from .python_rule import load_python_rule
from .rule_modules import forget

ROLES = (
    "arguments", "lora", "quantization", "model", "prepare", "inject", "trainer", "collator", "launch",
    "optimizer", "schedule", "loader",
)  # fmt: skip
ACTIONS = ("remove", "replace", "import", "refuse", "never", "always")


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
    called, release_option = str(data.get("title", "")), str(data.get("release_option", ""))
    return Pack(
        name, version, path, reads, tables, rules, rewrites, families, facts, evidence, shown, steps, filling,
        called, release_option,
    )  # fmt: skip


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
