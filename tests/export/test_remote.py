"""Checkpoints on other file systems, through fsspec's own one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from porter.errors import InputError
from porter.export.checkpoint import open_checkpoint
from porter.export.run import Options, export
from tests.export import made


@pytest.fixture
def bucket() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    system.rm("/", recursive=True) if system.ls("/") else None
    yield system
    system.rm("/", recursive=True) if system.ls("/") else None


def put(system: fsspec.AbstractFileSystem, folder: Path, *, finished: bool = True) -> None:
    """A run as it stands in a bucket: Orbax says there with a file that a step is whole."""
    for file in folder.rglob("*"):
        if file.is_file():
            system.pipe_file(f"/runs/mine/{file.relative_to(folder)}", file.read_bytes())
    if finished:
        for item in folder.glob("*/model_params"):
            system.pipe_file(f"/runs/mine/{item.relative_to(folder)}/commit_success.txt", b"")
            system.pipe_file(f"/runs/mine/{item.parent.name}/optimizer_state/large", b"0" * 9)


@pytest.mark.parametrize("url", ["runs/mine", "runs/mine/5", "runs/mine/5/model_params"])
@pytest.mark.parametrize("ocdbt", [True, False])
def test_the_same_adapter_as_from_a_folder(
    url: str, ocdbt: bool, bucket: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    base, run = made.base(tmp_path / "base"), made.run(tmp_path / "run", ocdbt=ocdbt)
    put(bucket, run)
    export(run, base, tmp_path / "near")
    exported = export(f"memory://{url}", base, tmp_path / "far")
    assert exported.checkpoint == "memory://runs/mine/5/model_params" and exported.step == 5
    for name in exported.files:
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "near" / name).read_bytes()


def test_only_the_parameters_come_over_and_go_again(bucket: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    put(bucket, made.run(tmp_path / "run"))
    read = open_checkpoint("memory://runs/mine")
    assert read.remote is not None
    kept = read.remote.kept
    assert not list(kept.rglob("large")) and list(kept.rglob("_METADATA"))
    del read
    assert not kept.exists()


def test_what_is_wrong_is_said_with_the_url(bucket: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    base = made.base(tmp_path / "base")
    with pytest.raises(InputError, match=r"^memory://runs/none: no such checkpoint"):
        export("memory://runs/none", base, tmp_path / "out")
    with pytest.raises(InputError, match=r"^nowhere://x: can't be reached: .*nowhere"):
        export("nowhere://x", base, tmp_path / "out")
    put(bucket, made.run(tmp_path / "run"), finished=False)
    with pytest.raises(InputError, match=r"^memory://runs/mine/5: it was never finished"):
        export("memory://runs/mine", base, tmp_path / "out", Options(step=5))
    with pytest.raises(InputError, match=r"^memory://runs/mine: no step 7; it has 5"):
        export("memory://runs/mine", base, tmp_path / "out", Options(step=7))
    assert not (tmp_path / "out").exists()
