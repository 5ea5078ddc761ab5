"""Which release of a library a script was written for, and how that is known.

What the command line says comes first; then what the script or a file beside it pins; then the names and keywords that
the script uses, of which releases lost some: it was written for the newest that still had them all.
`rules/*/releases.toml` say what came and went; what happens to be installed says nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import libcst as cst

from ..runtime.field_tables import at_version, version_key
from ..tables import rules_folder
from .porting import Porting

FILES = (
    "requirements*.txt",
    "pyproject.toml",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "Pipfile",
    "environment*.yml",
    "environment*.yaml",
    "setup.py",
    "setup.cfg",
)
MAX_FOLDERS = 5  # from the script's up to the project's root
MAX_BYTES = 2_000_000  # of a file that is looked into
VERSION = r"v?(\d+(?:\.\d+)+|\d+)(?:\.\*)?"


@dataclass(frozen=True)
class Date:
    """A release and why: `1.16.0 (newest)`; `pinned` when the source itself says so."""

    version: str
    why: str
    pinned: bool = False

    def __str__(self) -> str:
        return f"{self.version} ({self.why})"


@dataclass(frozen=True)
class Evidence:
    """Something that a script uses: releases from `new` on and before `gone` have it."""

    text: str
    new: str | None
    gone: str | None


@cache
def _facts(library: str) -> Mapping[str, Any]:
    """The library's releases, and what they gained and lost; empty when no pack says."""
    for path in sorted(rules_folder().glob("*/releases.toml")):
        data = tomllib.loads(path.read_text("utf-8"))
        if data["library"] == library:
            return data
    return {}


def versions_in(porting: Porting) -> dict[str, str]:
    """The version of each source library and how it was found: `1.16.0 (newest table)`."""
    heads = [rule.head for pack in porting.packs for rule in pack.tables if rule.library]
    chosen = porting.options.source_trl
    days: Mapping[str, str] = next((head["contemporary"] for head in heads if "contemporary" in head), {})
    trl = Date(chosen, "--source-trl", pinned=True) if chosen else date(porting, "trl")
    transformers = date(porting, "transformers")
    if transformers is not None and (trl is None or not trl.pinned):
        trl = _of_its_day(porting, transformers, days) or trl
    found = {"trl": str(trl)} if trl is not None else {}
    if transformers is not None and transformers.pinned:
        found["transformers"] = str(transformers)
    day = at_version(days, trl.version) if trl is not None else None
    if trl is not None and day is not None:
        found.setdefault("transformers", f"{day} (of the day of TRL {trl.version})")
    for head in heads:
        found.setdefault(head["library"], f"{head['newest']} (newest table)")
    return found


def release_of(porting: Porting, library: str) -> str | None:
    """The one release that the script or a file beside it pins, of a library whose history no pack tells."""
    for _, pins in _pins(porting, library):
        exact = next((version for sign, version in pins if sign.startswith("==")), None)
        if exact is not None:
            return exact
    return None


def say_release(porting: Porting) -> None:
    """Tell how the release is known where the source doesn't name it, and what doesn't go with it where it does."""
    site = next((site for site in porting.sites if site.role == "trainer"), None)
    said = porting.versions.get("trl", "")
    if site is None or said.endswith("(newest table)"):
        return
    version, _, why = said.partition(" ")
    fix = "Say --source-trl VERSION if it was another."
    if "newest release" in why:
        message = f"Read as TRL {version}, {why[1:-1]}: its defaults, and its way to prepare rows."
        porting.find(site.rule, "info", message, fix, site.line, site.column)
    elif wrong := contradictions(porting, "trl", version):
        message = f"{why[1:-1]}: TRL {version} doesn't have {', '.join(wrong[:4])}."
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)


def _of_its_day(porting: Porting, transformers: Date, days: Mapping[str, str]) -> Date | None:
    """The newest TRL that was out with that transformers and has all that the script uses."""
    facts = _facts("trl")
    if not facts:
        return None
    used = list(_evidence(porting, facts))
    fitting = [
        release
        for release in sorted(facts["releases"], key=version_key)
        if version_key(at_version(days, release) or "0") <= version_key(transformers.version)
        and all(not row.gone or version_key(release) < version_key(row.gone) for row in used)
        and all(not row.new or version_key(release) >= version_key(row.new) for row in used)
    ]
    newest = transformers.version == max(_facts("transformers")["releases"], key=version_key)
    if not fitting or newest:
        return None
    why = f"the newest release of the day of {transformers.why}" if transformers.pinned else transformers.why
    return Date(fitting[-1], why)


