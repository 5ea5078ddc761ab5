"""bitsandbytes' frozen 4-bit and 8-bit weights in a Tunix model: the same values, as Qwix arrays on the mesh.

Qwix's own NF4 takes one scale for a whole output channel where a layer contracts over two axes (every attention
output), scales in another precision, and keeps the dequantised weight of every layer for the backward pass. Here a
weight has bitsandbytes' blocks, code book and rounding, and only its codes and scales outlive the product.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from qwix._src.core.qarray import HowToQuantize, QArray
from qwix._src.providers.ptq import PtqProvider, WithAux
from qwix._src.utils import flax_util

from ..facts.family import Linear, Tensor
from ..facts.releases.habits import quantises_unasked

BLOCK = 64  # weights of a row of torch's (out, in) matrix that share a scale: bitsandbytes' default block size

# Values of the codes in rising order, bitsandbytes/functional.py. NF4: quantiles of the normal distribution (Dettmers
# et al. 2023, appendix E). FP4: a sign, 2 bits of exponent and 1 of mantissa; its two zeros are one here.
CODE_BOOKS = {
    "nf4": (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
        *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
        *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ),
    "fp4": (
        *(-1.0, -0.6666666865348816, -0.5, -0.3333333432674408, -0.25, -0.1666666716337204, -0.0052083334885537624),
        *(0.0, 0.0052083334885537624, 0.1666666716337204, 0.25, 0.3333333432674408, 0.5, 0.6666666865348816, 1.0),
    ),
}
QTYPES = ("nf4", "fp4", "int8")


@dataclass(frozen=True)
class Quantization:
    """How the base's linears are held: `qtype` one of QTYPES; `skip` as llm_int8_skip_modules, None for the head."""

    qtype: str
    skip: tuple[str, ...] = ()

    @classmethod
    def read(cls, asked: Any) -> Quantization | None:
        """From a name, a BitsAndBytesConfig, a mapping of its fields, or None. ValueError for anything else."""
        if asked is None or isinstance(asked, Quantization):
            return asked
        if isinstance(asked, str):
            if asked not in QTYPES:
                raise ValueError(f"quantization={asked!r}: choose one of {', '.join(QTYPES)}")
            return cls(asked)
        fields = asked if isinstance(asked, Mapping) else {name: getattr(asked, name, None) for name in _READ}
        if isinstance(asked, Mapping) and fields.get("quant_method", "bitsandbytes") != "bitsandbytes":
            raise ValueError(
                f"a base quantised by {fields['quant_method']} has no counterpart: name the model it is of"
            )
        if fields.get("load_in_4bit") and fields.get("load_in_8bit"):
            raise ValueError("load_in_4bit and load_in_8bit are both True, but only one can be used at the same time")
        if fields.get("llm_int8_has_fp16_weight"):
            raise ValueError("llm_int8_has_fp16_weight=True trains 16-bit weights; a quantised base is frozen here")
        if not fields.get("load_in_4bit") and not fields.get("load_in_8bit") and not _is_of_4_bits_anyway(asked):
            return None
        qtype = "int8" if fields.get("load_in_8bit") else fields.get("bnb_4bit_quant_type") or "fp4"
        if qtype not in QTYPES:
            raise ValueError(f"bnb_4bit_quant_type={qtype!r}: bitsandbytes has nf4 and fp4")
        return cls(str(qtype), tuple(fields.get("llm_int8_skip_modules") or ()))

    def takes(self, linear: Linear) -> bool:
        """Whether bitsandbytes would replace this layer; transformers never does the head, and neither does this."""
        skipped = any(re.match(name, linear.hf) or linear.hf.endswith(name) for name in self.skip)
        return not skipped and not linear.hf.endswith("lm_head")


def _is_of_4_bits_anyway(config: Any) -> bool:
    """Whether transformers holds a model in 4 bits for a config with neither flag, see `quantises_unasked`.

    A mapping is one where it says its method; others, and keywords of from_pretrained, quantise by their flags alone.
    """
    if isinstance(config, Mapping):
        return "quant_method" in config
    if getattr(config, "load_in_4bit", None) is None:
        return False
    return quantises_unasked(getattr(config, "of_transformers", None))


_READ = (
    "load_in_4bit",
    "load_in_8bit",
    "bnb_4bit_quant_type",
    "llm_int8_skip_modules",
    "llm_int8_has_fp16_weight",
)


def tiles(tensor: Tensor) -> tuple[int, ...]:
    """How many neighbours along each axis of the Tunix parameter share a scale, in bitsandbytes' blocks.

    A block is BLOCK consecutive weights of torch's (out, in) matrix, which in Tunix may be several axes (heads and
    head_dim; short rows of several outputs). Where its end isn't a row's end bitsandbytes' blocks can't be made of
    Tunix's axes: these become smaller.
    """
    left, tile = BLOCK, [1] * len(tensor.split)
    for axis in reversed(range(len(tensor.split))):
        tile[axis] = math.gcd(tensor.split[axis], left)
        left = left // tile[axis] if tile[axis] == tensor.split[axis] else 1
    return _as_tunix(tensor, tile)


