"""What every pack's cases become: a port of each before, for tests that compare ports made in different ways."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from porter.front.cases import _given, _options, cases_of
from porter.front.fragments import KEYS, read_fragments, script_of
from porter.port import Options
from porter.tables import packs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def corpus() -> tuple[tuple[str, bytes, Path, Options], ...]:
    """Name, text, path and options of the cases of all built-in packs, and of the examples."""
    found: list[tuple[str, bytes, Path, Options]] = []
    for pack in packs():
        for case in cases_of(pack):
            name = f"{pack.name}/{case.name}"
            if case.is_dir():
                file = case / "before.py"
                found.append((name, file.read_bytes(), file, _options(case, ())[0]))
            elif case.suffix == ".toml":
                for index, data in enumerate(read_fragments(case)):
                    keys = ("status", "findings", *KEYS)
                    found.append((f"{name}/{index}", script_of(data).encode(), case, _given(case, (), data, keys)))
            else:
                found.append((name, case.read_bytes(), case, Options()))
    found += [(file.name, file.read_bytes(), file, Options()) for file in sorted(EXAMPLES.glob("*.py"))]
    return tuple(found)