def date(porting: Porting, library: str) -> Date | None:
    """The release of `library` that the script is for; None when neither it nor a file beside it tells."""
    facts = _facts(library)
    if not facts:
        return None
    releases = sorted(facts["releases"], key=version_key)
    used = list(_evidence(porting, facts))
    floor = max((row.new for row in used if row.new), key=version_key, default=None)
    dated = [row for row in used if row.gone and not (floor and version_key(row.gone) <= version_key(floor))]
    for where, pins in _pins(porting, library):
        fitting = [release for release in releases if all(_fits(release, *pin) for pin in pins)]
        said = f"{where}: {library}{','.join(f'{sign}{version}' for sign, version in pins)}"
        if not any(sign in ("==", "===", "<", "<=", "~=") for sign, _ in pins):
            continue  # a lower bound alone
        if not fitting:
            exact = next((version for sign, version in pins if sign.startswith("==")), None)
            if exact is None or version_key(exact) < version_key(releases[0]):
                continue
            return Date(exact, said, pinned=True)
        if len(fitting) > 1 and dated:
            fitting = [release for release in fitting if _before(release, dated)] or fitting
        return Date(fitting[-1], said, pinned=True)
    if not dated:
        return None
    row = min(dated, key=lambda row: version_key(row.gone or ""))
    older = [release for release in releases if _before(release, [row])]
    return Date(older[-1], f"the newest release with {row.text} ({library} {row.gone} has none)") if older else None


def contradictions(porting: Porting, library: str, version: str) -> list[str]:
    """What the script uses and that release didn't have (any more, or yet)."""
    found = []
    for row in _evidence(porting, _facts(library)):
        if row.gone and version_key(version) >= version_key(row.gone):
            found.append(f"{row.text} (gone in {row.gone})")
        elif row.new and version_key(version) < version_key(row.new):
            found.append(f"{row.text} (new in {row.new})")
    return found


def _before(release: str, rows: list[Evidence]) -> bool:
    return all(version_key(release) < version_key(row.gone or "") for row in rows)


def _fits(release: str, sign: str, version: str) -> bool:
    one, other = version_key(release), version_key(version)
    if sign in ("==", "==="):
        return one[: version.count(".") + 1] == other[: version.count(".") + 1]
    if sign == "~=":
        return one >= other and one[: version.count(".")] == other[: version.count(".")]
    return {"<": one < other, "<=": one <= other, ">=": one >= other, ">": one > other, "!=": one != other}[sign]


# What the script uses


def _evidence(porting: Porting, facts: Mapping[str, Any]) -> Iterator[Evidence]:
    """Names and keywords of the file that came or went; not in a `try`, which is there for several releases."""
    gone, new = facts["gone"], facts["new"]
    if porting.module.text and "unsloth" in porting.module.roots:
        return  # it makes every release of TRL take the keywords of all others
    seen, moved = set(), set()  # moved: to trl.experimental, when the package itself has them no more
    for name, keywords in _uses(porting):
        package, _, last = name.rpartition(".")
        short = f"{package.split('.', 1)[0]}.{last}"
        if ".experimental" in package:
            moved.add(short)
        for text in (short, *(f"{short}({keyword}=)" for keyword in keywords)):
            if short not in moved and (text in gone or text in new) and text not in seen:
                seen.add(text)
                yield Evidence(text.split(".", 1)[1], new.get(text), gone.get(text))


def _uses(porting: Porting) -> Iterator[tuple[str, list[str]]]:
    module = porting.module
    for scope in module.scopes.values():
        for bindings in scope.bindings.values():
            for binding in bindings:
                if binding.kind == "import" and "." in binding.qualified and not _in_try(porting, binding.node):
                    yield binding.qualified, []
    for site in porting.sites:
        if not _in_try(porting, site.node):
            yield site.qualified, [argument.name for argument in site.arguments]


def _in_try(porting: Porting, node: cst.CSTNode) -> bool:
    return any(isinstance(ancestor, cst.Try | cst.If) for ancestor in porting.module.ancestors(node))


# What it pins


