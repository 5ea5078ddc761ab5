"""What tpu-port makes of a folder of real scripts: crashes, keywords with a fate, status by class, reasons of refusal.

    python bench/corpus.py DIR [--csv scripts.csv] [--jobs N] [--only TEXT] [--files] [--json]

DIR holds the scripts as `<owner>+<name>/<path>` (or `<owner>/<name>/<path>`) when a CSV with the columns repo, path,
class and model_on_tunix_* names them; without one, every .py and .ipynb below DIR is read. Scripts are ported in
memory, one process per core; nothing is run and nothing is written. This is a measurement, never a test.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from listed import listed

LONGEST = 60  # seconds for one script; more counts as a crash
# Calls whose keywords must have a fate: a configuration or a trainer of one of these libraries.
CONFIGURES = re.compile(r"^(trl|peft|transformers|unsloth)\.\w*(Config|Arguments|Trainer)$")
STATUSES = ("ported", "partial", "unsupported", "unchanged", "error", "crash")


@dataclass(frozen=True)
class Script:
    """One script: where it lies, its class (E, M, H, N; `-` when no CSV says it) and whether Tunix has its model."""

    path: str
    name: str
    label: str = "-"
    family: str = "-"


@dataclass
class Result:
    """What porting one script gave."""

    script: Script
    status: str
    seconds: float
    parses: bool = True
    keywords: int = 0
    with_fate: int = 0
    without_fate: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    said: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--csv", type=Path, help="names the scripts, their class and whether Tunix has their model")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", metavar="TEXT", help="scripts whose name contains TEXT")
    parser.add_argument("--json", action="store_true", help="print every script's result as JSON")
    parser.add_argument("--files", action="store_true", help="print a line for every script as well")
    arguments = parser.parse_args()
    found = named(arguments.folder, arguments.csv) if arguments.csv else every(arguments.folder)
    scripts = [script for script in found if arguments.only in script.name]
    if not scripts:
        sys.exit(f"bench/corpus.py: no scripts below {arguments.folder}")
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(port, scripts))
    seconds = time.perf_counter() - begin
    if arguments.json:
        document = {"seconds": seconds, "jobs": arguments.jobs, "scripts": [asdict(result) for result in results]}
        print(json.dumps(document, indent=2))
        return
    if arguments.files:
        for result in results:
            print(f"{result.script.label} {result.status:<11} {result.seconds:5.1f} s  {result.script.name}")
            for reason in [result.said, *result.reasons] if arguments.only else []:
                print(f"      {reason}" if reason else "", end="\n" if reason else "")
        print()
    print("\n".join(table(results, seconds, arguments.jobs)))


def named(folder: Path, file: Path) -> Iterator[Script]:
    for path, name, row in listed(folder, file):
        family = next((value for key, value in row.items() if key and key.startswith("model_on_tunix")), "-")
        yield Script(str(path), name, row.get("class") or "-", on_tunix(family))


def on_tunix(said: str) -> str:
    """`yes(exact config)` → yes, `param(default gpt2)` → param, `no` → no."""
    return said.partition("(")[0] or "-"


def every(folder: Path) -> Iterator[Script]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".ipynb") and path.is_file():
            yield Script(str(path), str(path.relative_to(folder)))


def port(script: Script) -> Result:
    """Port one script; whatever happens becomes a result."""
    from porter.errors import InputError
    from porter.front.port_file import port_file

    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    begin = time.perf_counter()
    try:
        ported = port_file(Path(script.path))
    except InputError as error:
        return Result(script, "error", time.perf_counter() - begin, said=str(error).removeprefix(f"{error.place}: "))
    except Exception as error:
        said = f"{type(error).__name__}: {error} ({_place(error)})"
        return Result(script, "crash", time.perf_counter() - begin, said=said)
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - begin
    reasons = [f"{finding.rule} {finding.message}" for finding in ported.findings if finding.severity == "error"]
    result = Result(script, ported.status, seconds, reasons=reasons)
    try:
        result.parses = parses(ported)
        seen = list(keywords(script.path))
        fated = {(row.line, row.source.rpartition(".")[2]) for row in ported.fields}
        result.without_fate = [name for name, line, keyword in seen if (line, keyword) not in fated]
        result.keywords, result.with_fate = len(seen), len(seen) - len(result.without_fate)
    except Exception as error:
        result.said = f"while it was judged: {type(error).__name__}: {error} ({_place(error)})"
    return result


def parses(ported: Any) -> bool:
    """Whether the port can be read again; of a notebook, its cells with their magics."""
    import libcst

    from porter.source.parsing import parse_text

    try:
        parse_text(ported.after)
    except libcst.ParserSyntaxError:
        return False
    return compiles(ported.after) or not compiles(ported.before)


def compiles(text: str) -> bool:
    """Whether this Python reads it, which older ones do less of than libcst."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def keywords(path: str) -> Iterator[tuple[str, int, str]]:
    """Every keyword of every configuration and trainer call of a script: `SFTConfig.bf16`, its line, `bf16`."""
    from porter.source.parsing import read_module

    module = read_module(Path(path))
    for call in module.calls:
        name = module.qualified(call.func)
        if name is None or CONFIGURES.match(name) is None:
            continue
        for argument in call.args:
            if argument.keyword is not None:
                keyword = argument.keyword.value
                yield f"{name}.{keyword}", module.location(argument.value)[0], keyword


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"took over {LONGEST} s")


