"""Logs that lie: read, compared and shown, or refused in one line; no wait, no memory. TPU_PORT_FUZZ examples each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porter.compare.logs.framed import MIDDLE, Cut, leveldb_records, tensorflow_records
from porter.compare.logs.read import read
from porter.compare.run import compare
from porter.errors import InputError
from porter.report.comparison.page import comparison_page
from porter.report.comparison.terminal import show_comparison
from porter.report.terminal import console

from .made import every, lines, state
from .test_read import one

SETTINGS = settings(
    max_examples=int(os.environ.get("TPU_PORT_FUZZ", "60")), deadline=None, suppress_health_check=list(HealthCheck)
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, 0, -1, 1, 3, 2**53, 2**63, 10**30, 10**400, 0.1, 1.5, -0.0, 5e-324, 1e-300, 1e38, 1e200, 1e308,
        float("nan"), float("inf"), -float("inf"), "", "x", "3", "1e999999", "\ud800", "²", [], {}, [[]], {"a": 1},
    ]
)  # fmt: skip
NAMES = st.sampled_from("loss learning_rate epoch grad_norm num_tokens step _step train/loss train/global_step".split())
HISTORY = every(lines(), 50)
EVENT = "events.out.tfevents.1"


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Lines of a run, some with odd values, some doubled or in another order."""
    found = [dict(line) for line in HISTORY]
    for _ in range(draw(st.integers(0, 4))):
        found[draw(st.integers(0, len(found) - 1))][draw(NAMES)] = draw(ODD)
    if draw(st.booleans()):
        name, value = draw(NAMES), draw(ODD)
        found = [{**line, name: value} for line in found]
    return [*found, *draw(st.lists(st.sampled_from(found), max_size=2))]


def printed(history: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{ {name: str(value) for name, value in line.items()} }\n {line.get('step')}/4 [0" for line in history
    )


def table(history: list[dict[str, Any]]) -> str:
    return "\n".join(
        ["step,loss,epoch", *(",".join(str(line.get(n)) for n in ("step", "loss", "epoch")) for line in history)]
    )


def mlflow(folder: Path, history: list[dict[str, Any]]) -> Path:
    (folder / "metrics").mkdir(parents=True, exist_ok=True)
    for name in ("loss", "epoch"):
        text = "\n".join(f"1 {line.get(name)} {line.get('step')}" for line in history)
        (folder / "metrics" / name).write_text(text, "utf-8", errors="replace")
    return folder


def shown(gpu: Path, tpu: Path, second: tuple[Path, ...] = ()) -> None:
    """Both logs compared, and the answer in each of its forms."""
    found = compare(gpu, tpu, second=second)
    json.loads(found.to_json(), parse_constant=pytest.fail)
    comparison_page(found)
    with contextlib.redirect_stdout(io.StringIO()):
        show_comparison(found, console())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@SETTINGS
@given(histories(), histories(), st.sampled_from(["state", "printed", "table", "mlflow"]), st.booleans())
def test_logs_of_anything(own: Path, one: Any, other: Any, kind: str, swapped: bool) -> None:
    gpu, tpu = state(own / "gpu.json", HISTORY), own / "tpu.log"
    tpu.write_text({"printed": printed, "table": table}.get(kind, json.dumps)(one), "utf-8", errors="replace")
    if kind == "state":
        tpu = state(own / "tpu.json", one, max_steps=other[0].get("step"))
    elif kind == "mlflow":
        tpu = mlflow(own / "mlflow", one)
    with contextlib.suppress(InputError):
        shown(*((tpu, gpu) if swapped else (gpu, tpu)))
    with contextlib.suppress(InputError):
        shown(gpu, state(own / "third.json", every(lines(2), 50)), (tpu, state(own / "second.json", other)))


@SETTINGS
@given(st.binary(max_size=60), st.sampled_from([b"", b":W&B\1\2\0", struct.pack("<Q", 2**62), b"\0" * 40]))
def test_a_file_of_anything(own: Path, data: bytes, head: bytes) -> None:
    for name in (EVENT, "x.wandb", "x.csv", "x.json", "x.log"):
        (own / name).write_bytes(head + data)
        with contextlib.suppress(InputError):
            read(own / name)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    for number, name in enumerate(("trainer_state.json", EVENT, "run-1.wandb", "metrics/loss")):
        folder = tmp_path / str(number)
        (folder / name).parent.mkdir(parents=True)
        os.mkfifo(folder / name)
        for path in (folder, folder / name):
            with pytest.raises(InputError):
                one(path, tmp_path)
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        with pytest.raises(InputError):
            one(folder, tmp_path)
    run = mlflow(tmp_path / "run", HISTORY)
    (run / "params").mkdir()
    os.mkfifo(run / "params/weight_decay")
    (run / "params/max_grad_norm").symlink_to("/dev/zero")
    assert one(run, tmp_path).settings == {}


def test_what_lies_beside_a_log_is_no_more_than_settings(tmp_path: Path) -> None:
    path = state(tmp_path / "out/trainer_state.json", lines())
    os.mkfifo(path.parent / "adapter_config.json")
    (path.parent / "checkpoint-²").symlink_to("/nowhere")
    with (path.parent / "adapter_model.safetensors").open("wb") as file:
        file.truncate(2**40)
    assert one(path, tmp_path).settings == {}


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # the number of a memo of 32 GB
        b"\x80\x04N" + b"p2000000000\n.",
        b"\x80\x04}(" + b")" + b"\x85" * 1_000_000 + b"Nu.",  # a key whose hash overflows the stack
        pickle.dumps("x" * 100)[:-5],
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    ],
    ids=["memo", "memo as text", "deep key", "cut off", "long"],
)
def test_a_pickle_that_takes_the_memory_or_the_stack_is_left(tmp_path: Path, pickled: bytes) -> None:
    path = state(tmp_path / "out/trainer_state.json", lines())
    with zipfile.ZipFile(path.parent / "training_args.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("training_args/data.pkl", pickled)
    assert one(path, tmp_path).settings == {}


def test_a_record_of_many_parts_is_read_in_time() -> None:
    parts = [struct.pack("<IHB", 0, 32761, MIDDLE) + bytes(32761)] * 1500
    parts += [(struct.pack("<IHB", 0, 1, MIDDLE) + b"\0") * 4096] * 60
    started = time.process_time()
    assert not [*leveldb_records(b"".join(parts), 0)]
    assert time.process_time() - started < 10


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.binary(max_size=9)), max_size=9), st.integers(0, 9))
def test_frames_of_anything(frames: list[tuple[int, int, bytes]], start: int) -> None:
    data = b"".join(struct.pack("<IHB", 0, size, kind) + held for kind, size, held in frames)
    for read_records in (lambda: leveldb_records(data, start), lambda: tensorflow_records(data)):
        with contextlib.suppress(Cut):
            assert all(isinstance(record, bytes) for record in read_records())
