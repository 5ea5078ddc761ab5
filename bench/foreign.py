"""Files of other projects come out as they went in: `python bench/foreign.py [--count 300] [--seed N] [FOLDER]`.

By lot from FOLDER (this environment's site-packages), and half of them files that name a library of the rules, which
take longer than a look at their imports. Exits with 1 when one changes, can't be read though Python compiles it, or
takes more than `--longest` seconds of processor time.
"""

from __future__ import annotations

import argparse
import gc
import random
import re
import sys
import sysconfig
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from porter.cli import RARELY
from porter.engine.pipeline import port_module
from porter.errors import InputError
from porter.port import Options, Port
from porter.safety.limits import within_budget
from porter.source.parsing import parse_module

OURS = re.compile(rb"\b(?:import|from)[ \t]+(?:trl|peft|transformers|torch|accelerate|datasets|unsloth|bitsandbytes)\b")


@dataclass(frozen=True)
class Tried:
    """One file: what became of it, and the seconds of processor time that it took."""

    path: Path
    said: str  # "", or what is wrong with it
    seconds: float


def drawn(folder: Path, count: int, seed: int) -> list[Path]:
    """`count` Python files below a folder, half of them with an import that the rules look for."""
    files = sorted(path for path in folder.rglob("*.py") if path.is_file() and path.stat().st_size)
    lot = random.Random(seed)
    lot.shuffle(files)
    near = [path for path in files if OURS.search(path.read_bytes())][: count // 2]
    return [*near, *[path for path in files if path not in set(near)][: count - len(near)]]


def tried(path: Path) -> Tried:
    data = path.read_bytes()
    started = time.process_time()
    said = ""
    try:
        found: Port = within_budget(lambda: port_module(parse_module(data, str(path), lazily=True), Options()), path)
        if found.data != data or found.edits:
            said = f"changes ({found.status})"
        elif any(finding.rule == "TP199" for finding in found.findings):
            said = found.findings[0].message
    except InputError as error:
        said = f"can't be read: {error}" if _compiles(data) else ""
    return Tried(path, said, time.process_time() - started)


def _compiles(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "x.py", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--longest", type=float, default=1.0)
    given = parser.parse_args()
    gc.set_threshold(*RARELY)  # as the command does
    port_module(parse_module(b"import trl\n", "first.py"), Options())  # the rules are read
    results = [tried(path) for path in drawn(given.folder, given.count, given.seed)]
    bad = [result for result in results if result.said or result.seconds > given.longest]
    for result in bad:
        print(f"{result.path}: {result.said or 'takes long'}, {result.seconds:.2f} s")
    seconds = sorted(result.seconds for result in results)
    print(
        f"{len(results)} files, {sum(not result.said for result in results)} unchanged; "
        f"{seconds[len(seconds) // 2]:.3f} s in the middle, {seconds[-1]:.2f} s at most"
    )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
