"""How long `tpu-port FILE` takes from a cold shell, as ratios: to importing its parser, and to other codemods.

    python bench/port.py [--runs 5] [--json]

The files are TRL's own, as pip installed them. Other tools (torchfix, fixit, bump-pydantic) are timed on the same files
where their commands are installed. This is a measurement, never a test: machines and their load differ.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# What a user may have to wait, in seconds, on two cores: porting a script, reading a file with nothing in it, help.
BUDGETS = {"trl/scripts/sft.py": 0.6, "trl/trainer/sft_trainer.py": 2.0, "--help": 0.2}
OTHERS = {
    "torchfix": ["torchfix", "--select=ALL", "{file}"],
    "fixit": ["fixit", "lint", "{file}"],
    "bump-pydantic": ["bump-pydantic", "--diff", "{file}"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the median counts (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()

    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        sys.exit("bench/port.py reads TRL's own files: pip install 'tpu-port[validate]'")
    site = Path(trl.origin).parent.parent
    python = [sys.executable, "-c"]
    parse = seconds([*python, "import libcst"], arguments.runs)
    rows = [measure(name, site, arguments.runs, parse) for name in BUDGETS]
    start = seconds([*python, "pass"], arguments.runs)
    document = {"python -c pass": start, 'python -c "import libcst"': parse, "runs": arguments.runs, "rows": rows}
    print(json.dumps(document, indent=2) if arguments.json else table(document))


def measure(name: str, site: Path, runs: int, parse: float) -> dict[str, Any]:
    """Seconds and ratios of one file (or `--help`)."""
    if name == "--help":
        mine = seconds([*command(), name], runs)
        return {"what": name, "seconds": mine, "budget": BUDGETS[name], "of_budget": mine / BUDGETS[name], "others": {}}
    mine = seconds([*command(), str(site / name)], runs)
    others: dict[str, float] = {}
    for tool, words in OTHERS.items():
        if found := shutil.which(words[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"):
            with tempfile.TemporaryDirectory() as folder:  # some of them write
                copy = Path(shutil.copy(site / name, folder)).name
                with contextlib.suppress(RuntimeError):  # bump-pydantic fails on the trainer's relative imports
                    others[tool] = seconds([found, *(word.format(file=copy) for word in words[1:])], runs, folder)
    return {
        "what": name,
        "lines": (site / name).read_text(encoding="utf-8").count("\n"),
        "seconds": mine,
        "budget": BUDGETS[name],
        "of_budget": mine / BUDGETS[name],
        "of_import_libcst": mine / parse,
        "others": {tool: {"seconds": theirs, "ratio": mine / theirs} for tool, theirs in others.items()},
    }


def command() -> list[str]:
    """The console script, as a user runs it."""
    script = Path(sys.executable).parent / "tpu-port"
    return [str(script)] if script.exists() else [sys.executable, "-c", "from porter.cli import main; main()"]


def seconds(words: list[str], runs: int, folder: str | None = None) -> float:
    """The median wall time of `runs` runs, after one that fills the file cache. RuntimeError when that one fails."""
    times = []
    for run in range(runs + 1):
        begin = time.perf_counter()
        done = subprocess.run(words, capture_output=True, cwd=folder, text=True)
        times.append(time.perf_counter() - begin)
        if run == 0 and (done.returncode == 2 or "Traceback" in done.stderr):
            raise RuntimeError(f"{' '.join(words)} fails: {done.stderr.strip()[-300:]}")
    return statistics.median(times[1:])


def table(document: dict[str, Any]) -> str:
    """The measurement as text."""
    start, parse = document["python -c pass"], document['python -c "import libcst"']
    lines = [f"python -c pass {start:.2f} s, import libcst {parse:.2f} s (median of {document['runs']} runs)"]
    for row in document["rows"]:
        parts = [f"{row['seconds']:.2f} s", f"{row['of_budget']:.2f} of the {row['budget']} s budget"]
        if "of_import_libcst" in row:
            parts.append(f"{row['of_import_libcst']:.1f} × import libcst")
        parts += [f"{other['ratio']:.2f} × {tool} ({other['seconds']:.2f} s)" for tool, other in row["others"].items()]
        lines.append(f"tpu-port {row['what']}: {', '.join(parts)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
