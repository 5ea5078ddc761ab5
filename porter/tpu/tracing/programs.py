"""What a training run computes besides its step: a reference's or a teacher's pass, sampling, log-probabilities.

Each is the very function that the runtime jits and calls, with shapes for its arguments.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .shapes import bytes_of


@dataclass
class Program:
    """`lower`: makes it ready to compile. `times`: how often an optimizer step runs it: for each micro-batch, or `goes`
    times over `count` rows. `model`: whose weights it reads.

    `rows`, `length`: of the arrays that go through the model; `prompt` and `completion`: tokens of each where it
    samples. `cache`: bytes of keys and values on one device. `held`: bytes on one device that it is given as arguments
    out of what the run keeps. `token`: makes one turn of its loop, a token of every row, ready to compile.
    """

    name: str
    lower: Callable[[], Any]
    times: float
    model: Any
    rows: int
    length: int
    held: int
    prompt: int = 0
    completion: int = 0
    cache: int = 0
    token: Callable[[], Any] | None = None
    count: int = 0
    goes: float = 0.0
    gives: dict[str, Any] = field(default_factory=dict)


def kept(trainer: Any, batches: Any) -> dict[str, int]:
    """Bytes on one device of what the run keeps: the trained model, its optimizer, and what else it has."""
    from flax import nnx

    optimizer = nnx.state(trainer.optimizer, nnx.optimizer.OptState)
    found = {"model": bytes_of(nnx.state(trainer.model)), "optimizer": bytes_of(optimizer)}
    for name in ("ref_model", "teacher_model"):
        other = getattr(trainer, name, None)
        if other is not None:
            found[name] = bytes_of(nnx.state(other))
    if getattr(batches, "_reference", None) is not None:
        found["reference"] = bytes_of(batches._reference.weights)
    return found


def forward_programs(trainer: Any, batch: dict[str, Any], micro_batches: int) -> Iterator[Program]:
    """The pass of the reference model or the teacher over a micro-batch; what it gives the step is in `gives`."""
    import jax
    from flax import nnx

    for attribute, jitted, name, gives in (
        ("ref_model", "_reference", "reference", "reference_logps"),
        ("teacher_model", "_teacher", "teacher", "teacher_logits"),
    ):
        other = getattr(trainer, attribute, None)
        if other is None:
            continue
        function = getattr(trainer, jitted)
        rows, length = batch["input_tokens"].shape
        shape = jax.eval_shape(lambda model, batch, function=function: function(model, batch), other, batch)
        spec = jax.sharding.PartitionSpec("fsdp", *([None] * (len(shape.shape) - 1)))
        sharding = jax.sharding.NamedSharding(batch["input_tokens"].sharding.mesh, spec)
        yield Program(
            name,
            lambda function=function, other=other: function.lower(other, batch).lowered,  # type: ignore[misc]
            micro_batches,
            other,
            rows,
            length,
            bytes_of(nnx.state(other)),
            gives={gives: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)},
        )


def sampling_programs(batches: Any, mesh: Any) -> Iterator[Program]:
    """What GRPO, RLOO and GKD run besides training: sampling, and the log-probabilities that their losses need."""
    if hasattr(batches, "_logps"):
        parts, iterations = batches._parts, batches._iterations
        generations = batches._source[1] / (parts * iterations)
        count = batches._prompts_at_once * batches._generations
        yield _sampling("sampling", batches._sampler, count, generations, mesh)
        needed = int(batches._needs_old) + int(batches._reference is not None)
        if needed:
            calls = -(-count // batches.batch_size) * needed
            yield _log_probabilities(batches, generations * calls, mesh, count=count, goes=generations * needed)
    elif hasattr(batches, "_student"):
        deal, chance = batches._deal, batches._chance
        samplers = (("sampling", batches._student, chance), ("the teacher's sampling", batches._teacher, 1 - chance))
        for name, sampler, share in samplers:
            if sampler is not None and share > 0:
                yield _sampling(name, sampler, deal.batch_size, deal.accumulation * share, mesh)


def _sampling(name: str, sampler: Any, prompts: int, times: float, mesh: Any) -> Program:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    rows = -(-prompts // sampler._unit) * sampler._unit
    prompt, completion = sampler.prompt_length, sampler.sampling.max_tokens
    state = nnx.state(sampler._model)
    dealt = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("fsdp"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    key = jax.eval_shape(lambda: jax.random.key(0))
    arguments = (
        state,
        jax.ShapeDtypeStruct((rows, prompt), jnp.int32, sharding=dealt),
        jax.ShapeDtypeStruct((rows, prompt), jnp.bool_, sharding=dealt),
        jax.ShapeDtypeStruct((4,), jnp.int32, sharding=whole),
        jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=whole),
    )
    return Program(
        name,
        lambda: sampler._run.lower(*arguments),
        times,
        sampler._model,
        rows,
        prompt + completion,
        bytes_of(state),
        prompt,
        completion,
        count=prompts,
        goes=times,
        cache=_cache_bytes(sampler, rows, prompt + completion, mesh),
        token=lambda: one_token(sampler._run.trace(*arguments).jaxpr, arguments, rows, mesh),
    )


def _log_probabilities(batches: Any, times: float, mesh: Any, **of_step: Any) -> Program:
    import jax
    from flax import nnx

    dealt = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("fsdp"))
    batch = batches.batch()
    tokens = {
        name: jax.ShapeDtypeStruct(batch[name].shape, batch[name].dtype, sharding=dealt)
        for name in ("input_tokens", "positions", "segment_ids")
    }
    _, trained, rest = nnx.split(batches._model, batches._wrt, ...)
    rows, length = tokens["input_tokens"].shape
    return Program(
        "log-probabilities",
        lambda: batches._logps.lower(trained, rest, tokens),
        times,
        batches._model,
        rows,
        length,
        bytes_of(trained) + bytes_of(rest),
        completion=batches._completion_length,
        **of_step,
    )


def one_token(traced: Any, arguments: Any, rows: int, mesh: Any) -> Any:
    """One turn of the loop of a traced sampling function, lowered, its carry in place: a token of every row.

    What comes from `arguments` lies where they do; keys and values by rows over fsdp and by heads over tp.
    """
    import jax
    from jax.extend.core import jaxpr_as_fun

    loop = next(equation for equation in traced.eqns if equation.primitive.name == "while")
    constants = loop.params["body_nconsts"]
    known = {id(var): leaf for var, leaf in zip(traced.jaxpr.invars, jax.tree.leaves(arguments), strict=True)}

    def shape_of(var: Any) -> Any:
        if id(var) in known:
            return known[id(var)]
        return jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype, sharding=_dealt(var.aval, rows, mesh))

    shapes = [shape_of(var) for var in loop.invars[loop.params["cond_nconsts"] :]]
    body = jaxpr_as_fun(loop.params["body_jaxpr"])
    turn = jax.jit(lambda *values: body(*values), donate_argnums=tuple(range(constants, len(shapes))))
    return turn.lower(*shapes)


def _dealt(aval: Any, rows: int, mesh: Any) -> Any:
    """Where what a loop carries lies: arrays of every row over fsdp, those of every row and head over tp too."""
    import jax

    sizes = dict(mesh.shape)
    axes: list[Any] = [None] * len(aval.shape)
    if aval.shape and aval.shape[0] == rows:
        axes[0] = "fsdp"
        if len(axes) == 4 and aval.shape[2] % sizes.get("tp", 1) == 0:
            axes[2] = "tp"
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))


def _cache_bytes(sampler: Any, rows: int, length: int, mesh: Any) -> int:
    """Bytes on one device of the keys and values of `rows` rows."""
    import jax

    empty = sys.modules[type(sampler).__module__].empty_cache
    total = 0
    for leaf in jax.tree.leaves(jax.eval_shape(lambda: empty(sampler._model, rows, length))):
        shape = _dealt(leaf, rows, mesh).shard_shape(leaf.shape)
        total += math.prod(shape) * leaf.dtype.itemsize
    return total