def _place(error: Exception) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last else "?"


def table(results: list[Result], seconds: float, jobs: int) -> Iterator[str]:
    """The lines of the report."""
    read = [result for result in results if result.status not in ("error", "crash")]
    tried = [result for result in read if result.status in ("ported", "partial")]
    slowest = max(results, key=lambda result: result.seconds)
    yield f"{len(results)} scripts in {seconds:.1f} s on {jobs} processes; slowest {slowest.seconds:.1f} s"
    yield f"  ({slowest.script.name})"
    yield f"crashes                   {_of(results, 'crash')}"
    yield f"refused as input (error)  {_of(results, 'error')}"
    yield f"outputs that parse again  {sum(result.parses for result in read)} of {len(read)}"
    yield f"keywords with a fate      {_fates(tried)} where ported or partial; {_fates(read)} of all that were read"
    for title, key in (("class", "label"), ("model on Tunix", "family")):
        yield ""
        yield f"{title:<16}" + "".join(f"{status:>13}" for status in (*STATUSES, "ported+partial"))
        for value in sorted({getattr(result.script, key) for result in results}):
            yield _status_row(value, [result for result in results if getattr(result.script, key) == value])
    wanted = [r for r in results if r.script.label in ("E", "M") and r.script.family in ("yes", "param")]
    if wanted:
        yield _status_row("E+M, yes|param", wanted)
    for title, lines in (
        ("crashes and errors", (result.said for result in results if result.said)),
        ("reasons of unsupported", _reasons(result for result in results if result.status == "unsupported")),
        ("error findings of partial", _reasons(result for result in results if result.status == "partial")),
        ("keywords without a fate, by class, ported or partial", (_class_of(n) for r in tried for n in r.without_fate)),
    ):
        counts = Counter(general(line) for line in lines)
        if counts:
            yield ""
            yield f"{title} (scripts: {sum(counts.values())})" if title.startswith("crash") else title
            yield from (f"{count:5}  {line}" for line, count in counts.most_common())


def _of(results: list[Result], status: str) -> str:
    return f"{sum(result.status == status for result in results)} of {len(results)}"


def _fates(results: list[Result]) -> str:
    return f"{sum(r.with_fate for r in results)} of {sum(r.keywords for r in results)}"


def _status_row(name: str, results: list[Result]) -> str:
    counts = Counter(result.status for result in results)
    share = (counts["ported"] + counts["partial"]) / len(results)
    return f"{name:<16}" + "".join(f"{counts[status] or '.':>13}" for status in STATUSES) + f"{share:>13.0%}"


def _reasons(results: Iterable[Result]) -> Iterator[str]:
    """Each script counts once for each of its reasons."""
    for result in results:
        yield from sorted({general(reason) for reason in result.reasons}) or ["(no reason given)"]


def _class_of(keyword: str) -> str:
    return keyword.rpartition(".")[0]


def general(reason: str) -> str:
    """The reason without what belongs to one script: values, paths, long texts."""
    text = re.sub(r"=(\"[^\"]*\"|'[^']*'|[\w.\[\]()/*+-]+)", "=…", " ".join(reason.split()))
    return text if len(text) <= 150 else f"{text[:149]}…"


if __name__ == "__main__":
    main()
