"""Merged models: the numbers, what stays byte for byte, what an interruption leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from porter.errors import InputError
from porter.export import merging
from porter.export.adapter import is_interrupted
from porter.export.base import open_base, read_shard
from porter.export.run import Options, export
from tests.export import made

MERGED = Options(merged=True)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def tensors(folder: Path) -> dict[str, np.ndarray]:
    return {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


def deltas() -> dict[str, np.ndarray]:
    """Hugging Face name → B·A·alpha/r in float64, from Tunix's arrays by einsum rather than by the exporter."""
    held, found = made.arrays(), {}
    for site in made.sites():
        a, b = (held[f"{site.path}/{site.weight}_lora_{x}"].astype(np.float64) for x in "ab")
        whole = np.tensordot(a, b, 1) * site.alpha / site.rank
        inputs = int(np.prod(a.shape[:-1]))
        for block in site.blocks:
            own = whole.reshape(inputs, site.slots, -1)[:, block.slot] if site.fused else whole.reshape(inputs, -1)
            found[f"{block.hf}.weight"] = own.T
    return found


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_every_weight_gets_its_delta_and_the_rest_stays(dtype: Any, tmp_path: Path) -> None:
    base = made.base(tmp_path / "base", dtype=dtype)
    exported = export(made.run(tmp_path / "run"), base, tmp_path / "out", MERGED)
    before, after, added = tensors(base), tensors(tmp_path / "out"), deltas()
    assert len(added) == 14 and set(added) == set(exported.retained)
    for name, value in before.items():
        if name not in added:
            assert after[name].tobytes() == value.tobytes()
            continue
        exact = value.astype(np.float64) + added[name]
        rounding = {"float32": 2**-24, "bfloat16": 2**-8, "float16": 2**-11}[str(np.dtype(dtype))]
        assert np.abs(after[name].astype(np.float64) - exact).max() <= 1.01 * rounding * np.abs(exact).max() + 1e-8
        assert np.abs(after[name].astype(np.float64) - value.astype(np.float64)).max() > 1e-3


def test_headers_and_everything_beside_are_the_bases_own(tmp_path: Path) -> None:
    base, out = made.base(tmp_path / "base"), tmp_path / "out"
    export(made.run(tmp_path / "run"), base, out, MERGED)
    for file in base.iterdir():
        if file.suffix == ".safetensors":
            assert read_shard(out / file.name).header == read_shard(file).header
        else:
            assert (out / file.name).read_bytes() == file.read_bytes()
    assert {f.name for f in out.iterdir()} == {f.name for f in base.iterdir()} | {"tpu_port_export.json"}


def test_other_dtypes_and_shards_when_asked(tmp_path: Path) -> None:
    base, run = made.base(tmp_path / "base"), made.run(tmp_path / "run")
    export(run, base, tmp_path / "wide", Options(merged=True, dtype="F32"))
    assert {value.dtype for value in tensors(tmp_path / "wide").values()} == {np.dtype(np.float32)}
    assert json.loads((tmp_path / "wide" / "config.json").read_text())["dtype"] == "float32"
    export(run, base, tmp_path / "small", Options(merged=True, max_shard_size=60_000))
    same, small = tmp_path / "same", open_base(tmp_path / "small")
    export(run, base, same, MERGED)
    assert len(small.shards) > 4 and all(s.size < 70_000 for s in small.shards[1:])
    one, other = tensors(same), tensors(tmp_path / "small")
    assert one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
    assert json.loads((tmp_path / "small" / "config.json").read_text())["dtype"] == "bfloat16"


