"""The proving ground: ports every script of a folder of repositories and validates it, and counts what came out.

    python bench/truth.py DIR [--csv LIST] [--jobs N] [--results FILE] [--only TEXT] [--html FILE] [--again]

DIR holds repositories as `<owner>+<name>/` (or `<owner>/<name>/`) when a CSV with the columns repo and path names the
scripts (`safe` says yes or no where somebody has read them); without one, every script and notebook below DIR that
configures a training is taken. A row is written as soon as it is there: a run that was cut off goes on where it ended.

Scripts are other people's: they run under validate's limits alone, in a copy. One that starts other programs, deletes
trees or opens sockets is skipped and counted until the CSV says `safe` of it. This is a measurement, never a test.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from listed import listed

from porter.source.notebooks.program import program_text
from porter.validate.stand_ins.command_line.command_lines import project_of

STEPS = 4
LONGEST = 600.0  # seconds for one script
DANGEROUS = re.compile(
    r"\b(subprocess|os\.system|os\.popen|pty\.spawn|shutil\.rmtree|os\.removedirs|socket\.socket|ThreadingHTTPServer|"
    r"uvicorn\.run|\.launch\(\s*share|os\.exec\w+)\b"
)
TRAINS = re.compile(r"Trainer\(|\.backward\(")
# A TODO at one of these is one at the training: what can't be the same until a person has decided.
AT_THE_TRAINING = re.compile(r"# TODO\(tpu-port")
KINDS = ("*.py", "*.ipynb")
VERDICTS = ("equal", "differs", "none")


@dataclass(frozen=True)
class Script:
    """One script of the list; `safe` is what its reader said, empty where nobody has."""

    name: str
    path: str
    safe: str = ""


@dataclass(frozen=True)
class Result:
    """What became of a script: `status` as tpu-port says it; `verdict` is `equal`, `differs`, `none` or empty."""

    name: str
    status: str
    todos: int = 0
    verdict: str = ""
    started: bool = False
    said: str = ""
    cause: str = ""
    help: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether a verdict is wanted: the port is one, and nothing in it waits for a person."""
        return self.status == "ported" or (self.status == "partial" and not self.todos)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--csv", type=Path, help="names the scripts: repo, path, and safe where somebody has read them")
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--results", type=Path, default=Path("truth.jsonl"), help="a row a script; goes on from there")
    parser.add_argument("--again", action="store_true", help="try scripts that have a row once more")
    parser.add_argument("--only", default="", metavar="TEXT", help="scripts whose name contains TEXT")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="stop after N scripts")
    parser.add_argument("--html", type=Path, help="write a page of it")
    parser.add_argument("--port-only", action="store_true", help="port and count, validate nothing")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()  # each script runs in its own project's
    scripts = list(named(folder, arguments.csv) if arguments.csv else every(folder))
    scripts = [script for script in scripts if arguments.only in script.name]
    if not scripts:
        sys.exit(f"bench/truth.py: no scripts below {arguments.folder}")
    known = {} if arguments.again else read_results(arguments.results)
    waiting = [script for script in scripts if script.name not in known]
    waiting = waiting[: arguments.most] if arguments.most else waiting
    with arguments.results.open("a", encoding="utf-8") as rows, ThreadPoolExecutor(arguments.jobs) as pool:
        for done in as_completed([pool.submit(judge, script, arguments.port_only) for script in waiting]):
            result = done.result()
            rows.write(json.dumps(asdict(result)) + "\n")
            rows.flush()
            known[result.name] = result
            print(line_of(result), file=sys.stderr)
    results = [known[script.name] for script in scripts if script.name in known]
    print("\n".join(table(results)))
    if arguments.html:
        arguments.html.write_text(page(results), encoding="utf-8")


def named(folder: Path, file: Path) -> Iterator[Script]:
    for path, name, row in listed(folder, file):
        yield Script(name, str(path), row.get("safe") or "")


def every(folder: Path) -> Iterator[Script]:
    for path in sorted(path for kind in KINDS for path in folder.rglob(kind)):
        if path.is_file() and TRAINS.search(program_text(path)):
            yield Script(str(path.relative_to(folder)), str(path))


def read_results(file: Path) -> dict[str, Result]:
    """The rows of earlier runs; the last of a script counts, a row that was cut off doesn't."""
    found: dict[str, Result] = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        try:
            data = json.loads(line)
        except ValueError:
            continue
        found[data["name"]] = Result(**{**data, "notes": tuple(data["notes"])})
    return found


