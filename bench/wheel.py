"""Tries a built wheel: `python bench/wheel.py dist/x.whl`; exits with 1 and says what is wrong with it.

It is installed into an empty environment with what porting needs and no more, ports an example from another folder,
and its own packs' cases pass.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "porter" / "constraints.txt"
OURS = re.compile(
    r"porter/[\w/]+\.(py|toml|txt|json|jinja|md)$|porter/py\.typed$|porter/constraints\.txt$|porter/rules/.*\.(py|toml|md|json|ya?ml|sh|ipynb|txt|jsonl|in|cfg)$"
    r"|porter/rules/.*/(?:\.gitkeep|LICENSE)$|tpu_port-[\w.]+\.dist-info/(METADATA|WHEEL|RECORD|entry_points\.txt|licenses/LICENSE)$"
)


def foreign(wheel: Path) -> list[str]:
    """The names in a wheel that don't belong there."""
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if not OURS.match(name) or "__pycache__" in name]


def main() -> int:
    wheel = Path(sys.argv[1]).resolve()
    if names := foreign(wheel):
        print(f"{wheel.name} holds what doesn't belong: {', '.join(names[:9])}")
        return 1
    with tempfile.TemporaryDirectory(prefix="tpu-port-wheel-") as folder:
        venv.create(Path(folder, "empty"), with_pip=True)
        python, ours = Path(folder, "empty", "bin", "python"), Path(folder, "empty", "bin", "tpu-port")
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS), str(wheel)]
        steps: list[list[str | Path]] = [
            [python, *words],
            [ours, "--version"],
            [ours, ROOT / "examples" / "sft_lora_qwen3.py", "-o", "port.py"],
        ]
        place = Path(folder)
        for step in steps:
            done = subprocess.run(step, cwd=place, capture_output=True, text=True)
            if done.returncode not in (0, 1):
                print(f"{' '.join(map(str, step))}\n{done.stdout}{done.stderr}")
                return 1
        find = "import porter.tables as t; print(t.rules_folder())"
        rules = subprocess.run([python, "-P", "-c", find], cwd=place, capture_output=True, text=True, check=True)
        for pack in sorted(path.parent for path in Path(rules.stdout.strip()).glob("*/pack.toml")):
            done = subprocess.run([ours, "rules", "test", str(pack)], cwd=place, capture_output=True, text=True)
            print(f"{pack.name}: {(done.stdout.strip().splitlines() or [done.stderr])[-1]}", flush=True)
            if done.returncode:
                print(f"{done.stdout}{done.stderr}")
                return 1
    print(f"{wheel.name}: ports a script, and the cases of its packs pass, under Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
