"""Exports against the real libraries: PEFT adapter → Tunix → Orbax → PEFT, and the logits of all who compute them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
import peft
import pytest
import qwix
import torch
from flax import nnx
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM
from tunix.sft.checkpoint_manager import CheckpointManager

from porter.export.check import check_export
from porter.export.checkpoint import open_checkpoint
from porter.export.run import Options, export
from porter.export.trained import Told
from porter.runtime.facts import sidecar
from porter.runtime.lora.apply_lora import adapters, apply_peft, separate_kv
from porter.runtime.models.load_model import load_model
from porter.runtime.saving.adapters import load_adapter, save_adapter
from porter.runtime.saving.checkpoints import fresh_dir, resume_dir
from tests import tiny as models
from tests.real.long import mostly_long
from tests.real.lora import few, logits, random_adapter, train

pytestmark = pytest.mark.real

IDS = np.random.default_rng(0).integers(8, models.VOCAB - 16, (2, 16)).astype(np.int32)
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of another test's run gets this test's sidecar."""
    for name in ("_model", "_folder", "_written"):
        monkeypatch.setattr(sidecar, name, None)


def save(model: nnx.Module, folder: Path, step: int = 5, lora: bool = True) -> Path:
    """What PeftTrainer saves, at the place where a port saves it."""
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    manager = CheckpointManager(fresh_dir(folder), options=options)
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.LoRAParam if lora else nnx.Param)
    assert manager.save(step, model, optimizer, save_only_lora_params=lora, force=True)
    manager.close()
    return folder


def torch_logits(model: Any) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(model.eval()(torch.from_numpy(IDS).long()).logits.numpy())


# What test_lora.py shows of every layout goes through Orbax for one of each kind of table.
LAYOUTS = ("gemma", "gemma3", "gemma4_ple", "llama3", "qwen2")