def judge(script: Script, port_only: bool = False) -> Result:
    """Port one script and validate the port; whatever happens becomes a result."""
    begin = time.monotonic()
    text = program_text(Path(script.path))
    if script.safe == "no" or (not script.safe and DANGEROUS.search(text)):
        return Result(
            script.name, "skipped", said="starts programs, deletes trees or opens sockets: nobody has read it"
        )
    with tempfile.TemporaryDirectory(prefix="truth-") as work:
        port = Path(work) / f"{Path(script.path).stem}_tunix{Path(script.path).suffix}"
        done = tpu_port([script.path, "-o", str(port), "--json"], Path(script.path).parent)
        status = json_of(done).get("status", "error" if done.returncode == 2 else "crash")
        if not port.is_file() or status not in ("ported", "partial"):
            return Result(script.name, status, said=last_line(done), seconds=time.monotonic() - begin)
        todos = len(AT_THE_TRAINING.findall(port.read_text("utf-8", "replace")))
        result = Result(script.name, status, todos, seconds=time.monotonic() - begin)
        if port_only or not result.counts:
            return result
        words = ["validate", script.path, str(port), "--quick", "--steps", str(STEPS), "--json", "--timeout", "240"]
        done = tpu_port(words, folder_of(Path(script.path), text))
        return of_verdict(result, json_of(done), last_line(done), time.monotonic() - begin)


def folder_of(script: Path, text: str) -> Path:
    """Where its author started it: the project's folder, or the script's where more of the paths in it exist."""
    named = set(re.findall(r"""["']([\w./-]+\.\w{2,5})["']""", text))
    folders = [project_of(script), script.parent]
    return max(folders, key=lambda folder: sum((folder / name).is_file() for name in named))


def of_verdict(result: Result, document: dict[str, Any], said: str, seconds: float) -> Result:
    verdict = document.get("verdict") or "none"
    checks = document.get("checks") or []
    first = next((check for check in checks if check["status"] == "differs"), None)
    found = asdict(result) | {"verdict": verdict, "seconds": seconds, "notes": tuple(document.get("notes") or ())}
    if verdict == "none":
        found |= {"said": document.get("reason") or said, "help": document.get("help") or ""}
    elif first is not None:
        found |= {"said": f"{first['name']}: {first['detail']}", "cause": first.get("cause") or ""}
    found["started"] = bool(document.get("port_losses"))
    return Result(**found)


def tpu_port(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", "from porter.cli import main; main()", *words]
    environment = {**os.environ, "PYTHONPATH": root}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=LONGEST
        )
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, "", f"took over {late.timeout:g} s")


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    try:
        data = json.loads(done.stdout)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def line_of(result: Result) -> str:
    said = f"  {result.said[:150]}" if result.said else ""
    return f"{result.status:<11} {result.verdict or '-':<8} {result.seconds:5.0f} s  {result.name}{said}"


def table(results: list[Result]) -> Iterator[str]:
    """The lines of the report."""
    tried = [result for result in results if result.status != "skipped"]
    wanted = [result for result in tried if result.counts]
    judged = [result for result in wanted if result.verdict in ("equal", "differs")]
    seconds = sorted(result.seconds for result in judged)
    yield f"scripts       {len(results)}, {len(results) - len(tried)} of them skipped"
    yield f"tried         {len(tried)}"
    for status, count in Counter(result.status for result in tried).most_common():
        yield f"  {status:<12}{count}"
    notebooks = sum(result.name.endswith(".ipynb") for result in wanted)
    yield f"ported without a TODO {len(wanted)}" + (f", {notebooks} of them notebooks" if notebooks else "")
    yield f"started       {sum(result.started for result in wanted)} of {len(wanted)}"
    yield f"verdicts      {share(len(judged), len(wanted))}"
    yield f"equal         {share(sum(result.verdict == 'equal' for result in judged), len(judged))}"
    if seconds:
        yield f"seconds       median {seconds[len(seconds) // 2]:.0f}, longest {seconds[-1]:.0f}"
    for title, verdict in (("no verdict", "none"), ("not equal", "differs")):
        yield ""
        yield title
        yield from (f"  {r.name}: {first_line(r.said)}" for r in wanted if r.verdict == verdict)


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({part / whole:.0%})" if whole else "")


def first_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing said"])[0][:220]


def page(results: list[Result]) -> str:
    """A page of the report: the counts, then a row a script."""
    head = "".join(f"<p>{html.escape(line)}</p>" for line in table(results) if line and not line.startswith("  "))
    cells = (
        f"<tr><td>{html.escape(r.name)}</td><td>{r.status}</td><td>{r.verdict}</td><td>{r.seconds:.0f}</td>"
        f"<td>{html.escape(first_line(r.said) if r.said else '')}</td><td>{html.escape(r.cause or r.help)}</td></tr>"
        for r in results
    )
    style = "body{font-family:sans-serif} td{padding:2px 8px;border-bottom:1px solid #ddd;vertical-align:top}"
    columns = "".join(f"<th>{name}</th>" for name in ("script", "status", "verdict", "s", "what was said", "cause"))
    return (
        f'<!doctype html><meta charset="utf-8"><title>proving ground</title><style>{style}</style>'
        f"<h1>Proving ground</h1>{head}<table><tr>{columns}</tr>{''.join(cells)}</table>"
    )


if __name__ == "__main__":
    main()
