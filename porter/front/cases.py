"""Cases: the proof that a pack does what it says, before and after, and where it must keep its hands off.

A pack's `cases/` folder holds, for each case, a folder with `before.py` and the `after.py` that it becomes, and
`same_<name>.py` files in which no edit may be made; a `<name>.toml` is a case of a few lines (`fragments.py`).
A case's `options.toml` may say how it is ported and what
comes with it:

    processes = 2                       # as on the command line: processes, mesh, source_trl, vendor
    launch_config = "fsdp.yaml"         # a file of the case's folder
    status = "partial"                  # default: ported
    findings = ["TP190"]                # rules with a warning or an error, by their lines; default: none
"""

from __future__ import annotations

import contextlib
import difflib
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engine.packs.read_pack import load_pack
from ..errors import InputError
from ..port import Options, Port
from ..tables import packs as built_in_packs
from .fragments import KEYS, again, differences, port_fragment, read_fragments
from .port_file import port_file

OPTIONS = ("processes", "mesh", "source_trl", "launch_config", "vendor", "select", "ignore")
EXPECTED = ("status", "findings")


@dataclass(frozen=True)
class CaseResult:
    """How one case went; `detail` says what differs when it failed."""

    name: str
    passed: bool
    detail: str = ""


def run_cases(path: Path) -> list[CaseResult]:
    """Run every case of the pack in folder `path`, by name. InputError when the pack does not load."""
    load_pack(path)
    return [_run(case, _rules(path)) for case in cases_of(path)]


def update_cases(path: Path) -> list[Path]:
    """Write every case's `after.py` as tpu-port ports it now, and return those that changed: review them."""
    changed: list[Path] = []
    for case in cases_of(path):
        if case.is_dir():
            with apart(case) as copied:
                data = port_file(copied / "before.py", _options(copied, _rules(path))[0]).data
            after = case / "after.py"
            if not after.is_file() or after.read_bytes() != data:
                after.write_bytes(data)
                changed.append(after)
    return changed


def cases_of(path: Path) -> list[Path]:
    """The cases of a pack: folders with a `before.py`, files that must stay the same, and those of a few lines."""
    folder = path / "cases"
    found = [
        *(file.parent for file in folder.glob("*/before.py")),
        *folder.glob("same_*.py"),
        *folder.glob("*.toml"),
    ]
    return sorted(found, key=lambda case: case.name)


def _rules(path: Path) -> tuple[Path, ...]:
    """The packs to load for a pack's cases: itself, unless it is built in."""
    built_in = {folder.resolve() for folder in built_in_packs()}
    return () if path.resolve() in built_in else (path,)


def _run(case: Path, rules: tuple[Path, ...]) -> CaseResult:
    """A case is ported in a folder of its own: what lies around the pack, and when it was committed, tells nothing."""
    kinds = {".py": _same, ".toml": _fragment}
    try:
        with apart(case) as copied:
            problems = list(kinds.get(case.suffix, _changed)(copied, rules))
    except InputError as error:
        problems = [str(error)]
    return CaseResult(case.name, not problems, "\n".join(problems))


@contextlib.contextmanager
def apart(case: Path) -> Iterator[Path]:
    """A copy of a case, a folder or a file, where nothing else lies around; of a file those beside it come along."""
    with tempfile.TemporaryDirectory() as folder:
        if case.is_dir():
            yield Path(shutil.copytree(case, Path(folder, case.name)))
        elif case.suffix == ".toml":  # its script is made elsewhere, of what may lie beside it
            yield case
        else:
            yield Path(shutil.copy(case, folder))


def _same(case: Path, rules: tuple[Path, ...]) -> Iterator[str]:
    port = port_file(case, Options(rules=rules))
    for edit in port.edits:
        yield f"line {edit.line}: {edit.rule} edits a file that must not change: {edit.new!r}"
    if port.data != case.read_bytes():
        yield "the bytes differ"


def _changed(case: Path, rules: tuple[Path, ...]) -> Iterator[str]:
    options, expected = _options(case, rules)
    port = port_file(case / "before.py", options)
    want = case / "after.py"
    if not want.is_file():
        yield f"{want} does not exist; the port is:\n{port.after}"
        return
    if port.data != want.read_bytes():
        yield _difference(
            want.read_bytes().decode(port.encoding, "replace"), port.data.decode(port.encoding, "replace")
        )
    if port.status != expected.get("status", "ported"):
        yield f"status is {port.status}, not {expected.get('status', 'ported')}"
    yield from _findings(port, expected.get("findings", []))
    again = port_file(want, Options(rules=rules))
    if again.edits:
        yield f"porting the port changes it, first at line {again.edits[0].line} by {again.edits[0].rule}"


def _fragment(case: Path, rules: tuple[Path, ...]) -> Iterator[str]:
    for data in read_fragments(case):
        options = _given(case, rules, data, (*EXPECTED, *KEYS))
        port, base = port_fragment(data, options)
        yield from differences(data, port, base)
        if port.status != data.get("status", "ported"):
            yield f"status is {port.status}, not {data.get('status', 'ported')}"
        yield from _findings(port, data.get("findings", []))
        if changed := again(port, Options(rules=rules)):
            yield changed


def _findings(port: Port, expected: list[str]) -> Iterator[str]:
    serious = [finding for finding in port.findings if finding.severity != "info"]
    if [finding.rule for finding in serious] != expected:
        said = "; ".join(f"{finding.rule} at line {finding.line}: {finding.message}" for finding in serious)
        yield f"findings are {said or 'none'}, not {', '.join(expected) or 'none'}"


def _options(case: Path, rules: tuple[Path, ...]) -> tuple[Options, dict[str, Any]]:
    file = case / "options.toml"
    if not file.is_file():
        return Options(rules=rules), {}
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", file, fix="mend it") from None
    return _given(file, rules, data, EXPECTED), data


def _given(file: Path, rules: tuple[Path, ...], data: Mapping[str, Any], beside: tuple[str, ...]) -> Options:
    """The options among what a case's file says."""
    unknown = sorted(data.keys() - {*OPTIONS, *beside})
    if unknown:
        raise InputError(f"has unknown keys {', '.join(unknown)}", file, fix=f"use {', '.join((*OPTIONS, *beside))}")
    given = {name: data[name] for name in OPTIONS if name in data}
    if "launch_config" in given:
        given["launch_config"] = file.parent / given["launch_config"]
    for name in ("select", "ignore"):
        if name in given:
            given[name] = tuple(given[name])
    return Options(rules=rules, **given)


def _difference(want: str, got: str) -> str:
    """A diff from what is expected to what came; line ends that differ are shown."""
    visible = want.replace("\r", "") == got.replace("\r", "")
    a, b = ([repr(line) for line in text.split("\n")] if visible else text.splitlines() for text in (want, got))
    return "\n".join(difflib.unified_diff(a, b, "expected", "ported", lineterm="", n=2))
