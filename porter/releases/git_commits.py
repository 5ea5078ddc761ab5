"""Between which releases a commit of a library lies: `git+https://github.com/huggingface/trl@e95f9fb`, 0.14 and 0.15.

`commits/LIBRARY.txt` has a line for each release, `0.14.0 801582e 1234567 ...`: the first digits of the commits behind
it, up to the next one's. It is read when a script names a commit, and made from a clone with all tags:

    python -m porter.releases.git_commits --library trl --git CLONE
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

from .versions import key

HERE = Path(__file__).resolve().parent / "commits"
DIGITS = 7
FIRST = {"trl": "0.4.0", "peft": "0.1.0", "accelerate": "0.12.0"}  # nothing trains as these did before


@cache
def _behind(library: str) -> dict[str, tuple[str, str]]:
    """The first digits of a library's commits → the release that they came behind, and the next, empty where none."""
    file = HERE / f"{library}.txt"
    if not file.is_file():
        return {}
    lines = [line.split() for line in file.read_text("ascii").splitlines()]
    following = [*(line[0] for line in lines[1:]), ""]
    return {commit: (line[0], after) for line, after in zip(lines, following, strict=True) for commit in line[1:]}


def releases_around(library: str, commit: str) -> tuple[str, str] | None:
    """The release that a commit came behind, and the next one, empty where none is known; None for no known commit.

    A release's own commit counts as the release: what it came behind is itself.
    """
    return _behind(library).get(commit[:DIGITS].lower()) if len(commit) >= DIGITS else None


def read_clone(library: str, clone: Path) -> dict[str, list[str]]:
    """Release → the first digits of the commits behind it, in the order of both, from a repository with all tags."""
    branch = _git(clone, "rev-list", "--first-parent", "--reverse", "HEAD")
    places = {commit: place for place, commit in enumerate(branch)}
    starts: dict[int, str] = {}  # where the branch left a release behind
    found: dict[str, list[str]] = defaultdict(list)
    tags = [tag for tag in _git(clone, "tag") if re.fullmatch(r"v?\d+\.\d+(?:\.\d+)?", tag)]
    for tag in sorted(tags, key=key):
        release = tag.removeprefix("v")
        if key(release) < key(FIRST[library]):
            continue
        base = _git(clone, "merge-base", tag, "HEAD")[0]
        own = _git(clone, "rev-list", "--reverse", f"{base}..{tag}")  # the branch that the release was made on
        found[release] += [*own, *_git(clone, "rev-parse", f"{tag}^{{commit}}")]
        while base not in places:
            base = _git(clone, "rev-parse", f"{base}^")[0]
        starts[places[base]] = release  # of several that leave at one place the newest
    release = ""
    for place, commit in enumerate(branch):
        release = starts.get(place, release)
        if release:
            found[release].append(commit)
    seen: dict[str, str] = {}  # a patch release has its forerunners' commits
    for name in sorted(found, key=key):
        for commit in found[name]:
            seen.setdefault(commit[:DIGITS], name)
    return {name: [commit for commit in seen if seen[commit] == name] for name in sorted(found, key=key)}


def _git(clone: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", required=True, choices=sorted(FIRST))
    parser.add_argument("--git", required=True, type=Path, metavar="CLONE", help="a repository with all its tags")
    options = parser.parse_args()
    found = read_clone(options.library, options.git)
    file = HERE / f"{options.library}.txt"
    file.write_text("".join(f"{release} {' '.join(commits)}\n" for release, commits in found.items()), "ascii")
    print(f"Wrote {file}: {sum(map(len, found.values()))} commits behind {len(found)} releases")


if __name__ == "__main__":
    main()
