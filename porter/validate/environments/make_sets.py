"""Writes sets.toml: for each release of TRL the releases of its day that work with it, as the package index tells.

    python -m porter.validate.environments.make_sets > porter/validate/environments/sets.toml

uv resolves each release as if on its day (`--exclude-newer`), without torch, which environments share with ours.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from uv import find_uv_bin

# A day on which this release of TRL was the newest, and the transformers that its users had then.
DAYS = {
    "0.7.4": ("2023-11-20", ""),
    "0.7.11": ("2024-02-25", ""),
    "0.8.6": ("2024-05-05", ""),
    "0.9.6": ("2024-07-20", ""),
    "0.10.1": ("2024-09-05", ""),
    "0.11.4": ("2024-10-20", "<4.46"),
    "0.12.2": ("2024-12-10", ""),
    "0.13.0": ("2025-01-05", ""),
    "0.14.0": ("2025-02-10", ""),
    "0.15.2": ("2025-03-15", ""),
    "0.16.1": ("2025-04-20", ""),
    "0.17.0": ("2025-05-15", ""),
    "0.18.2": ("2025-06-18", ""),
    "0.19.1": ("2025-07-20", ""),
    "0.21.0": ("2025-08-25", ""),
    "0.23.1": ("2025-10-08", ""),
    "0.24.0": ("2025-11-01", ""),
    "0.26.2": ("2026-01-05", ""),
    "0.27.2": ("2026-02-05", "<5"),
    "0.29.1": ("2026-04-01", ""),
    "1.2.0": ("2026-05-01", ""),
    "1.8.0": ("2026-08-01", "<5.13"),
    "1.12.0": ("2026-09-25", "<5.13"),
}
LIBRARIES = ("trl", "transformers", "peft", "accelerate", "datasets")
UNDER_THEM = ("tokenizers", "huggingface-hub", "numpy", "pandas", "pyarrow", "fsspec")
WITHOUT_TORCH = 'torch ; python_version < "3"\n'


def resolve(trl: str, day: str, transformers: str) -> dict[str, str]:
    """The releases that uv chooses on that day, by name. CalledProcessError when there are none."""
    asked = [f"trl=={trl}", f"transformers{transformers}", *LIBRARIES[2:]]
    if day < "2024-12":
        asked.append("numpy<2")  # extensions of that time were built against NumPy 1
    words = [find_uv_bin(), "pip", "compile", "-q", "--no-header", "--no-annotate", "--exclude-newer", day]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as overrides:
        overrides.write(WITHOUT_TORCH)
        overrides.flush()
        words += ["--override", overrides.name, "--python-version", "3.11", "-"]
        done = subprocess.run(words, input="\n".join([*asked, ""]), capture_output=True, text=True, check=True)
    pins = dict(line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    return {name: pins[name].split(" ")[0] for name in (*LIBRARIES, *UNDER_THEM) if name in pins}


def main() -> None:
    print("# Made by make_sets.py. Releases that work together, oldest first: each of TRL with those of its day.\n")
    for trl, (day, transformers) in DAYS.items():
        print(f'[[set]]\nday = "{day}"')
        for name, version in resolve(trl, day, transformers).items():
            print(f'{name} = "{version}"')
        print()
        print(f"{trl}", file=sys.stderr)


if __name__ == "__main__":
    main()
