"""Checkpoints elsewhere (`gs://`, `s3://`, `hf://`, whatever fsspec reads): what an export needs of them, fetched.

Of a step only its parameters come over, not the optimizer's state, which is twice as large.
"""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import InputError
from ..runtime.facts import sidecar
from .output import check_space

# What says which steps there are and what they hold: fetched at once, the arrays when the step is chosen.
SMALL = ("_METADATA", "commit_success.txt", "config.json", sidecar.NAME)
ABOVE = 2  # folders above the named one in which the run's sidecar may stand: a step's run, an item's


class Remote:
    """A checkpoint's folder on another file system, and the local folder that stands for it as long as this lives."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]

            self._system, root = url_to_fs(self.url)
            self._root = PurePosixPath(root)
            self._sizes = {
                PurePosixPath(name): int(entry["size"] or 0)
                for name, entry in self._system.find(root, detail=True).items()
            }
        except ImportError as error:
            raise InputError(f"can't be reached: {error}", url, fix="install what it names") from error
        except ValueError as error:
            raise InputError(
                f"can't be reached: {error}", url, fix="name a folder or a URL that fsspec reads"
            ) from None
        except Exception as error:  # every file system has errors of its own
            raise InputError(f"can't be read: {type(error).__name__}: {error}", url, fix="check name and access") from (
                error
            )
        if not self._sizes:
            raise InputError("no such checkpoint", url, fix="name the folder that the run saved to")
        self._temporary = tempfile.TemporaryDirectory(prefix="tpu-port-checkpoint-")
        self.kept = Path(self._temporary.name)
        self.folder = self._local(self._root)
        for name in self._sizes:
            self._local(name).parent.mkdir(parents=True, exist_ok=True)
            if name.name in SMALL:
                self._fetch(name)
        for parent in list(self._root.parents)[:ABOVE]:
            if str(parent) not in (".", "/") and self._system.exists(str(parent / sidecar.NAME)):
                self._fetch(parent / sidecar.NAME)

    def fetch(self, folder: Path) -> None:
        """Bring over all of a folder that stands locally for a remote one."""
        left = [name for name in self._sizes if self._local(name).is_relative_to(folder)]
        left = [name for name in left if not self._local(name).exists()]
        check_space(self.kept, sum(self._sizes[name] for name in left))
        for name in left:
            self._fetch(name)

    def said(self, folder: Path) -> str:
        """The URL of what stands locally at `folder`."""
        inner = folder.relative_to(self.folder).as_posix() if folder.is_relative_to(self.folder) else ""
        return self.url if inner in ("", ".") else f"{self.url}/{inner}"

    def _local(self, name: PurePosixPath) -> Path:
        parts = [part for part in name.parts if part not in ("/", "..")]
        return self.kept.joinpath(*parts)

    def _fetch(self, name: PurePosixPath) -> None:
        target: Any = self._local(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._system.get_file(str(name), str(target))
        except Exception as error:
            raise InputError(
                f"{name} can't be read: {type(error).__name__}: {error}", self.url, fix="run the same command again"
            ) from error
