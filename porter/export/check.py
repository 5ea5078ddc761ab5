"""`--check`: the logits of the trained Tunix model, and of what was exported, on the same tokens.

The Tunix model gets the checkpoint's arrays as they are, without passing through PEFT's format, so that a mistake on
the way out cannot cancel itself. Everything is computed in float32 on the CPU, one model in memory at a time.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.facts.family import text_config
from .base import Base, open_base
from .checkpoint import Checkpoint, open_checkpoint
from .run import Exported, Options, export
from .trained import Adapters, read_adapters

# Rows and tokens of the comparison; its seed.
SHAPE, SEED = (2, 32), 0
# Largest difference of float32 logits, for each unit of the largest logit (of 1 at least).
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """Two computations of the same logits."""

    one: str
    other: str
    difference: float
    tolerance: float

    @property
    def equal(self) -> bool:
        return self.difference <= self.tolerance


@dataclass(frozen=True)
class Checked:
    """`effect`: how far training moved a logit; `tokens` were compared."""

    rows: tuple[Row, ...]
    effect: float
    tokens: int

    @property
    def equal(self) -> bool:
        return all(row.equal for row in self.rows)


def check_export(checkpoint: str | Path, base: Path, exported: Exported, options: Options) -> Checked:
    """Compares Tunix, PEFT (an adapter, and a merged model's) and transformers (merged and whole models).

    A merged model in less than float32 may differ by half of what training changed: more means that rounding ate it.
    InputError where torch, peft or Tunix isn't installed.
    """
    missing = [name for name in ("torch", "peft", "transformers", "jax", "tunix") if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(f"--check needs {', '.join(missing)}", fix="pip install 'tpu-port[validate]'")
    read = open_checkpoint(checkpoint, options.step)
    model = open_base(base, (read.described or {}).get("family_table"))
    if not model.shards:
        raise InputError("holds no weights to compute with", base, fix="give the folder of the whole model")
    ids = np.random.default_rng(SEED).integers(3, text_config(model.config)["vocab_size"], SHAPE)
    written = Path(exported.output) if exported.output else None
    assert written is not None
    before = _torch_logits(base, ids)
    found: dict[str, np.ndarray] = {}
    if exported.kind == "model":
        found["Tunix"] = _tunix_logits(model, read, None, ids)
    else:
        adapters = read_adapters(read, model.family, model.config, options.told, allow_nan=options.allow_nan)
        found["Tunix"] = _tunix_logits(model, read, adapters, ids)
        with tempfile.TemporaryDirectory() as aside:
            adapter = written
            if exported.kind == "merged":
                adapter = Path(aside) / "adapter"
                export(checkpoint, base, adapter, replace(options, merged=False, dtype=None, max_shard_size=None))
            found["PEFT"] = _torch_logits(base, ids, adapter)
    if exported.kind != "adapter":
        found["transformers"] = _torch_logits(written, ids)
    truth = found.pop("Tunix")
    effect, scale = float(np.abs(truth - before).max()), max(1.0, float(np.abs(truth).max()))
    rows = []
    for name, logits in found.items():
        rounded = name == "transformers" and _narrow(written)
        tolerance = max(effect / 2, TOLERANCE * scale) if rounded else TOLERANCE * scale
        rows.append(Row("Tunix", name, float(np.abs(logits - truth).max()), tolerance))
    return Checked(tuple(rows), effect, ids.size)


def _torch_logits(folder: Path, ids: np.ndarray, adapter: Path | None = None) -> np.ndarray:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",  # others leave out the caps on Gemma 2's attention logits
        local_files_only=True,
    )
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(adapter))
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(ids)).logits.float().numpy()
    del model
    gc.collect()
    return np.asarray(logits)


def _tunix_logits(base: Base, checkpoint: Checkpoint, adapters: Adapters | None, ids: np.ndarray) -> np.ndarray:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from ..runtime.models.load_model import load_model

    mesh = jax.make_mesh(
        (1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
    )
    with mesh, jax.default_matmul_precision("highest"):
        model = load_model(base.path, mesh, dtype=jnp.float32)
        model = _adapted(model, adapters) if adapters is not None else model
        kind = nnx.LoRAParam if adapters is not None else nnx.Param
        for path, parameter in nnx.to_flat_state(nnx.state(model, kind)):
            value = checkpoint.read("/".join(map(str, path))).astype(np.float32)
            parameter.set_value(jax.device_put(value, parameter.get_value().sharding))
            nnx.update(model, nnx.from_flat_state({path: parameter}))
        rows, length = ids.shape
        positions = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
        mask = np.tile(np.tril(np.ones((length, length), bool)), (rows, 1, 1))
        call = nnx.jit(lambda m, i, p, a: m(i, p, None, a)[0])
        logits = np.asarray(call(model, ids.astype(np.int32), positions, mask), np.float32)
    del model
    gc.collect()
    return logits


def _adapted(model: Any, adapters: Adapters) -> Any:
    """The model with an adapter of the checkpoint's rank and scale on every weight that has one there."""
    import qwix
    from flax import nnx

    rules = {}
    for site in adapters.sites:
        rank = adapters.checkpoint.shape(f"{site.path}/{site.weight}_lora_a")[-1]
        rules[site.path] = qwix.LoraRule(
            module_path=re.escape(site.path), rank=rank, alpha=site.alpha / site.rank * rank
        )
    provider = qwix.LoraProvider(list(rules.values()))
    return qwix.apply_lora_to_model(model, provider, rngs=nnx.Rngs(0), **model.get_model_input())


def _narrow(folder: Path) -> bool:
    """Whether a model is stored in less than float32."""
    return any(tensor.dtype in ("BF16", "F16") for tensor in open_base(folder).tensors.values())
