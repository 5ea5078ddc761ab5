"""Bad input: one clear error each, before anything is written."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from porter.errors import InputError
from porter.export import run as running
from porter.export.run import Options, export
from porter.export.trained import Told
from porter.runtime.facts import sidecar
from tests.export import made

MERGED = Options(merged=True)
Q = "layers/0/attn/q_einsum/w_lora"
SECOND = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return made.base(tmp_path / "base")


def refused(run: Path, base: Path, out: Path, options: Options = MERGED) -> str:
    """The error's text; `out` is as it was."""
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} if out.exists() else None
    with pytest.raises(InputError) as caught:
        export(run, base, out, options)
    if before is None:
        assert not out.exists()
    else:
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    return str(caught.value)


def change(file: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document))


# The checkpoint.


@pytest.mark.parametrize("options", [Options(), MERGED])
def test_adapters_that_are_not_what_the_run_says(options: Options, base: Path, tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, np.ndarray], str]] = []
    held = made.arrays()
    cases.append(("half", {k: v for k, v in held.items() if k != f"{Q}_b"}, "one half of the adapter is missing"))
    cases.append(("none", {k: v for k, v in held.items() if not k.startswith(Q)}, "q_einsum/w has no adapter in it"))
    few = {"target_modules": ["q_proj", "up_proj"], "r": 3}
    cases.append(("more", made.arrays(lora=few), "has no adapter in it"))
    stranger = {f"layers/7/attn/q_einsum/w_lora_{x}": held[f"{Q}_{x}"] for x in "ab"}
    cases.append(("stranger", held | stranger, "no such linear"))
    rank = made.arrays(lora={**made.LORA, "r": 4})
    cases.append(("rank", rank, "has rank 4, the run's tpu_port.json says 3"))
    turned = held | {f"{Q}_a": held[f"{Q}_a"].T.copy(), f"{Q}_b": held[f"{Q}_b"].transpose(2, 1, 0).copy()}
    cases.append(("turned", turned, "they are transposed"))
    cases.append(("whole", {"embedder/input_embedding": np.zeros((512, 64), np.float32)}, "holds none"))
    for name, arrays, message in cases:
        assert message in refused(made.run(tmp_path / name, arrays), base, tmp_path / "out", options), name


def test_nan_is_refused_unless_told(base: Path, tmp_path: Path) -> None:
    held = made.arrays()
    held[f"{Q}_b"][0, 0, 0] = np.nan
    run = made.run(tmp_path / "run", held)
    assert "layers/0/attn/q_einsum holds NaN" in refused(run, base, tmp_path / "out", Options())
    export(run, base, tmp_path / "out", Options(allow_nan=True))
    found = load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert np.isnan(found["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"]).sum() == 1