def whole_rows(tensor: Tensor) -> tuple[int, ...]:
    """As `tiles`, for one scale an output: LLM.int8()'s weights."""
    rows, tile = 1, []
    for size in tensor.split:
        tile.append(1 if rows < tensor.shape_hf[0] else size)
        rows *= size
    return _as_tunix(tensor, tile)


def _as_tunix(tensor: Tensor, tile: Sequence[int]) -> tuple[int, ...]:
    ordered = tuple(tile[axis] for axis in tensor.order)
    return (1, *ordered) if tensor.slots > 1 else ordered


@flax.struct.dataclass
class HeldWeight(WithAux[QArray]):
    """A quantised weight in its module. gemma4 of google-tunix 0.1.7 scales one before its product, so it can be.

    Read as a parameter is (`weight.value`, `weight[...]`) it is itself: that is how qwix knows whose adapters are
    asked for. By its shape alone it would take a LoRA as wide as a layer for that layer, and put neither in.
    """

    value = property(lambda self: self)

    def __getitem__(self, key: Any) -> Any:
        return self if key is Ellipsis else super().__getitem__(key)

    def __mul__(self, factor: float) -> HeldWeight:
        scale = self.array.scale.astype(jnp.float32) * factor
        return self.replace(array=dataclasses.replace(self.array, scale=scale))

    def dequantized(self, dtype: Any) -> jax.Array:
        """The weight that its codes and scales stand for."""
        codes, scales = (
            getattr(part, "get_value", lambda part=part: part)() for part in (self.array.qvalue, self.array.scale)
        )
        return dequantize(codes, scales, str(self.array.qtype), dtype)


nnx.register_data_type(HeldWeight)


def held_weights(model: nnx.Module) -> dict[str, HeldWeight]:
    """The quantised weights of a model, under the paths that they have in one that isn't."""
    return {
        "/".join(map(str, (*path, name))): value
        for path, module in model.iter_modules()
        for name, value in vars(module).items()
        if isinstance(value, HeldWeight)
    }


