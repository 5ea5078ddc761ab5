"""Writing a port: whole or not at all, and never over something that isn't ours to replace."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError
from ..files import read_file, read_text
from ..port import Port
from ..recipe import Recipe
from ..tables import PACKAGE, rules_folder

RUNTIME = "porter_runtime"
MARKER = "VENDORED"


def recipe_path(output: Path) -> Path:
    """`train_tunix.py` → `train_tunix.recipe.json`."""
    return output.with_name(f"{output.stem}.recipe.json")


def check_output(source: Path, output: Path, *, force: bool) -> None:
    """InputError when a port of `source` must not be written to `output`."""
    if output.is_dir():
        raise InputError("the output is a folder", output, fix=f"name a file in it: -o {output / source.name}")
    if not output.parent.is_dir():
        raise InputError("the output's folder doesn't exist", output, fix=f"make it first: mkdir -p {output.parent}")
    if _same_file(source, output):
        raise InputError("the output is the source itself", output, fix="give -o another name")
    if force:
        return
    if os.path.lexists(output):
        raise InputError("the output exists", output, fix="--force replaces it")
    _check_sidecar(recipe_path(output))


def _check_sidecar(sidecar: Path) -> None:
    if os.path.lexists(sidecar) and not _is_recipe(sidecar):
        raise InputError("exists and is no recipe of tpu-port", sidecar, fix="move it, or --force replaces it")


def write_port(port: Port, output: Path, *, force: bool = False, vendor: bool = False) -> tuple[Path, ...]:
    """Write the port, its recipe, modules and tables it needs and, on demand, the runtime; return the paths, the port
    first.

    Each is written under another name in the same folder and renamed, the port last: a run that is cut off leaves
    the port that was there before. A file in which nothing was found to port is copied as it is, without a recipe.
    """
    source = Path(port.path)
    check_output(source, output, force=force)
    if (port.notebook is not None) != (output.suffix == ".ipynb") and ".ipynb" in (source.suffix, output.suffix):
        kind, fix = ("a notebook", ".ipynb") if port.notebook is not None else ("a script", ".py")
        raise InputError(f"the port of {kind} is {kind}", output, fix=f"-o {output.with_suffix(fix)}")
    try:
        target = output.resolve() if output.is_symlink() else output
        if port.after == port.before:
            replace_file(target, read_file(source), like=source)
            return (output,)
        data = port.data
        beside = {output.parent / name: content.encode() for name, content in port.files}
        beside |= {output.parent / module.beside: module.data for module in port.modules if module.beside}
        for path, content in beside.items():
            if os.path.lexists(path) and not force and read_file(path) != content:
                raise InputError(
                    "exists, and the port needs another file of this name", path, fix="--force replaces it"
                )
        modules = {recipe_path(output.parent / each.beside): each.recipe for each in port.modules if each.beside}
        recipes = {path: recipe for path, recipe in modules.items() if recipe.fields} | {
            recipe_path(output): port.recipe
        }
        for path in recipes if not force else ():
            _check_sidecar(path)
        beside |= {path: f"{recipe.to_json()}\n".encode() for path, recipe in recipes.items()}
        vendored = (vendor_runtime(output.parent, force=force),) if vendor else ()
        for path, content in beside.items():
            replace_file(path, content, readable_like=source)
        replace_file(target, data, like=source)
    except UnicodeEncodeError as error:
        raise InputError(f"its encoding can't hold the port: {error}", source, fix="save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", output) from error
    return (output, *beside, *vendored)


def vendor_runtime(folder: Path, *, force: bool = False) -> Path:
    """Copy `porter.runtime` and the tables it reads to `folder/porter_runtime`; return that path.

    A copy that an earlier port left there is replaced; anything else of that name only with `force`.
    """
    from .. import __version__

    target = folder / RUNTIME
    if os.path.lexists(target) and not (target / MARKER).is_file() and not force:
        raise InputError("exists and is no runtime of tpu-port", target, fix="move it, or --force replaces it")
    staged = Path(tempfile.mkdtemp(prefix=f".{RUNTIME}.", suffix=".tmp", dir=folder))
    try:
        copy = staged / RUNTIME
        shutil.copytree(PACKAGE / "runtime", copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        _copy_tables(copy)
        (copy / MARKER).write_text(f"tpu-port {__version__}\n")
        if target.is_symlink() or target.is_file():
            target.unlink()
        elif target.is_dir():
            target.rename(staged / "old")
        copy.rename(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return target


def _copy_tables(runtime: Path) -> None:
    """`rules/models/*.toml` → `families/`; `rules/<pack>/tables/*.toml`, `defaults.toml` → `rules/`, by the modules."""
    for table in sorted(rules_folder().glob("models/*.toml")):
        _copy(table, runtime / "families" / table.name)
    for table in sorted([*rules_folder().glob("*/tables/*.toml"), *rules_folder().glob("*/defaults.toml")]):
        _copy(table, runtime / "rules" / table.relative_to(rules_folder()))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def replace_file(path: Path, content: bytes, like: Path | None = None, readable_like: Path | None = None) -> None:
    """Write a file whole or not at all; whoever may read or run `like` may do so with it, and nobody
    else; who may only read `readable_like` may read it."""
    with _temporary(path) as (temporary, file):
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if like is not None:
            temporary.chmod(stat.S_IMODE(like.stat().st_mode) & 0o777 | stat.S_IWUSR)
        elif readable_like is not None:
            temporary.chmod(stat.S_IMODE(readable_like.stat().st_mode) & 0o666 | stat.S_IWUSR)
        os.replace(temporary, path)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside `path`, gone afterwards unless it was renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _is_recipe(path: Path) -> bool:
    try:
        Recipe.from_json(read_text(path))
    except (OSError, ValueError, RecursionError, InputError):
        return False
    return True