def _pins(porting: Porting, library: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Where a version is asked for and how: in the script, then in the files beside it and above."""
    own = _in_script(porting.module.text, library)
    if own:
        yield "the script", own
    notebook = porting.module.notebook
    if notebook is not None and (installed := _installed(notebook.raw, library)):
        yield "what the notebook installed", [("==", installed)]
    for file in _files(Path(porting.module.path)):
        try:
            text = file.read_text("utf-8", errors="replace") if file.stat().st_size <= MAX_BYTES else ""
        except OSError:
            continue
        found = _in_file(text, library)
        if found:
            yield file.name, found


def _installed(raw: str, library: str) -> str | None:
    """The release that pip named in the outputs that a notebook was saved with; the last, where it named several."""
    name = rf"\b{re.escape(library)}-{VERSION}"
    said = re.findall(rf"(?:Downloading|Using cached) {name}(?:-py|\.tar)|Successfully installed [^\"]*?{name}\b", raw)
    told = re.findall(rf"Requirement already satisfied: {re.escape(library)}\b[^\"]*\({VERSION}\)", raw)
    versions = [next(filter(None, groups)) for groups in said] or told
    return versions[-1] if versions else None


def _files(script: Path) -> Iterator[Path]:
    """Beside the script, then above it up to the root of its repository; without one in the next folder only."""
    above = script.resolve().parents[:MAX_FOLDERS]
    root = next((place for place, folder in enumerate(above) if (folder / ".git").exists()), 1)
    for folder in above[: root + 1]:
        for pattern in FILES:
            yield from sorted(path for path in folder.glob(pattern) if path.is_file())


def _in_script(text: str, library: str) -> list[tuple[str, str]]:
    """`pip install trl==0.8.6` anywhere, a PEP 723 block, a git tag, `assert trl.__version__ == "0.8.6"`."""
    pins = _requirement(text, library, start=r"(?<![\w./-])")
    name = re.escape(library)
    for line in re.findall(rf"(?m)^\s*assert\b[^\n]*\b{name}\.__version__[^\n]*$", text):
        found = re.search(rf"__version__\s*(==|<=|<|>=|>)\s*[\"']{VERSION}", line) or re.search(
            rf"__version__\)?\s*(==|<=|<|>=|>)\s*(?:\w+\.)*parse\(\s*[\"']{VERSION}", line
        )
        begins = re.search(rf"__version__\.startswith\(\s*[\"']{VERSION}", line)
        pins += [(found[1], found[2])] if found else [("==", begins[1])] if begins else []
    return pins + [("==", tag) for tag in re.findall(rf"github\.com/[\w-]+/{name}(?:\.git)?@{VERSION}\b", text)]


def _in_file(text: str, library: str) -> list[tuple[str, str]]:
    name = re.escape(library)
    locked = re.search(rf"(?m)^name = \"{name}\"\s*\nversion = \"{VERSION}\"", text)
    locked = locked or re.search(rf"\"{name}\": \{{[^}}]*?\"version\": \"=={VERSION}\"", text, re.DOTALL)
    if locked:
        return [("==", locked[1])]
    caret = re.search(rf"(?m)^{name}\s*=\s*(?:\{{[^}}\n]*version\s*=\s*)?\"(\^|~)?{VERSION}\"", text)
    if caret:  # Poetry: ^0.8.6 is >=0.8.6,<0.9
        parts = [int(part) for part in caret[2].split(".")]
        first = next((place for place, part in enumerate(parts) if part), 0)
        keep = first if caret[1] == "^" else min(1, len(parts) - 1)
        if caret[1] is None:
            return [("==", caret[2])]
        return [(">=", caret[2]), ("<", ".".join(map(str, [*parts[:keep], parts[keep] + 1])))]
    tag = re.search(rf"github\.com/[\w-]+/{name}(?:\.git)?@{VERSION}\b", text)
    if tag:
        return [("==", tag[1])]
    return _requirement(text, library, start=r"(?m)^[ \t\-\"']*", conda=True)


def _requirement(text: str, library: str, *, start: str, conda: bool = False) -> list[tuple[str, str]]:
    signs = r"===?|~=|<=?|>=?|!=" + ("|=" if conda else "")
    bound = rf"(?:{signs})\s*{VERSION}".replace("(\\d+(?:", "(?:\\d+(?:")
    found = re.search(rf"{start}{re.escape(library)}(?:\[[^\]\n]*\])?\s*(\(?{bound}(?:\s*,\s*{bound})*)", text)
    if not found:
        return []
    pins = re.findall(rf"({signs})\s*{VERSION}", found[1])
    return [("==" if sign == "=" else sign, version) for sign, version in pins]
