"""A trainer's step under the TPU compiler: what is known before, and what the compiler says of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .absent import BatchShapes
from .config import period
from .hlo import collectives, out_of_memory
from .shapes import by_axes, bytes_of, count_of


def compiled(step: Any, trainer: Any, batch: Any, say: Callable[[str], None], dump: str | None) -> dict[str, Any]:
    """Lower and compile a jitted `step`; memory and time of it, or how much memory it lacks."""
    import jax

    started = time.monotonic()
    lowered = step.lower(trainer.model, trainer.optimizer, batch).lowered
    result: dict[str, Any] = {"trace_seconds": round(time.monotonic() - started, 2)}
    say("compiling")
    started = time.monotonic()
    try:
        program = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        short = out_of_memory(str(error))
        if short is None:
            raise
        result |= {"wanted_memory": short[0], "short_of_memory": short[0] - short[1]}
    else:
        result |= measured(program, trainer, batch, dump)
    return {**result, "compile_seconds": round(time.monotonic() - started, 2)}


def described(trainer: Any, batch: Any, shapes: BatchShapes | None, sizes: dict[str, Any]) -> dict[str, Any]:
    """What is known of a trainer's step without compiling it. `sizes`: the whole model's, where layers are cut."""
    import jax
    from flax import nnx

    tokens = tokens_of(batch)
    (rows, length), mesh = tokens.shape, tokens.sharding.mesh
    micro_batches = trainer.config.get_with_default("gradient_accumulation_steps", 1)
    lora = nnx.state(trainer.model, nnx.LoRAParam)
    weights = nnx.state(trainer.model, nnx.filterlib.All(nnx.Param, nnx.filterlib.Not(nnx.LoRAParam)))
    own = nnx.state(trainer.optimizer, nnx.optimizer.OptState)
    return {
        "devices": mesh.size,
        "mesh": {name: int(size) for name, size in mesh.shape.items()},
        "batch_rows": rows,
        "length": length,
        "micro_batches": micro_batches,
        "effective_rows": shapes.effective if shapes else rows * micro_batches,
        "steps": trainer.config.max_steps,
        "packing": bool(shapes and shapes.packing),
        "layers": len(trainer.model.layers),
        "all_layers": sizes.get("layers", len(trainer.model.layers)),
        "period": period(sizes) if sizes else 1,
        "parameters": count_of(weights),
        "trainable": count_of(lora) or count_of(weights),
        "lora_tensors": len(jax.tree.leaves(lora)),
        "model": trainer.model.porter.id,
        "family": trainer.model.porter.family.name,
        "sizes": sizes,
        "weights_returned": getattr(trainer.model, "lora", None) is None,
        "query_block": max((getattr(part, "query_block", 0) for _, part in trainer.model.iter_modules()), default=0),
        "varying": list(shapes.varying) if shapes else [],
        "state": {
            "weights": by_axes(weights),
            "adapters": by_axes(lora),
            "optimizer": by_axes(own),
        },
    }


def measured(compiled: Any, trainer: Any, batch: Any, dump: str | None) -> dict[str, Any]:
    """The compiler's own figures, for one device."""
    from flax import nnx

    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    text = compiled.as_text()
    if dump:
        Path(dump).write_text(text, encoding="utf-8")
    adapters = bytes_of(nnx.state(trainer.model, nnx.LoRAParam))
    sharded = tokens_of(batch)
    rows, length = sharded.sharding.shard_shape(sharded.shape)
    tp = dict(sharded.sharding.mesh.shape).get("tp", 1)
    return {
        "memory": {
            "peak": int(memory.peak_memory_in_bytes),
            "weights": bytes_of(nnx.state(trainer.model)) - adapters,
            "adapters": adapters,
            "optimizer": bytes_of(nnx.state(trainer.optimizer, nnx.optimizer.OptState)),
            "arguments": int(memory.argument_size_in_bytes),
            "outputs": int(memory.output_size_in_bytes),
            "aliased": int(memory.alias_size_in_bytes),
            "temporary": int(memory.temp_size_in_bytes),
            "code": int(memory.generated_code_size_in_bytes),
            "logits": rows * length * -(-_vocab(trainer.model) // tp) * 4,
        },
        "flops": float(cost.get("flops", 0.0)),
        "bytes": float(cost.get("bytes accessed", 0.0)),
        "seconds": float(cost.get("optimal_seconds", 0.0)),
        "collectives": collectives(text),
    }


def tokens_of(batch: Any) -> Any:
    """The first array of a batch that is (rows, tokens): packed ones have numbers by the row, too."""
    import jax

    return next(leaf for leaf in jax.tree.leaves(batch) if len(leaf.shape) == 2)


def _vocab(model: Any) -> int:
    config = model.config
    return int(getattr(config, "num_embed", 0) or getattr(config, "vocab_size", 0))
