"""The adapters themselves: PEFT's initial values, precision and dropout in a Qwix provider.

What Qwix 0.1.8 does differently: adapters in the base weights' dtype, A 2.45 times larger at the start (he_uniform),
and dropout that stays on in evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import qwix
from qwix._src.providers.ptq import WithAux
from qwix._src.utils import flax_util

from ..models.quantization import QuantizedWeights

_KAIMING = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def PEFT_INIT(key: jax.Array, shape: Sequence[int], dtype: Any = None) -> jax.Array:
    """PEFT's initial A: uniform in ±1/√fan_in, which is kaiming_uniform_(a=√5) (peft/tuners/lora/layer.py).

    Float32 whatever `dtype` Qwix asks for, which is the base weight's.
    """
    return _KAIMING(key, shape, jnp.float32)


def gaussian(ranks: Sequence[int]) -> Any:
    """A under `init_lora_weights="gaussian"`: normal of deviation 1/r for each PEFT adapter in (..., Σ ranks)."""
    scale = np.concatenate([np.full(rank, 1 / rank, np.float32) for rank in ranks])
    return lambda key, shape, dtype=None: jax.random.normal(key, shape, jnp.float32) * scale


def random_b(ranks: Sequence[int]) -> Any:
    """B under `init_lora_weights=False`: torch.nn.Linear's own start, uniform in ±1/√r, for (Σ ranks, ...)."""
    bound = np.concatenate([np.full(rank, rank**-0.5, np.float32) for rank in ranks])

    def initial(key: jax.Array, shape: Sequence[int], dtype: Any = None) -> jax.Array:
        return jax.random.uniform(key, shape, jnp.float32, -1, 1) * bound.reshape(-1, *[1] * (len(shape) - 1))

    return initial


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _dropout(x: jax.Array, a: jax.Array, key: jax.Array, rate: float) -> jax.Array:
    """`x` as it is where nothing is differentiated (evaluation, a DPO reference); dropped out where `a` is trained.

    Tunix runs training and evaluation through the same model call and Qwix drops out in both. What tells them apart is
    that only training differentiates with respect to the adapter `a`, and only then JAX calls the forward rule below.
    """
    return x


def _dropout_forward(x: jax.Array, a: jax.Array, key: jax.Array, rate: float) -> tuple[jax.Array, jax.Array]:
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0), keep


def _dropout_backward(rate: float, keep: jax.Array, g: jax.Array) -> tuple[jax.Array, None, None]:
    return jnp.where(keep, g / (1 - rate), 0), None, None


_dropout.defvjp(_dropout_forward, _dropout_backward)


class LoraProvider(qwix.LoraProvider, QuantizedWeights):
    """qwix.LoraProvider with float32 adapters over a base of any dtype, as PEFT's autocast_adapter_dtype makes them.

    The adapter's product is added in float32 and the sum cast to the base layer's result dtype
    (peft/tuners/lora/layer.py, Linear.forward). A rule's dropout acts in training only. Over a quantised base (qwix's
    LoraProvider comes before QuantizedWeights, which comes before qwix's PtqProvider) the rules are the same.
    """

    def einsum(self, einsum_str: str, *operands: Any, **kwargs: Any) -> jax.Array:
        adapter = self._with_dropout("einsum", *operands)
        if adapter is None:
            result = super().einsum(einsum_str, *operands, **kwargs)
        else:
            x, a, b, equation, scale = adapter
            base = super(qwix.LoraProvider, self).einsum(einsum_str, *operands, **kwargs)
            result = base + jnp.einsum(equation, x, a, b, **kwargs) * scale
        return result.astype(_result_dtype(operands, kwargs.get("preferred_element_type")))

    def dot_general(
        self,
        lhs: Any,
        rhs: Any,
        dimension_numbers: Any,
        precision: Any = None,
        preferred_element_type: Any = None,
        out_sharding: Any = None,
    ) -> jax.Array:
        arguments = (lhs, rhs, dimension_numbers, precision, preferred_element_type)
        adapter = self._with_dropout("dot_general", lhs, rhs)
        if adapter is None:
            result = super().dot_general(*arguments, out_sharding=out_sharding)
        else:
            x, a, b, _, scale = adapter  # a (in, r), b (r, out): Tunix's only dot_general is nnx.Linear
            base = super(qwix.LoraProvider, self).dot_general(*arguments, out_sharding=out_sharding)
            narrow = jax.lax.dot_general(x, a, dimension_numbers, precision=precision)
            result = base + jnp.matmul(narrow, b, precision=precision) * scale
        return result.astype(_result_dtype((lhs, rhs), preferred_element_type))

    def _get_current_rule_and_op_id(self, op_name: str, **kwargs: Any) -> Any:
        """qwix's, with alpha scaled as the module scales its weight.

        google-tunix 0.1.7's gemma4 multiplies the weight of per_layer_model_projection by a constant before the
        product; transformers multiplies the layer's result, adapter included.
        """
        rule, op_id = super()._get_current_rule_and_op_id(op_name, **kwargs)
        scale = getattr(flax_util.get_current_module(), "w_scale", None)
        if isinstance(rule, qwix.LoraRule) and scale is not None:
            rule = dataclasses.replace(rule, alpha=rule.alpha * scale)
        return rule, op_id

    def _with_dropout(self, op: str, *operands: Any) -> tuple[jax.Array, jax.Array, jax.Array, str, float] | None:
        """(dropped input, A, B, equation, scale) of the adapter in this op; None when it has none or no dropout."""
        rule, _ = self._get_current_rule_and_op_id(op, only_rule=True)
        if not isinstance(rule, qwix.LoraRule) or rule.dropout == 0 or len(operands) != 2:
            return None
        module = flax_util.get_current_module()
        name = flax_util.find_param(operands[1], WithAux)
        if name is None or not hasattr(module, f"{name}_lora_b"):  # qwix creates it in the injecting call
            return None
        a, b = getattr(module, f"{name}_lora_a").get_value(), getattr(module, f"{name}_lora_b").get_value()
        x = operands[0].astype(a.dtype)
        x = _dropout(x, a, flax_util.make_rng("dropout"), rule.dropout)
        return x, a, b, getattr(module, f"{name}_lora_einsum_str", ""), rule.alpha / rule.rank


def _result_dtype(operands: Sequence[Any], preferred: Any) -> Any:
    """The dtype of the base product, to which PEFT casts the sum; a quantised weight takes the activation's."""
    if preferred is not None:
        return preferred
    return jnp.result_type(*(operand for operand in operands if not isinstance(operand, WithAux)))