def test_bfloat16_rounds_as_ml_dtypes_does() -> None:
    rng = np.random.default_rng(0)
    values = np.frombuffer(rng.bytes(4 << 16), np.float32).reshape(256, 256).copy()
    values[~np.isfinite(values)] = np.inf
    found = merging.narrowed(values, "BF16").view(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        assert found.tobytes() == values.astype(ml_dtypes.bfloat16).tobytes()
    back, _ = merging.merge(found.view(np.uint8), "BF16", "F32", None, None)
    assert np.array_equal(back.view(np.float32), found.astype(np.float32))


@pytest.mark.parametrize("share, error", [(0.05, 0.03), (0.015, 0.11), (0.005, 0.32), (0.0015, 0.71)])
def test_what_rounding_keeps_of_a_small_delta(share: float, error: float) -> None:
    """The curve of |delta|/|W| against the delta's error in bfloat16."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.02, (2048, 256)).astype(ml_dtypes.bfloat16)
    b, a = rng.normal(size=(2048, 16)).astype(np.float32), rng.normal(size=(16, 256)).astype(np.float32)
    b *= share * 0.02 / (b @ a).std()
    _, kept = merging.merge(weights.view(np.uint8), "BF16", "BF16", b, a)
    assert kept.kept == pytest.approx(1 - error, abs=0.04)
    assert kept.size == pytest.approx(share, rel=0.1)


def test_a_delta_that_rounding_eats_is_said(tmp_path: Path) -> None:
    run = made.run(tmp_path / "run", made.arrays(scale=0.004))
    exported = export(run, made.base(tmp_path / "base"), tmp_path / "out", MERGED)
    assert len(exported.little) == 14
    kept = [exported.retained[name].kept for name in exported.little]
    assert kept == sorted(kept) and kept[-1] < 0.8


def test_a_text_model_inside_a_multimodal_one(tmp_path: Path) -> None:
    """PEFT and transformers 5 say model.language_model.layers, a checkpoint of 2025 language_model.model.layers."""
    base = made.base(tmp_path / "base", shards=1, config=made.MULTIMODAL)
    renamed = {n.replace("model.language_model.", "language_model.model."): v for n, v in tensors(base).items()}
    vision = {"vision_tower.patch.weight": np.ones((3, 2, 2, 2), ml_dtypes.bfloat16)}
    save_file({**renamed, **vision}, base / "model.safetensors", metadata={"format": "pt"})
    made.step(tmp_path / "run" / "5", made.arrays(made.MULTIMODAL))
    made.describe(tmp_path / "run", made.MULTIMODAL)
    exported = export(tmp_path / "run", base, tmp_path / "out", MERGED)
    export(tmp_path / "run", base, tmp_path / "adapter")
    after = tensors(tmp_path / "out")
    changed = {name for name, value in tensors(base).items() if value.tobytes() != after[name].tobytes()}
    assert changed == set(exported.retained) and len(changed) == 14
    assert all(name.startswith("language_model.model.layers.") for name in changed)
    first = "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight"
    assert first in load_file(tmp_path / "adapter" / "adapter_model.safetensors")


def test_a_whole_model(tmp_path: Path) -> None:
    base, held = made.base(tmp_path / "base"), made.whole()
    expected = {}
    for tensor in made.family().tensors(made.CONFIG):
        part = held[tensor.tunix][tensor.slot] if tensor.slots > 1 else held[tensor.tunix]
        expected[tensor.hf] = part.transpose(np.argsort(tensor.order)).reshape(tensor.shape_hf)
    made.step(tmp_path / "run" / "3", held)
    exported = export(tmp_path / "run", base, tmp_path / "out")
    found = tensors(tmp_path / "out")
    assert exported.kind == "model"
    assert expected.keys() == found.keys() and all(np.array_equal(found[k], expected[k]) for k in found)
    export(tmp_path / "run", base, tmp_path / "narrow", Options(dtype="BF16"))
    assert read_shard(tmp_path / "narrow" / "model-00001-of-00003.safetensors").header == (
        read_shard(base / "model-00001-of-00003.safetensors").header
    )


def test_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, run, out = made.base(tmp_path / "base"), made.run(tmp_path / "run"), tmp_path / "out"
    export(run, base, tmp_path / "whole", MERGED)
    export(run, base, out, MERGED)
    assert files(out) == files(tmp_path / "whole")  # done again over itself: nothing changes
    second = out / "model-00002-of-00003.safetensors"
    times = {file: file.stat().st_mtime_ns for file in out.glob("*.safetensors")}
    second.write_bytes(second.read_bytes()[:-9])
    export(run, base, out, MERGED)
    assert files(out) == files(tmp_path / "whole")
    assert [file.name for file, t in times.items() if file.stat().st_mtime_ns != t] == [second.name]
    held = bytearray(second.read_bytes())
    held[len(held) // 3] ^= 1  # of the same size, one bit turned
    second.write_bytes(held)
    export(run, base, out, MERGED)
    assert files(out) == files(tmp_path / "whole")
    other = made.run(tmp_path / "other", made.arrays(scale=0.06))
    with pytest.raises(InputError, match="isn't empty"):
        export(other, base, out, MERGED)
    assert files(out) == files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        (("adapter_config.json.partial",), False),
        (("adapter_config.json.partial", "adapter_model.safetensors.partial"), False),
        (("adapter_config.json.partial", "adapter_model.safetensors"), False),
        # killed twice, the second time while it wrote the weights anew
        (("adapter_config.json.partial", "adapter_model.safetensors", "adapter_model.safetensors.partial"), False),
        (("adapter_config.json", "adapter_model.safetensors"), True),
        (("adapter_model.safetensors", "adapter_model.safetensors.partial"), True),
        (("adapter_config.json.partial", "mine.txt"), True),
    ],
)
def test_what_killed_exports_of_adapters_leave(names: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    assert is_interrupted(tmp_path) is not whole


KILLED = """
import os, random, shutil, signal, sys, time
from pathlib import Path
from porter.export.run import Options, export
import porter.export.adapter, tensorstore, numpy
run, base, out, seed = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])

def child(folder):
    process = os.fork()
    if not process:
        try:
            export(run, base, folder, Options(merged=sys.argv[5] == "merged"))
            os._exit(0)
        finally:
            os._exit(1)
    return process

begin = time.monotonic()
assert os.waitpid(child(out / "whole"), 0)[1] == 0
whole = time.monotonic() - begin
draw = random.Random(seed)
killed = 0
for trial in range(20):
    folder, died, limit = out / str(trial), False, whole
    while not died or draw.random() < 0.5:
        process = child(folder)
        time.sleep(draw.uniform(0, limit))
        os.kill(process, signal.SIGKILL)
        died |= os.waitpid(process, 0)[1] == signal.SIGKILL
        if (folder / "adapter_config.json").exists() or not died:  # it was done before
            shutil.rmtree(folder)
            limit, died = limit / 2, False
    killed += died
    assert os.waitpid(child(folder), 0)[1] == 0, trial
print(killed)
"""


@pytest.mark.parametrize("what", ["adapters", "merged", "whole"])
def test_killed_at_random_moments(what: str, tmp_path: Path) -> None:
    full = what == "whole"
    config = {**made.CONFIG, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 3}
    base, out = made.base(tmp_path / "base", shards=4, config=config), tmp_path / "out"
    made.step(tmp_path / "run" / "5", made.whole(config) if full else made.arrays(config))
    made.describe(tmp_path / "run", config, None if full else made.LORA)
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(base), str(out), "7", what]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 20
    whole = files(out / "whole")
    for trial in range(20):
        assert files(out / str(trial)) == whole, trial
