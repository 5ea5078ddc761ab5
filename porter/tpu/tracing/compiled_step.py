"""A trainer's step under the TPU compiler: what is known before, and what the compiler says of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .config import period
from .hlo import collectives, out_of_memory
from .programs import Program
from .shapes import by_axes, bytes_of, count_of


def compiled_program(lowered: Any, say: Callable[[str], None], name: str, dump: str | None = None) -> dict[str, Any]:
    """Compile what is lowered; its memory, time and collectives on one device, or how much memory it lacks."""
    import jax

    say(name)
    started = time.monotonic()
    result: dict[str, Any] = {}
    program = None
    try:
        program = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        short = out_of_memory(str(error))
        if short is None:
            raise
        result |= {"wanted_memory": short[0], "short_of_memory": short[0] - short[1]}
    else:
        result |= measured(program, dump)
    return {**result, "compile_seconds": round(time.monotonic() - started, 2)}


def step_memory(trainer: Any, batch: Any) -> dict[str, int]:
    """Bytes of the training step's arguments by kind, and of one float32 copy of its logits, on one device."""
    from flax import nnx

    adapters = bytes_of(nnx.state(trainer.model, nnx.LoRAParam))
    sharded = tokens_of(batch)
    rows, length = sharded.sharding.shard_shape(sharded.shape)
    tp = dict(sharded.sharding.mesh.shape).get("tp", 1)
    return {
        "weights": bytes_of(nnx.state(trainer.model)) - adapters,
        "adapters": adapters,
        "optimizer": bytes_of(nnx.state(trainer.optimizer, nnx.optimizer.OptState)),
        "logits": rows * length * -(-_vocab(trainer.model) // tp) * 4,
    }


def described(trainer: Any, batch: Any, shapes: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    """What is known of a trainer's step without compiling it. `shapes`: the stand-in of its batches, None for others;
    `sizes`: the whole model's, where layers are cut."""
    import jax
    from flax import nnx

    tokens = tokens_of(batch)
    (rows, length), mesh = tokens.shape, tokens.sharding.mesh
    micro_batches = trainer.config.get_with_default("gradient_accumulation_steps", 1)
    lora = nnx.state(trainer.model, nnx.LoRAParam)
    weights = weights_of(trainer.model)
    own = nnx.state(trainer.optimizer, nnx.optimizer.OptState)
    reference = getattr(
        getattr(shapes, "_reference", None), "weights", None
    )  # the weights that GRPO keeps of the model as it was
    return {
        "devices": mesh.size,
        "mesh": {name: int(size) for name, size in mesh.shape.items()},
        "kind": getattr(shapes, "kind", "SFT"),
        "batch_rows": rows,
        "length": length,
        "micro_batches": micro_batches,
        "effective_rows": shapes.effective if shapes else rows * micro_batches,
        "own_batch": getattr(shapes, "own_batch", None),
        "documents": getattr(shapes, "documents", 1),
        "steps": trainer.config.max_steps,
        "packing": bool(getattr(shapes, "packing", False)),
        **layers_of(trainer.model, sizes),
        "period": period(sizes) if sizes else 1,
        "parameters": count_of(weights),
        "trainable": count_of(lora) or count_of(weights),
        "lora_tensors": len(jax.tree.leaves(lora)),
        "model": trainer.model.porter.id,
        "family": trainer.model.porter.family.name,
        "sizes": sizes,
        "weights_returned": getattr(trainer.model, "lora", None) is None,
        "query_block": max((getattr(part, "query_block", 0) for _, part in trainer.model.iter_modules()), default=0),
        "varying": list(getattr(shapes, "varying", ())),
        "state": {
            "weights": by_axes(weights),
            "adapters": by_axes(lora),
            "optimizer": by_axes(own),
            **({} if reference is None else {"reference": by_axes(reference)}),
        },
    }


def pass_described(program: Program, sizes: dict[str, Any], resident: int, *, own: bool) -> dict[str, Any]:
    """What is known of a pass beside the training step without compiling it. `resident`: bytes on one device that the
    run keeps and the pass isn't given."""
    return {
        "name": program.name,
        "model": program.model.porter.id,
        "family": program.model.porter.family.name,
        "own": own,
        "rows": program.rows,
        "length": program.length,
        "prompt": program.prompt,
        "completion": program.completion,
        "times": program.times,
        "count": program.count,
        "goes": program.goes,
        "cache": program.cache,
        "resident": resident,
        "given": program.held,
        **layers_of(program.model, sizes),
        "sizes": sizes,
        "weights": by_axes(weights_of(program.model)),
    }


def layers_of(model: Any, sizes: dict[str, Any]) -> dict[str, int]:
    return {"layers": len(model.layers), "all_layers": sizes.get("layers", len(model.layers))}


def weights_of(model: Any) -> Any:
    """A model's parameters but its adapters."""
    from flax import nnx

    return nnx.state(model, nnx.filterlib.All(nnx.Param, nnx.filterlib.Not(nnx.LoRAParam)))


def measured(compiled: Any, dump: str | None) -> dict[str, Any]:
    """The compiler's own figures, for one device."""
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    text = compiled.as_text()
    if dump:
        Path(dump).write_text(text, encoding="utf-8")
    return {
        "memory": {
            "peak": int(memory.peak_memory_in_bytes),
            "arguments": int(memory.argument_size_in_bytes),
            "outputs": int(memory.output_size_in_bytes),
            "aliased": int(memory.alias_size_in_bytes),
            "temporary": int(memory.temp_size_in_bytes),
            "code": int(memory.generated_code_size_in_bytes),
        },
        "flops": float(cost.get("flops", 0.0)),
        "bytes": float(cost.get("bytes accessed", 0.0)),
        "seconds": float(cost.get("optimal_seconds", 0.0)),
        "collectives": collectives(text),
    }


def tokens_of(batch: Any) -> Any:
    """A batch's array of token ids, (rows, tokens); of a script's own batches the first that is of two axes."""
    import jax

    if isinstance(batch, dict) and "input_tokens" in batch:
        return batch["input_tokens"]
    return next(leaf for leaf in jax.tree.leaves(batch) if len(leaf.shape) == 2)


def _vocab(model: Any) -> int:
    config = model.config
    return int(getattr(config, "num_embed", 0) or getattr(config, "vocab_size", 0))