@pytest.mark.parametrize("name", mostly_long(models.MODELS, short=LAYOUTS))
def test_peft_to_tunix_to_orbax_to_peft(name: str, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    mesh = tiny_mesh(2, 1)
    settings = {"r": 3, "lora_alpha": 9, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    wrapped, state = random_adapter(name, settings)
    base = tiny(name, **few(name))
    model = load_adapter(apply_peft(load_model(base, mesh), settings, mesh, seed=0), state)
    run = save(model, tmp_path / "run")

    adapter = export(run, base, tmp_path / "adapter")
    merged = export(run, base, tmp_path / "merged", Options(merged=True))

    back = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert back.keys() == state.keys()
    assert all(np.array_equal(back[key], state[key]) and back[key].dtype == np.float32 for key in state)
    assert adapter.linears == merged.linears == len(state) // 2
    loaded = peft.PeftModel.from_pretrained(models.hf_model(name, **few(name)), tmp_path / "adapter")
    assert all(torch.equal(value, wrapped.state_dict()[key]) for key, value in loaded.state_dict().items())
    with mesh:
        tunix = logits(model, IDS)
    assert np.abs(torch_logits(loaded) - tunix).max() < 1e-4
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32, attn_implementation="eager")
    assert np.abs(torch_logits(whole) - tunix).max() < 1e-4
    assert np.abs(torch_logits(loaded.unload()) - tunix).max() > 1e-1  # the adapter is seen at all


def test_what_a_run_of_the_trainer_leaves(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    """The folder first, then the model: a script may come in this order, too."""
    mesh, base = tiny_mesh(1, 1), tiny("gemma3", num_hidden_layers=2)
    folder = fresh_dir(tmp_path / "run")
    model = apply_peft(load_model(base, mesh), {"r": 2, "lora_alpha": 8, "target_modules": SEVEN}, mesh, seed=0)
    optimizer = optax.chain(separate_kv(model), optax.adamw(1e-2))
    train(model, mesh, optimizer, steps=2, checkpoint_root_directory=folder)
    exported = export(tmp_path / "run", base, tmp_path / "adapter")
    assert exported.step == 2 and not exported.notes
    assert resume_dir(folder) == folder
    save_adapter(model, tmp_path / "saved")
    one, other = (json.loads((tmp_path / f / "adapter_config.json").read_text()) for f in ("saved", "adapter"))
    assert one == other
    saved, found = (load_file(tmp_path / f / "adapter_model.safetensors") for f in ("saved", "adapter"))
    assert found.keys() == saved.keys() and all(np.array_equal(found[k], saved[k]) for k in found)
    assert all(value.any() for value in found.values())


def test_a_whole_model_of_every_layout(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    for name in ("gemma4_ple", "llama3", "qwen2"):
        mesh = tiny_mesh(2, 1)
        run = save(load_model(tiny(name), mesh), tmp_path / f"run-{name}", lora=False)
        exported = export(run, tiny(name), tmp_path / name)
        assert exported.kind == "model" and exported.step == 5
        for file in tiny(name).glob("model*.safetensors"):
            assert (tmp_path / name / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("ocdbt, zarr3", [(True, False), (False, False), (True, True), (False, True)])
def test_every_format_of_orbax(
    ocdbt: bool, zarr3: bool, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    mesh = tiny_mesh(2, 4)
    base = load_model(tiny("gemma3", num_hidden_layers=2), mesh)
    model = apply_peft(base, {"r": 4, "target_modules": SEVEN, "init_lora_weights": False}, mesh, seed=0)
    state = nnx.state(model, nnx.LoRAParam)
    saver = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3))
    saver.save(tmp_path / "saved", args=ocp.args.PyTreeSave(state))
    saver.close()
    read = open_checkpoint(tmp_path / "saved")
    held = {"/".join(map(str, path)): np.asarray(leaf.get_value()) for path, leaf in nnx.to_flat_state(state)}
    assert set(read.names) == set(held)
    assert all(np.array_equal(read.read(name), value) for name, value in held.items())


def test_a_script_of_somebody_else(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    """Qwix's own provider: K and V share lora_A, and nothing says what was trained."""
    mesh, folder = tiny_mesh(2, 1), tiny("gemma3", num_hidden_layers=2)
    provider = qwix.LoraProvider(module_path=".*q_einsum|.*kv_einsum|.*up_proj", rank=4, alpha=6.0)
    base = load_model(folder, mesh)
    with mesh:
        model = qwix.apply_lora_to_model(base, provider, rngs=nnx.Rngs(0), **base.get_model_input())
    for path, _, a, b in adapters(model):
        for half in (a, b):
            value = half.get_value()
            noise = 0.1 * jax.random.normal(jax.random.key(len(path) + value.size), value.shape, value.dtype)
            half.set_value(jax.device_put(noise, value.sharding))
    run = save(model, tmp_path / "run")
    (tmp_path / "run" / sidecar.NAME).unlink()
    told = Options(told=Told(rank=4, alpha=6.0, targets=("q_proj", "k_proj", "v_proj", "up_proj")))
    exported = export(run, folder, tmp_path / "adapter", told)
    assert any("share one lora_A" in note for note in exported.notes)
    wrapped = peft.PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), tmp_path / "adapter"
    )
    with mesh:
        assert np.abs(torch_logits(wrapped) - logits(model, IDS)).max() < 1e-4


def test_check_sees_what_is_right_and_what_is_wrong(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    mesh, folder = tiny_mesh(2, 1), tiny("gemma3", num_hidden_layers=2)
    settings = {"r": 2, "lora_alpha": 4, "target_modules": SEVEN, "init_lora_weights": False}
    run = save(apply_peft(load_model(folder, mesh), settings, mesh, seed=0), tmp_path / "run")
    exported = export(run, folder, tmp_path / "merged", Options(merged=True))
    checked = check_export(run, folder, exported, Options(merged=True))
    assert checked.equal and [row.other for row in checked.rows] == ["PEFT", "transformers"]
    assert max(row.difference for row in checked.rows) < 1e-4 < checked.effect
    # The neighbour: the base itself in place of the merged model.
    wrong = export(run, folder, tmp_path / "again", Options(merged=True))
    for file in folder.glob("*.safetensors"):
        (tmp_path / "again" / file.name).write_bytes(file.read_bytes())
    assert not check_export(run, folder, wrong, Options(merged=True)).equal
