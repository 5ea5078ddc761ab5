"""The scripts that a CSV lists (columns repo and path, and more), in a folder of repositories."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path


def listed(folder: Path, file: Path) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Path, name (`owner/name/path`) and row of each script; one that isn't in the folder is named on stderr.

    Repositories lie as `<owner>+<name>/` or `<owner>/<name>/`.
    """
    with file.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            owner, _, name = row["repo"].partition("/")
            candidates = [folder / f"{owner}+{name}" / row["path"], folder / owner / name / row["path"]]
            path = next((path for path in candidates if path.is_file()), None)
            if path is None:
                print(f"missing: {row['repo']} {row['path']}", file=sys.stderr)
                continue
            yield path, f"{row['repo']}/{row['path']}", row
