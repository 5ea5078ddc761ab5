"""The packs that a file is ported by: built-in and contributed ones are loaded by the same function.

Python rules run when their pack is loaded, which for a pack that is not built in happens only when the user names it
(`--rules PATH`), trusted it (`[tool.tpu-port] rules`, see `porter/front/trust.py`) or installed it (entry point
`tpu_port.packs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...errors import InputError
from ...runtime.facts.toml_memory import read_toml
from ...tables import rules_folder
from .claims import check_claims
from .pack import Pack, Rewrite, TableRule
from .python_rule import SiteRule
from .read_pack import load_pack


def load_packs(paths: Sequence[Path] = ()) -> tuple[Pack, ...]:
    """The built-in packs and those at `paths`. InputError when one fails to load, or two answer the same name."""
    built_in = _built_in(rules_folder())
    return _checked((*map(load_pack, _once(paths)), *built_in)) if paths else built_in


def _checked(packs: tuple[Pack, ...]) -> tuple[Pack, ...]:
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
    """The built-in packs, read and checked once: a folder's many files are ported by the same."""
    order = list(read_toml(folder / "packs.toml")["order"])
    folders = sorted(file.parent for file in folder.glob("*/pack.toml"))
    return _checked(tuple(map(load_pack, sorted(folders, key=lambda each: [*order, each.name].index(each.name)))))


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