def test_checkpoints_that_are_not_there_or_not_finished(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    assert "no such checkpoint" in refused(tmp_path / "nowhere", base, out)
    assert "no step 6; it has 5" in refused(run, base, out, Options(step=6))
    assert "a Hugging Face folder" in refused(base, base, out)
    writing = run / "8.orbax-checkpoint-tmp"
    shutil.copytree(run / "5", writing)
    assert "still being written" in refused(writing, base, out)
    assert "step 8 was never finished" in refused(run, base, out, Options(step=8))
    assert export(run, base, out).step == 5
    (run / "9" / "model_params").mkdir(parents=True)
    assert "incomplete" in refused(run, base, tmp_path / "other")
    shutil.rmtree(run / "9")
    shutil.rmtree(run / "5" / "model_params" / "d")
    assert "missing or damaged" in refused(run, base, tmp_path / "other")


def test_a_chunk_that_is_gone_is_no_zero(base: Path, tmp_path: Path) -> None:
    run = made.run(tmp_path / "run", ocdbt=False)
    name = f"{Q.replace('/', '.')}_a.value"
    (run / "5" / "model_params" / name / "0.0").unlink()
    assert f"{Q}_a can't be read" in refused(run, base, tmp_path / "out")


def test_a_run_that_says_nothing(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    (run / sidecar.NAME).unlink()
    targets = made.SEVEN

    def told(*what: Any) -> Options:
        return Options(told=Told(*what))

    assert "give --alpha and --rank" in refused(run, base, out, Options())
    assert "ranks 3, 6" in refused(run, base, out, told(None, 6.0))
    assert "has rank 3, not 4" in refused(run, base, out, told(4, 6.0))
    assert "--targets and the checkpoint disagree" in refused(run, base, out, told(3, 6.0, ("q_proj",)))
    assert "matches no linear" in refused(run, base, out, told(3, 6.0, ("qproj",)))
    export(run, base, out, told(3, 6.0, targets))
    export(made.run(tmp_path / "described"), base, tmp_path / "same")
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        one, other = ((folder / name).read_bytes() for folder in (out, tmp_path / "same"))
        assert one == other.replace(b"tiny/gemma", str(base).encode()), name


def test_what_the_user_says_against_what_the_run_says(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    assert "--alpha 16: the run was trained with 6" in refused(run, base, out, Options(told=Told(alpha=16)))
    assert "--rank 8: the run was trained with 3" in refused(run, base, out, Options(told=Told(rank=8)))
    assert "--targets" in refused(run, base, out, Options(told=Told(targets=("q_proj",))))
    export(run, base, out, Options(told=Told(3, 6, tuple(reversed(made.SEVEN)))))
    change(run / sidecar.NAME, lambda d: d.update(format=99))
    assert "format 99" in refused(run, base, tmp_path / "other")
    (run / sidecar.NAME).write_text("{")
    assert "is damaged" in refused(run, base, tmp_path / "other")


# The base.


def test_a_resized_embedding_is_written_where_it_was_trained(base: Path, tmp_path: Path) -> None:
    held = made.whole()
    held["embedder/input_embedding"] = held["embedder/input_embedding"][:-8]
    run = made.run(tmp_path / "run", held)
    made.describe(run, lora=None)
    said = refused(run, base, tmp_path / "out")
    assert "the base model wants" in said
    assert "rt.save_model" in said


def test_another_base(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    wide = made.base(tmp_path / "wide", config={**made.CONFIG, "hidden_size": 128})
    assert "hidden_size differ" in refused(run, wide, out)
    assert "the base model wants" in refused(run, wide, out, Options(merged=True, force=True))
    change(base / "config.json", lambda d: d.update(rms_norm_eps=1e-6, transformers_version="9"))
    assert "trained from (tiny/gemma): rms_norm_eps differ" in refused(run, base, out)
    assert "exported all the same" in export(run, base, out, Options(force=True)).notes[0]


def test_shards_that_are_missing_or_damaged(base: Path, tmp_path: Path) -> None:
    run, out, shard = made.run(tmp_path / "run"), tmp_path / "out", base / SECOND
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    assert "is cut off" in refused(run, base, out)
    shard.write_bytes(whole + b"more")
    assert "4 bytes too many" in refused(run, base, out)
    shard.write_bytes(whole[:30])
    assert "cut off in its header" in refused(run, base, out)
    shard.write_bytes(whole.replace(b'"BF16"', b'"F32" ', 1))
    assert "its header is damaged" in refused(run, base, out)
    entry = b'"model.norm.weight":{"dtype":"BF16","shape":[64],"data_offsets":[0,128]}'
    header = b"{" + entry + b"," + entry + b"}"
    shard.write_bytes(len(header).to_bytes(8, "little") + header + bytes(128))
    assert "model.norm.weight is there twice" in refused(run, base, out)
    shard.unlink()
    assert "this shard is missing" in refused(run, base, out)
    (base / "config.json").unlink()
    assert "config.json: no such file" in refused(run, base, out)
    assert "--base is no folder" in refused(run, tmp_path / "nowhere", out)


def test_an_index_that_lies(base: Path, tmp_path: Path) -> None:
    run, out, index = made.run(tmp_path / "run"), tmp_path / "out", base / INDEX
    whole = index.read_text()
    change(index, lambda d: d["weight_map"].update({"model.layers.9.w": SECOND}))
    assert "says that model.layers.9.w is in" in refused(run, base, out)
    index.write_text(whole)
    change(index, lambda d: d["weight_map"].update({"model.norm.weight": "../../etc/passwd"}))
    assert "outside the folder" in refused(run, base, out)
    index.write_text(whole)
    change(index, lambda d: d["weight_map"].pop("model.norm.weight"))
    assert "model.norm.weight" in refused(run, base, out)
    index.write_text(whole)
    tensors = load_file(base / SECOND)
    save_file({**tensors, "model.norm.weight": np.zeros(64, np.float32)}, base / SECOND)
    assert "model.norm.weight is in" in refused(run, base, out)


def test_a_base_without_a_tensor(base: Path, tmp_path: Path) -> None:
    run, gone = made.run(tmp_path / "run"), "model.layers.0.self_attn.q_proj.weight"
    for file in base.glob("*.safetensors"):
        save_file({name: value for name, value in load_file(file).items() if name != gone}, file)
    change(base / INDEX, lambda d: d["weight_map"].pop(gone))
    assert f"missing: {gone}" in refused(run, base, tmp_path / "out")
    assert f"missing: {gone}" in refused(run, base, tmp_path / "out", Options())


def test_values_that_float16_cannot_hold(base: Path, tmp_path: Path) -> None:
    held = made.arrays()
    held[f"{Q}_b"] *= 1e9
    run, narrow = made.run(tmp_path / "run", held), Options(merged=True, dtype="F16")
    with pytest.raises(InputError, match=r"layers\.0\.self_attn\.q_proj\.weight has values beyond float16's range"):
        export(run, base, tmp_path / "out", narrow)
    export(run, base, tmp_path / "wide", MERGED)


def test_quantised_or_unknown(base: Path, tmp_path: Path) -> None:
    run, config = made.run(tmp_path / "run"), base / "config.json"
    change(config, lambda d: d.update(quantization_config={"quant_method": "gptq"}))
    assert "quantised" in refused(run, base, tmp_path / "out")
    change(config, lambda d: d.pop("quantization_config") and d.update(architectures=["MambaForCausalLM"]))
    (run / sidecar.NAME).unlink()
    assert "no model family" in refused(run, base, tmp_path / "out")


# The output.


def test_outputs_that_are_not_ours(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for options in (MERGED, Options()):
        assert "isn't empty" in refused(run, base, out, options)
    export(run, base, out, Options(merged=True, force=True))
    assert (out / "thesis.txt").read_text() == "years of work"
    assert "is read" in refused(run, base, base, Options(merged=True, force=True))
    assert "is read" in refused(run, base, base / "merged")
    assert "the output is a file" in refused(run, base, base / "config.json")


def test_files_that_would_be_loaded_with_the_export(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    export(run, base, out)
    assert "holds adapter_config.json, adapter_model.safetensors" in refused(
        run, base, out, Options(merged=True, force=True)
    )
    export(run, base, tmp_path / "merged", MERGED)
    assert "which would be loaded" in refused(run, base, tmp_path / "merged", Options(force=True))
    other = Options(merged=True, force=True, max_shard_size=10**9)
    assert "model-00001-of-00003.safetensors" in refused(run, base, tmp_path / "merged", other)


def test_symbolic_links(base: Path, tmp_path: Path) -> None:
    run, real, link = made.run(tmp_path / "run"), tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert "the output is a symbolic link" in refused(run, base, link)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (SECOND, f"{SECOND}.partial", "adapter_model.safetensors"):
        (real / name).symlink_to(victim)
        options = Options(merged="adapter" not in name, force=True)
        assert "symbolic link" in refused(run, base, real, options)
        (real / name).unlink()
    assert victim.read_text() == "precious"
    # A base from the Hub's cache is links: that is fine.
    cached = tmp_path / "models--tiny--gemma" / "snapshots" / "0"
    cached.mkdir(parents=True)
    base.rename(cached.parents[1] / "blobs")
    for file in sorted((cached.parents[1] / "blobs").iterdir()):
        (cached / file.name).symlink_to(Path("../../blobs") / file.name)
    export(run, cached, tmp_path / "out", MERGED)
    assert not any(file.is_symlink() for file in (tmp_path / "out").iterdir())


def test_a_full_disk(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 10**5))
        for options in (MERGED, Options()):
            assert "the disk has 0.00 GB left, the export needs 0.0" in refused(run, base, out, options)

    def full(*ignored: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(InputError, match=r"the disk is full.*goes on from here"):
            export(run, base, out, MERGED)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(InputError, match="the disk is full"):
            export(run, base, out, MERGED)
    export(run, base, out, MERGED)
    export(run, base, tmp_path / "whole", MERGED)
    assert {f.name: f.read_bytes() for f in out.iterdir()} == {
        f.name: f.read_bytes() for f in (tmp_path / "whole").iterdir()
    }


def test_no_permission(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made.run(tmp_path / "run")
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "no permission" in refused(run, base, tmp_path / "out")
    assert "no permission" in refused(run, base, tmp_path / "new")


def test_two_at_once(base: Path, tmp_path: Path) -> None:
    run, out = made.run(tmp_path / "run"), tmp_path / "out"
    out.mkdir()
    with running._alone(out):
        assert "another export is writing" in refused(run, base, out)


def test_a_base_in_torchs_files_is_told_how_to_be_written_anew(base: Path, tmp_path: Path) -> None:
    for file in base.glob("*.safetensors*"):
        file.unlink()
    run = made.run(tmp_path / "run", made.arrays())
    assert "the whole model" in refused(run, base, tmp_path / "out")
    (base / "pytorch_model.bin").touch()
    assert "save_pretrained(FOLDER)" in refused(run, base, tmp_path / "out")
    export(run, base, tmp_path / "adapter", Options())
