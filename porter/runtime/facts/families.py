"""The families that there are: their tables read, and found by an architecture, a model_type or a Hub id."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .family import Family, UnknownFamily
from .field_tables import version_key
from .toml_memory import read_toml


def tables_folder() -> Path:
    """The family tables: in a vendored runtime, in the wheel, or in the repository."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "families", here.parent / "rules" / "models", here.parent.parent / "rules" / "models"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"no model family tables beside {here}: reinstall tpu-port, or port with --vendor again")


def read_family(path: str | Path) -> Family:
    """A family table from a TOML file. Raises ValueError naming the file and the key that is wrong."""
    path = Path(path)
    try:
        table = read_toml(path)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: no TOML: {error}") from error
    return family_from(table, path)


def family_from(table: dict[str, Any], path: str | Path) -> Family:
    """A family from the contents of its table; `path` names the table in errors."""
    needed = "name architectures module model_class hf_layer tunix_layer defaults linear fields"
    missing = [key for key in needed.split() if key not in table]
    if missing:
        raise ValueError(f"{path}: a model family table needs {', '.join(missing)}")
    table.setdefault("peft_default", {})
    return Family(
        name=table["name"],
        architectures=tuple(table["architectures"]),
        model_types=tuple(table.get("model_types", [])),
        module=table["module"],
        model_class=table["model_class"],
        compute_dtype=table.get("compute_dtype", False),
        packing=table.get("packing", True),
        table=table,
    )


@functools.cache
def _built_in() -> tuple[Family, ...]:
    tables = [path for path in sorted(tables_folder().glob("*.toml")) if path.name != "pack.toml"]
    return tuple(read_family(path) for path in tables)


def families(extra: Iterable[str | Path | Family] = ()) -> tuple[Family, ...]:
    """All family tables, those of `extra` (paths or families) first."""
    return tuple(f if isinstance(f, Family) else read_family(f) for f in extra) + _built_in()


def find_family(
    architecture: str | None = None,
    model_type: str | None = None,
    hub_id: str | None = None,
    extra: Iterable[str | Path | Family] = (),
) -> Family | None:
    """The family of an architecture ("Qwen3ForCausalLM"), a model_type or a Hub id, in this order; None if none.

    A Hub id is matched by name, so it is a guess for the porter; loading decides by the architecture. A family's
    patterns that name more of the id win over a shorter one's.
    """
    known = families(extra)
    for family in known:
        if architecture is not None and architecture.lower() in (each.lower() for each in family.architectures):
            return family  # however it is spelt: Llama's first conversions say LLaMAForCausalLM
    for family in known:
        if architecture is None and model_type is not None and model_type in family.model_types:
            return family
    if hub_id is None:
        return None
    name = hub_id.lower().replace("___", ".")  # ModelScope's folders: Qwen2___5-0___5B
    fits = [
        (len(pattern), family)
        for family in known
        for pattern in family.table.get("hub", [])
        if fnmatch(name, pattern.lower()) and not any(fnmatch(name, p.lower()) for p in family.table.get("hub_not", []))
    ]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def family_of(config: Mapping[str, Any], where: str, extra: Iterable[str | Path | Family] = ()) -> Family:
    """The family of a config.json's contents. `where` names the model in the error.

    Raises UnknownFamily: no table for the architecture, or a setting that Tunix does not compute.
    """
    architectures = config.get("architectures") or []
    architecture = architectures[0] if architectures else None
    family = find_family(architecture, config.get("model_type"), extra=extra)
    if family is None:
        known = ", ".join(a for f in families(extra) for a in f.architectures)
        name = architecture or f"model_type {config.get('model_type')!r}"
        raise UnknownFamily(f"{where}: {name} is no model family that tpu-port knows. It knows {known}.")
    problems = family.problems(config)
    if problems:
        raise UnknownFamily(f"{where}: Tunix's {family.model_class} cannot compute this model: {'; '.join(problems)}.")
    return family


def refusal(family: Family, hub_id: str) -> str | None:
    """Why a Hub id of this family cannot be trained with Tunix; None if nothing is known against it."""
    for pattern, reason in family.table.get("refused", {}).items():
        if fnmatch(hub_id.lower(), pattern):
            return str(reason)
    return None


def first_release_of(family: Family, identifier: str = "") -> str:
    """The first release of transformers that loads a model of the family: `4.51.0`; "" where all that are known do."""
    own = [
        str(release)
        for pattern, release in family.table.get("since_of", {}).items()
        if fnmatch(identifier.lower(), pattern)
    ]
    return max([*own, str(family.table.get("since", ""))], key=lambda release: version_key(release or "0"))
