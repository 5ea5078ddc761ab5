"""Runs a program in a fork of an interpreter that has imported torch and transformers, as `validate` runs a script.

    done = run("import sys; print(sys.argv)", work, "source", cwd=folder)

The imports take five seconds in each process of a test's own. It is the interpreter that sources fork from.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

from porter.validate.preloading import client
from porter.validate.running.processes import environment, import_ahead

ROOT = Path(__file__).parents[2]
HERE = "tests.validate.forked"


def run(text: str, *arguments: object, cwd: Path) -> CompletedProcess[str]:
    """What `python -c text arguments` in `cwd` would give."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    imported = environment("source", dtype="float32", devices=1, online=False, tiny=True)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        words = [str(out), str(err), text, *map(str, arguments)]
        socket = import_ahead("source", Path(__file__), imported)
        process = client.begin(socket, HERE, words, variables, str(cwd)) if socket else None
        assert process is not None and process.stdout is not None
        said = process.stdout.read().decode()
        code = process.wait(300)
        assert not said, said
        return CompletedProcess(words, code, out.read_text("utf-8"), err.read_text("utf-8"))


def main() -> None:
    """In the fork: output and errors each into a file, then the program."""
    out, err, text, *arguments = sys.argv[1:]
    for name, stream in ((out, 1), (err, 2)):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
    sys.argv = ["-c", *arguments]
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
