"""The copy in which a script runs: its project's folder, so that nothing of the user's is overwritten."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...source.notebooks.program import Program, is_notebook, read_program
from ..stand_ins.command_line.command_lines import project_of
from ..stand_ins.command_line.project import project_files
from .script import as_module

LEFT_OUT = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
}
VENDORED = "porter_runtime"
MOST_FILES = 20_000
COPY_LIMIT = 200_000_000  # bytes
LINKED = 20_000_000  # bytes from which a file is linked to: data and weights, which the guard lets nobody write


@dataclass(frozen=True)
class Place:
    """Where a script runs: `script` and `folder` (its working directory), of a copy of `root` at `copy`.

    Without a copy (`copy` is None) both are the user's own. `came_from` is a script that lies outside `root`. Of a
    notebook the script is its `program`, in the notebook's place.
    """

    script: Path
    folder: Path
    root: Path
    copy: Path | None
    came_from: Path | None = None
    program: Program | None = None

    def told(self, text: str) -> str:
        """`text` with the user's own paths, and a notebook's places as cells and lines."""
        if self.came_from is not None:
            text = text.replace(str(self.script), str(self.came_from))
        text = text.replace(str(self.copy), str(self.root)) if self.copy is not None else text
        return self.program.named(text) if self.program is not None else text


def place_for(script: Path, work: Path, limit: int = COPY_LIMIT, source: Path | None = None) -> tuple[Place, str]:
    """As `copy_project`; a notebook's program stands in its place, and runs in its folder as in Jupyter."""
    place, said = copy_project(script, work, limit, source)
    return (_with_program(script, place, work), said) if is_notebook(script) else (place, said)


def copy_project(script: Path, work: Path, limit: int = COPY_LIMIT, source: Path | None = None) -> tuple[Place, str]:
    """A copy of the script's project below `work`, and what to say when there is none.

    The project is the current folder when the script lies in it, or one above that looks like a project's or has the
    script's package. Links stay
    links, within the copy where they lead inside. Larger than `limit` bytes, a narrower folder is tried, then none.
    A port of `source` that lies outside its project runs in a copy of that, in `source`'s folder: it finds the same
    data and modules there, its own modules and files first.
    """
    script = script.absolute()
    if source is not None:
        place, said = copy_project(source, work, limit)
        if place.copy is not None and place.root not in script.parents:
            return _beside(script, place), said
        if place.copy is not None:
            return replace(place, script=place.copy / script.relative_to(place.root)), said
    here = Path.cwd()
    roots = [*([here] if here in script.parents else []), project_of(script), as_module(script)[0], script.parent]
    roots.sort(key=lambda root: len(root.parts))  # the widest that isn't too large
    for root in dict.fromkeys(roots):
        if root in (Path(root.anchor), Path.home()) or not _holds(root, script) or not _fits(root, limit):
            continue
        copy = work / "copy"
        shutil.copytree(
            root, copy, symlinks=True, ignore=_without(work), ignore_dangling_symlinks=True, copy_function=_copy_or_link
        )
        for link in _links(copy):
            _keep_inside(link, root, copy)
        if (root / ".git").exists():  # empty: scripts look for it to find their project's folder, and so does the tool
            (copy / ".git").mkdir()
        inside = here if here == root or root in here.parents else script.parent
        folder = copy / inside.relative_to(root)
        return Place(copy / script.relative_to(root), folder, root, copy), ""
    said = (
        f"{script.parent} is larger than {limit / 1e6:.0f} MB: {script.name} ran in place, not in a copy (--copy-limit)"
    )
    return Place(script, here, script.parent, None), said


def _beside(port: Path, place: Place) -> Place:
    """`port`, and what belongs to it, put beside the source in the source's copy `place`.

    Those are the modules that it imports from its own folder, its recipe, a runtime of its own, and files of its folder
    that are in the source's, too: a project was ported as a whole.
    """
    home = place.script.parent
    own = [file for file in project_files(port) if port.parent in file.parents]
    own += [file for file in (port.with_suffix(".recipe.json"),) if file.is_file()]
    own += [Path(file.path) for file in _files(port.parent / VENDORED)]
    own += [port.parent / name for name in (Path(file.path).relative_to(home) for file in _files(home))]
    for file in dict.fromkeys(own):
        target = home / file.relative_to(port.parent)
        if file.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # a link would be written through
            _copy_or_link(str(file), str(target))
    return replace(place, script=home / port.name, came_from=port)


def _with_program(notebook: Path, place: Place, work: Path) -> Place:
    program = read_program(notebook)
    copy = place.copy
    if copy is None:  # the user's own folder is no place for it: links to what lies there
        copy = work / "copy"
        copy.mkdir()
        for beside in notebook.absolute().parent.iterdir():
            if beside.name not in LEFT_OUT and beside.name != notebook.name:
                (copy / beside.name).symlink_to(beside)
        place = replace(place, script=copy / notebook.name, copy=copy, root=notebook.absolute().parent)
    place.script.unlink(missing_ok=True)  # a link would be written through
    place.script.write_text(program.text, encoding="utf-8")
    return replace(place, folder=place.script.parent, program=program)


def _holds(root: Path, script: Path) -> bool:
    """Whether a copy of `root` would have the script: one of an installed package lies in an environment."""
    return root in script.parents and not LEFT_OUT.intersection(script.relative_to(root).parts)


def _fits(root: Path, limit: int) -> bool:
    size = count = 0
    for file in _files(root):
        count += 1
        try:
            own = file.stat(follow_symlinks=False).st_size
        except OSError:
            continue
        size += own if own <= LINKED else 0
        if size > limit or count > MOST_FILES:
            return False
    return True


def _copy_or_link(source: str, target: str) -> None:
    if os.path.getsize(source) > LINKED:
        os.symlink(source, target)
    else:
        shutil.copy2(source, target)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT:
                    waiting.append(entry.path)
            else:
                yield entry


def _without(work: Path) -> Callable[[str, list[str]], set[str]]:
    """As `_left_out`, and without the run's own folder, which may lie in the project."""
    own = work.resolve()
    return lambda folder, names: _left_out(folder, names) | {n for n in names if Path(folder, n).resolve() == own}


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Names that aren't copied: environments, histories, and what is neither a file nor a folder."""
    kept = set(names) & LEFT_OUT
    for name in names:
        path = Path(folder, name)
        if not path.is_symlink() and not path.is_dir() and (not path.is_file() or not os.access(path, os.R_OK)):
            kept.add(name)
    return kept


def _links(copy: Path) -> list[Path]:
    return [Path(entry.path) for entry in _files(copy) if entry.is_symlink()]


def _keep_inside(link: Path, root: Path, copy: Path) -> None:
    """A link of the copy must not lead back to the original: inside the project it is made relative, else it stays."""
    target = Path(os.readlink(link))
    original = root / link.relative_to(copy)
    whole = target if target.is_absolute() else original.parent / target
    inside = os.path.relpath(os.path.abspath(whole), root)
    if inside.startswith(".."):
        if not target.is_absolute():
            link.unlink()
            link.symlink_to(os.path.abspath(whole))  # outside: read there; the guard lets nothing write there
        return
    if target.is_absolute():
        link.unlink()
        link.symlink_to(copy / inside)