@functools.partial(jax.jit, static_argnames=("qtype", "tile"))
def quantize(weight: jax.Array, qtype: str, tile: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """(codes, scales): codes in `weight`'s shape, scales one for each tile, as bitsandbytes 0.50 computes them.

    4 bits: the nearest value of the code book to weight / largest magnitude of the block (the scale, in the weight's
    dtype, which holds it exactly). 8 bits: weight / (largest magnitude / 127), rounded, of float16 weights.
    """
    exact = weight.astype(jnp.float16 if qtype == "int8" else weight.dtype).astype(jnp.float32)
    grid = [n for size, part in zip(weight.shape, tile, strict=True) for n in (size // part, part)]
    inner = tuple(range(1, len(grid), 2))
    blocks = exact.reshape(grid)
    largest = jnp.max(jnp.abs(blocks), axis=inner, keepdims=True)
    shape = tuple(size // part for size, part in zip(weight.shape, tile, strict=True))
    if qtype == "int8":
        # As torch divides a number by a tensor; 127.0 / largest differs in its last bit, which turns some codes.
        steps = 127.0 * (1.0 / jnp.maximum(largest, 1e-38))
        codes = jnp.round(blocks * steps).astype(jnp.int8)
        return codes.reshape(weight.shape), (largest / 127.0).reshape(shape)
    book = np.asarray(CODE_BOOKS[qtype], np.float32)
    scaled = blocks * (1.0 / jnp.maximum(largest, 1e-38))
    codes = jnp.zeros(scaled.shape, jnp.uint8)
    for middle in (book[:-1] + book[1:]) / np.float32(2):
        codes += scaled > middle
    return codes.astype(jnp.uint4).reshape(weight.shape), largest.reshape(shape).astype(weight.dtype)


def dequantize(codes: jax.Array, scales: jax.Array, qtype: str, dtype: Any) -> jax.Array:
    """The weight that bitsandbytes multiplies by: code book value times scale in float32, rounded to `dtype`."""
    values = codes.astype(jnp.float32) if qtype == "int8" else _looked_up(codes, CODE_BOOKS[qtype])
    grid = [n for size, count in zip(codes.shape, scales.shape, strict=True) for n in (count, size // count)]
    spread = [n for count in scales.shape for n in (count, 1)]
    return (values.reshape(grid) * scales.astype(jnp.float32).reshape(spread)).reshape(codes.shape).astype(dtype)


def _looked_up(codes: jax.Array, book: Sequence[float]) -> jax.Array:
    """`book[codes]` by selecting on each bit, which a compiler fuses into the product, as it does no gather."""
    bits = codes.astype(jnp.uint8)
    values: list[Any] = [jnp.float32(value) for value in (*book, *book[-1:])][:16]
    while len(values) > 1:
        odd = (bits & 1) == 1
        values = [jnp.where(odd, high, low) for low, high in zip(values[::2], values[1::2], strict=True)]
        bits = bits >> 1
    found: jax.Array = values[0]
    return found


def put(module: nnx.Module, name: str, weight: Any, qtype: str, tile: tuple[int, ...]) -> None:
    """Replaces the parameter `name` of `module` by `weight` quantised, on the devices that hold it.

    A jax.ShapeDtypeStruct for a weight leaves shapes there, for a model that is only traced.
    """
    parameter = getattr(module, name)
    whole = weight.sharding
    shapes = jax.eval_shape(functools.partial(quantize, qtype=qtype, tile=tile), weight)
    coarse = _coarser(whole, shapes[1].shape)
    if isinstance(weight, jax.ShapeDtypeStruct):
        codes, scales = (shape.update(sharding=held) for shape, held in zip(shapes, (whole, coarse), strict=True))
    else:
        codes, scales = jax.block_until_ready(_compiled(qtype, tile, whole, coarse)(weight))
    annotated = {key: tuple(coarse.spec) for key in _ANNOTATIONS if parameter.get_metadata().get(key)}
    array = QArray(parameter.replace(codes), parameter.replace(scales, **annotated), None, qtype)
    setattr(module, name, HeldWeight(array, HowToQuantize(qtype=qtype, tiled_axes=dict(enumerate(tile)))))


_ANNOTATIONS = ("out_sharding", "sharding_names", "sharding")  # where flax's versions keep a parameter's mesh axes


@functools.cache
def _compiled(qtype: str, tile: tuple[int, ...], *shardings: jax.sharding.NamedSharding) -> Any:
    return jax.jit(functools.partial(quantize, qtype=qtype, tile=tile), out_shardings=shardings)


def _coarser(sharding: jax.sharding.NamedSharding, shape: tuple[int, ...]) -> jax.sharding.NamedSharding:
    """A weight's sharding for its scales: an axis with too few of them to divide stands whole on each device."""
    axes = [*sharding.spec, *[None] * (len(shape) - len(sharding.spec))]
    fits = [
        axis if axis is None or size % _devices(sharding.mesh, axis) == 0 else None
        for size, axis in zip(shape, axes, strict=True)
    ]
    return jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(*fits))


def _devices(mesh: Any, axis: Any) -> int:
    names = (axis,) if isinstance(axis, str) else axis
    return int(np.prod([mesh.shape[name] for name in names]))


class QuantizedWeights(PtqProvider):
    """Computes with weights that are quantised already, whatever the rules say of them.

    The product is rematerialised for the backward pass: its residuals are the codes and scales, never the weight.
    """

    def einsum(self, einsum_str: str, *operands: Any, **kwargs: Any) -> jax.Array:
        if len(operands) != 2 or not isinstance(operands[1], WithAux):
            return super().einsum(einsum_str, *operands, **kwargs)
        self._get_current_rule_and_op_id("einsum")  # counts the op, for those who ask after it
        return _product(lambda x, weight: jnp.einsum(einsum_str, x, weight, **kwargs), *operands)

    def dot_general(
        self,
        lhs: Any,
        rhs: Any,
        dimension_numbers: Any,
        precision: Any = None,
        preferred_element_type: Any = None,
        *,
        out_sharding: Any = None,
    ) -> jax.Array:
        arguments = (dimension_numbers, precision, preferred_element_type)
        if not isinstance(rhs, WithAux):
            return super().dot_general(lhs, rhs, *arguments, out_sharding=out_sharding)
        self._get_current_rule_and_op_id("dot_general")
        return _product(
            lambda x, weight: jax.lax.dot_general(x, weight, *arguments, out_sharding=out_sharding), lhs, rhs
        )

    def astype(self, x: Any, dtype: Any, /, **kwargs: Any) -> Any:
        """jnp.astype, which google-tunix 0.1.7's qwen2, qwen3 and gemma4 call on every weight and which takes arrays
        alone; a quantised weight takes the other operand's type in the product."""
        return x if isinstance(x, WithAux) else jnp.astype(x, dtype, **kwargs)

    def get_intercept_map(self) -> dict[str, Callable[..., Any]]:
        return {**super().get_intercept_map(), "jax.numpy.astype": self.astype}


def _product(function: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, weight: Any) -> jax.Array:
    array = flax_util.unbox(weight.array)
    held = array.scale.dtype if array.qtype != "int8" else x.dtype

    @jax.checkpoint
    def product(x: jax.Array, codes: jax.Array, scales: jax.Array) -> jax.Array:
        return function(x, dequantize(codes, scales, array.qtype, held).astype(x.dtype))

    result: jax.Array = product(x, array.qvalue, array.scale)
    return result
