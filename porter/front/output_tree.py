"""Writing the port of a folder: whole or not at all, with everything that it needn't touch copied."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from ..errors import InputError
from ..port import Port
from .output import recipe_path, vendor_runtime
from .tree import TreePort


def check_tree_output(source: Path, output: Path, *, force: bool) -> None:
    """InputError when the port of folder `source` must not be written to `output`."""
    if os.path.lexists(output) and not output.is_dir():
        raise InputError("the output is a file, and the source a folder", output, fix="name a folder")
    if output.is_dir() and os.path.samefile(source, output):
        raise InputError("the output is the source itself", output, fix="give -o another name")
    if output.absolute() in source.absolute().parents:
        raise InputError("the output is a folder around the source", output, fix="give -o another name")
    if output.is_dir() and any(output.iterdir()) and not force:
        raise InputError("the output exists and is not empty", output, fix="--force writes into it")
    if not output.parent.is_dir():
        raise InputError("the output's folder doesn't exist", output, fix=f"make it first: mkdir -p {output.parent}")


def write_tree(result: TreePort, output: Path, *, force: bool = False, vendor: bool = False) -> int:
    """Write the folder's port to `output` and return the number of files.

    It is put together beside `output` and moved there at the end, so that a run that is cut off leaves nothing half
    written. Files that can't be read are left out (the report names them).
    """
    check_tree_output(result.root, output, force=force)
    staged = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".tmp", dir=output.parent))
    try:
        whole = staged / "tree"
        whole.mkdir()
        for path in result.files:
            _write_file(result, path, whole / path)
        for path in result.links:
            (whole / path).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(os.readlink(result.root / path), whole / path)
        if vendor:
            for folder in {(whole / path).parent for path, port in result.changed.items() if port.recipe.trainer}:
                vendor_runtime(folder, force=force)
        count = sum(1 for path in whole.rglob("*") if path.is_file() or path.is_symlink())
        _move(whole, output)
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", error.filename or output) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return count


def _write_file(result: TreePort, path: Path, target: Path) -> None:
    source, port = result.root / path, result.ports.get(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if port is None or port.after == port.before:
        try:
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
        except OSError as error:
            target.unlink(missing_ok=True)
            message = f"can't be read: {error.strerror}"
            result.errors.setdefault(path, InputError(message, source, fix="check its permissions"))
            return
        if port is None or port.status not in ("ported", "partial"):  # one that only starts what its modules train
            return
    else:
        try:
            target.write_bytes(port.data)
        except UnicodeEncodeError as error:
            raise InputError(f"its encoding can't hold the port: {error}", source, fix="save it as UTF-8") from error
        shutil.copymode(source, target)
    if port.recipe.trainer:
        _write_beside(port, target, stat.S_IMODE(source.stat().st_mode) & 0o666)


def _write_beside(port: Port, target: Path, mode: int) -> None:
    beside = {recipe_path(target).name: f"{port.recipe.to_json()}\n", **dict(port.files)}
    for name, content in beside.items():
        (target.parent / name).write_text(content, encoding="utf-8")
        (target.parent / name).chmod(mode | stat.S_IWUSR)


def _refuse_links(whole: Path, output: Path) -> None:
    """InputError before anything is moved through a link that lies in the output: it may lead anywhere."""
    for path in sorted(whole.rglob("*")):
        target = output / path.relative_to(whole)
        if path.is_dir() and not path.is_symlink() and target.is_symlink():
            raise InputError("is a link, and the port has a folder there", target, fix="take it out")
        if (not path.is_dir() or path.is_symlink()) and target.is_dir() and not target.is_symlink():
            raise InputError("is a folder, and the port has a file there", target, fix="take it out")


def _move(whole: Path, output: Path) -> None:
    if output.is_dir() and not any(output.iterdir()):
        output.rmdir()
    if not os.path.lexists(output):
        os.rename(whole, output)
        return
    _refuse_links(whole, output)
    for path in sorted(whole.rglob("*")):
        target = output / path.relative_to(whole)
        if path.is_dir() and not path.is_symlink():
            target.mkdir(parents=True, exist_ok=True)
        else:
            os.replace(path, target)
