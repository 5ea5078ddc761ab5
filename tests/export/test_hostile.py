"""Bases, checkpoints and manifests that lie: one clear error, nothing written, no wait. TPU_PORT_FUZZ examples each."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorstore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porter.errors import InputError
from porter.export import changes
from porter.export.base import INDEX, open_base, read_shard
from porter.export.checkpoint import open_checkpoint
from porter.export.manifest import NAME, matches, read_manifest
from porter.export.run import Options, export
from porter.runtime.facts import sidecar
from tests.export import made

EXAMPLES = int(os.environ.get("TPU_PORT_FUZZ", "120"))
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
FEW = settings(SETTINGS, max_examples=EXAMPLES // 3)

ANY: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1.5, -0.0, float("nan"), float("inf"), "", "x", "0", "F32",
        "../../etc/passwd", "/etc/passwd", "a\0b", "..", "%2e%2e/x", "é\u202e", [], [0], [0, 0], [-1, -1], [[]], {},
        {"a": 1}, ["x"] * 3, [0, 2**63], [128, 0], "\ud800",
    ]
)  # fmt: skip


def odd() -> st.SearchStrategy[Any]:
    return ANY.map(copy.deepcopy)


@st.composite
def lying(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document after one to three changes: values replaced, keys renamed, doubled, taken out or added."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            return draw(odd())
        holder, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "replace", "replace", "drop", "rename", "swap"]))
        if change == "replace":
            holder[key] = draw(odd())
        elif change == "drop":
            del holder[key]
        elif change == "rename" and isinstance(holder, dict):
            holder[str(draw(odd()))] = holder.pop(key)
        else:
            other, name = draw(st.sampled_from(places))
            with contextlib.suppress(KeyError, IndexError, TypeError):
                holder[key], other[name] = json.loads(json.dumps(other[name])), json.loads(json.dumps(holder[key]))
    return document


def _places(node: Any) -> Any:
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def text_of(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


@pytest.fixture(autouse=True)
def mistakes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the readers themselves don't name comes through, but for what `export` says of a whole input."""
    monkeypatch.delenv("TPU_PORT_TRACEBACK", raising=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A base, a run and a place for outputs."""
    folder = tmp_path_factory.mktemp("hostile")
    return made.base(folder / "base"), made.run(folder / "run"), folder


@contextlib.contextmanager
def changed(file: Path, data: bytes) -> Any:
    before = file.read_bytes()
    file.write_bytes(data)
    try:
        yield
    finally:
        file.write_bytes(before)


HEADER = {
    "__metadata__": {"format": "pt"},
    "model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]},
    "model.embed": {"dtype": "F32", "shape": [4, 8], "data_offsets": [128, 256]},
    "model.odd": {"dtype": "F4", "shape": [64], "data_offsets": [256, 288]},
}


@SETTINGS
@given(lying(HEADER), st.sampled_from([0, 0, 0, 1, -1, -7, 2**40]), st.sampled_from([288, 288, 288, 0, 287, 300]))
def test_a_safetensors_header_of_lies(kept: tuple[Path, Path, Path], header: Any, more: int, data: int) -> None:
    file = kept[2] / "lies.safetensors"
    text = text_of(header)
    file.write_bytes(struct.pack("<Q", max(0, len(text) + more)) + text + bytes(data))
    with contextlib.suppress(InputError):
        shard = read_shard(file)
        at = len(shard.header)
        for tensor in shard.tensors:  # every byte is one tensor's, and the file's
            assert tensor.start == at and tensor.start <= tensor.end <= shard.size == file.stat().st_size
            assert all(type(size) is int and size >= 0 for size in tensor.shape)
            at = tensor.end
        assert at == shard.size


@SETTINGS
@given(st.binary(max_size=300))
def test_a_safetensors_file_of_anything(kept: tuple[Path, Path, Path], data: bytes) -> None:
    file = kept[2] / "anything.safetensors"
    file.write_bytes(data)
    with contextlib.suppress(InputError):
        read_shard(file)


@FEW
@given(st.data())
@pytest.mark.parametrize(
    ("part", "names"), [("base", ["config.json", INDEX]), ("run", [sidecar.NAME, "5/model_params/_METADATA"])]
)
def test_lies_are_refused_or_exported(
    kept: tuple[Path, Path, Path], part: str, names: list[str], data: st.DataObject
) -> None:
    base, run, folder = kept
    file = (base if part == "base" else run) / data.draw(st.sampled_from(names))
    lie = text_of(data.draw(lying(json.loads(file.read_text()))))
    with changed(file, lie), contextlib.suppress(InputError):
        _exported(run, base, folder / f"out-{part}", merged=data.draw(st.booleans()))


@FEW
@given(st.data())
def test_an_array_database_of_anything(kept: tuple[Path, Path, Path], data: st.DataObject) -> None:
    base, run, folder = kept
    files = sorted(path for path in (run / "5" / "model_params").rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    with changed(file, bytes(content[:cut])), contextlib.suppress(InputError):
        _exported(run, base, folder / "out-array", merged=False)


def _exported(run: Path, base: Path, out: Path, *, merged: bool) -> None:
    """An export, after which nothing is left; what is written beside `out` would be found."""
    around = sorted(out.parent.iterdir())
    started = time.monotonic()
    try:
        export(run, base, out, Options(merged=merged, force=True))
    finally:
        shutil.rmtree(out, ignore_errors=True)
        assert sorted(out.parent.iterdir()) == around
        assert time.monotonic() - started < 60


MANIFEST = {
    "format": 2,
    "job": "j",
    "files": ["a.safetensors"],
    "done": {"a.safetensors": {"size": 3, "xxh3": "00", "tensors": {"t": {"delta": 1.0, "kept": 1.0, "changed": 1}}}},
}


@SETTINGS
@given(lying(MANIFEST))
def test_a_manifest_of_lies(kept: tuple[Path, Path, Path], document: Any) -> None:
    folder = kept[2] / "manifest"
    folder.mkdir(exist_ok=True)
    (folder / "a.safetensors").write_bytes(b"abc")
    (folder / NAME).write_bytes(text_of(document))
    matches(folder, "j")
    with contextlib.suppress(InputError):
        found = read_manifest(folder, "j", ["a.safetensors"])
        found.is_done("a.safetensors")
        found.retained()


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("name", ["config.json", INDEX, "tpu_port.json", "_METADATA", "header"])
def test_json_nested_thousands_deep_is_one_line(kept: tuple[Path, Path, Path], name: str) -> None:
    base, run, folder = kept
    file = {"tpu_port.json": run / sidecar.NAME, "_METADATA": run / "5/model_params/_METADATA"}.get(name, base / name)
    if name == "header":
        file = next(base.glob("*.safetensors"))
        content = struct.pack("<Q", len(DEEP)) + DEEP.encode()
    else:
        content = DEEP.encode()
    with changed(file, content), pytest.raises(InputError):
        _exported(run, base, folder / "out-deep", merged=True)


@pytest.mark.parametrize("name", ["config.json", INDEX, "shard", "tpu_port.json", "_METADATA"])
def test_a_pipe_in_the_place_of_a_file_is_no_wait(tmp_path: Path, name: str) -> None:
    base, run = made.base(tmp_path / "base"), made.run(tmp_path / "run")
    file = {"tpu_port.json": run / sidecar.NAME, "_METADATA": run / "5/model_params/_METADATA"}.get(name, base / name)
    file = next(base.glob("*.safetensors")) if name == "shard" else file
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match="no regular file"):
        export(run, base, tmp_path / "out", Options(merged=True))


@pytest.mark.parametrize(
    "edit",
    [
        lambda config: config.update(num_hidden_layers=10**9),
        lambda config: config.update(num_hidden_layers="2"),
        lambda config: config.update(num_attention_heads=0),
        lambda config: config.update(hidden_size=[64]),
        lambda config: config.update(vocab_size=-1),
        lambda config: config.update(head_dim=1.5),
        lambda config: config.update(architectures="Gemma3ForCausalLM"),
        lambda config: config.update(text_config=[1]),
    ],
)
def test_sizes_that_no_model_has(tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    base = made.base(tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    edit(config)
    (base / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"config\.json: (?:says|is no model's)"):
        open_base(base)


def test_many_doubled_keys_are_found_at_once(tmp_path: Path) -> None:
    header = ("{" + ",".join(f'"a{n}":1' for n in range(200_000)) + ',"a199999":1}').encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    started = time.process_time()
    with pytest.raises(InputError, match="a199999 is there twice"):
        read_shard(file)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("key", ["../../secret", "..", "/etc", "a/../../b", "a\\b", "", "\ud800"])
def test_arrays_of_another_folder_are_refused(tmp_path: Path, key: str, ocdbt: bool) -> None:
    run = made.run(tmp_path / "run", ocdbt=ocdbt)
    file = run / "5/model_params/_METADATA"
    document = json.loads(file.read_text())
    next(iter(document["tree_metadata"].values()))["key_metadata"] = [{"key": key, "key_type": 2}]
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match="outside of its folder"):
        open_checkpoint(run)


@pytest.mark.parametrize("ocdbt", [True, False])
def test_a_folder_whose_name_means_something_in_a_url(tmp_path: Path, ocdbt: bool) -> None:
    run = made.run(tmp_path / "run", ocdbt=ocdbt)
    other = tmp_path / "100%20 ?a#b"
    run.rename(other)
    checkpoint = open_checkpoint(other)
    assert checkpoint.read(checkpoint.names[0]).size


def test_a_linked_file_of_a_base_is_not_handed_on(tmp_path: Path) -> None:
    base, run, secret = made.base(tmp_path / "base"), made.run(tmp_path / "run"), tmp_path / "secret.txt"
    secret.write_text("mine")
    (base / "LICENSE").symlink_to(secret)
    with pytest.raises(InputError, match="a link out of the model's folder"):
        export(run, base, tmp_path / "out", Options(merged=True))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("moment", [0, 3])
def test_a_base_that_is_swapped_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    base, run, out = made.base(tmp_path / "base"), made.run(tmp_path / "run"), tmp_path / "out"
    shard, other = base / "model-00001-of-00003.safetensors", tmp_path / "other"
    content = bytearray(shard.read_bytes())
    content[-9] ^= 1
    other.write_bytes(content)  # of the same size and header
    made_rows, calls = changes.Added.rows, itertools.count()

    def swapping(self: Any, *words: Any) -> Any:
        if next(calls) == moment:  # one thread's alone: several read at once
            os.replace(other, shard)
        return made_rows(self, *words)

    with monkeypatch.context() as patch, pytest.raises(InputError, match="was changed while it was read"):
        patch.setattr(changes.Added, "rows", swapping)
        export(run, base, out, Options(merged=True))
    assert not (out / shard.name).exists()
    export(run, base, out, Options(merged=True, force=True))
    export(run, base, tmp_path / "whole", Options(merged=True))
    assert {file.name: file.read_bytes() for file in out.glob("*.safetensors")} == {
        file.name: file.read_bytes() for file in (tmp_path / "whole").glob("*.safetensors")
    }


def _crc32c(data: bytes) -> int:
    """The checksum at the end of OCDBT's files."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


@pytest.mark.parametrize("part", ["value", "btree_node"])
def test_a_database_whose_files_lie_elsewhere(tmp_path: Path, part: str) -> None:
    """A manifest (or a node) that is right in everything but that it names a file out of the checkpoint's folder."""
    base, run = made.base(tmp_path / "base"), made.run(tmp_path / "run")
    item = run / "5" / "model_params"
    store = {"driver": "ocdbt", "base": {"driver": "file", "path": f"{item}/"}}
    held = tensorstore.KvStore.open(store).result()
    content = {key: held[key] for key in held.list().result()}
    for path in [item / "manifest.ocdbt", *item.glob("d/*")]:
        path.unlink()
    plain = {**store, "config": {"compression": None, "max_inline_value_bytes": 0}}
    again = tensorstore.KvStore.open({**plain, f"{part}_data_prefix": "xx/elsewhere/"}).result()
    for key, value in content.items():
        again[key] = value
    open_checkpoint(run)  # as long as the files are in the folder, it is a checkpoint
    (item / "xx" / "elsewhere").rename(item.parent / "elsewhere")
    patched = 0
    for path in [item / "manifest.ocdbt", *item.glob("d/*"), *(item.parent / "elsewhere").iterdir()]:
        data = path.read_bytes()
        if b"xx/elsewhere/" in data:
            data = data.replace(b"xx/elsewhere/", b"../elsewhere/")[:-4]
            path.write_bytes(data + struct.pack("<I", _crc32c(data)))
            patched += 1
    assert patched
    with pytest.raises(InputError, match="is missing or damaged"):
        export(run, base, tmp_path / "out", Options(merged=True))
    assert not (tmp_path / "out").exists()
