"""transformers' optimizers in optax: same update rule, same numbers, by the name in `TrainingArguments.optim`.

transformers builds them in `trainer_optimizer.py`; PyTorch's AdamW and Lion decay weights apart from the
gradient, its SGD, RMSprop and Adagrad add the decay to the gradient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..facts.field_tables import version_key
from ..facts.releases.habits import reads_optim_args

Mask = Callable[[Any], Any] | Any

_ADAMW = {
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_torch_xla",
    "adamw_torch_npu_fused",
    "adamw_torch_4bit",
    "adamw_torch_8bit",
    "adamw_bnb_8bit",
    "adamw_8bit",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
}
FUSED = "adamw_torch_fused"
_LION = {"lion_32bit", "lion_8bit", "paged_lion_32bit", "paged_lion_8bit"}
_RMSPROP = {"rmsprop", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"}

# Trainer.get_decay_parameter_names, transformers 5.12; and gemma4's skip_scale, in transformers a buffer.
_NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)|skip_scale")
_ADAPTER = re.compile(r"(?:_lora_[ab])?(?:\.(?:value|raw_value))?$")
_UNNAMED_NORMS = re.compile(r"final_norm|(?:^|\.)norm(?:$|\.)|(?:\b|_)(?:[qk]|query|key)_norm")


def hf_optimizer(
    name: str,
    schedule: optax.ScalarOrSchedule,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask | None = None,
    args: str | Mapping[str, Any] | None = None,
    transformers: str | None = None,
) -> optax.GradientTransformation:
    """The optimizer that transformers builds for `optim=name`, as one optax transformation.

    8-bit and 4-bit variants keep their state in the weights' own type here. Adafactor is approximate on weights with
    more than two axes: optax factors the two largest axes, transformers the last two.

    Args:
        name: as in `TrainingArguments.optim`.
        schedule: learning rate, or its schedule over optimizer steps.
        b1, b2, eps: `adam_beta1`, `adam_beta2`, `adam_epsilon`.
        weight_decay: `weight_decay`; optax's own defaults are never used.
        mask: which parameters are decayed, as optax takes it; `decay_mask` is transformers' rule.
        args: `optim_args`, "key=value,key=value" or a dict.
        transformers: the release that the GPU run had: an optimizer for which it reads no `args` gets none.

    Raises:
        ValueError: for an optimizer without an optax counterpart, or an argument that it doesn't have.
    """
    name = str(getattr(name, "value", name))
    given = read_arguments(name, args, transformers)
    if any(short in name for short in ("8bit", "4bit")) and jax.process_index() == 0:
        print(
            f"optim={name}: its state is held in the weights' own type here, not in {name[-4]} bits: other last digits"
        )
    rate = optax.scale_by_learning_rate(schedule)
    coupled = optax.add_decayed_weights(weight_decay, mask) if weight_decay else optax.identity()
    if name in _ADAMW:
        _only(name, given)
        adamw = optax.adamw(schedule, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, mask=mask)
        return fused(adamw) if name == FUSED else adamw
    if name == "adamw_hf":
        _only(name, given)
        return adamw_hf(schedule, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, mask=mask)
    if name in _LION:
        _only(name, given)
        return optax.lion(schedule, b1=b1, b2=b2, weight_decay=weight_decay, mask=mask)
    if name == "sgd":
        _only(name, given, "momentum", "dampening", "nesterov", "weight_decay")
        momentum = _momentum(
            _number(given, "momentum", 0.0), _number(given, "dampening", 0.0), _flag(given, "nesterov")
        )
        return optax.chain(coupled, momentum, rate)
    if name in _RMSPROP:
        _only(name, given, "momentum", "alpha", "eps", "centered", "weight_decay")
        scale = optax.scale_by_stddev if _flag(given, "centered") else optax.scale_by_rms
        scaled = scale(decay=_number(given, "alpha", 0.99), eps=_number(given, "eps", 1e-8), eps_in_sqrt=False)
        return optax.chain(coupled, scaled, _momentum(_number(given, "momentum", 0.0)), rate)
    if name == "adagrad":
        _only(name, given, "lr_decay", "eps", "weight_decay")
        return optax.chain(coupled, _adagrad(_number(given, "lr_decay", 0.0), _number(given, "eps", 1e-10)), rate)
    if name == "adafactor":
        _only(name, given)
        # The Trainer turns off parameter scaling and relative steps, and PyTorch's decay goes with the rate.
        factored = optax.scale_by_factored_rms(decay_rate=0.8, min_dim_size_to_factor=0, epsilon=1e-30)
        return optax.chain(factored, optax.clip_by_block_rms(1.0), coupled, rate)
    known = sorted(_ADAMW | _LION | _RMSPROP | {"adamw_hf", "sgd", "adagrad", "adafactor"})
    raise ValueError(f"optim={name!r} has no optax counterpart with the same numbers; choose one of {', '.join(known)}")


def fused(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """An optimizer whose step is computed in float32, and rounded once to the types of its state and the weights.

    So do torch's fused kernels (`fused_adam_utils.cuh`). Without it all of a step is rounded to the weights' type, as
    torch's default AdamW does: 0.999 is 1 in bfloat16, and a second moment that never decays makes steps smaller, by
    5 % in 400 and a tenth in 1,000 of them. Weights in float32 train as without it.
    """

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, made = optimizer.update(_in_float32(grads), _in_float32(state), _in_float32(params))
        return updates, jax.tree.map(lambda new, old: new.astype(jnp.result_type(old)), made, state)

    return optax.GradientTransformation(optimizer.init, update)


def _in_float32(tree: Any) -> Any:
    """The arrays of a tree, those of shorter floats in float32."""
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf, tree
    )


def adamw_hf(
    learning_rate: optax.ScalarOrSchedule,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask | None = None,
) -> optax.GradientTransformation:
    """transformers' own AdamW, the Trainer's default before transformers 4.32 (`optim="adamw_hf"`).

    It adds eps before the bias correction, PyTorch's and optax's AdamW after it, and decays the weights that its update
    has made. Arguments as for optax.adamw.
    """
    adam = _scale_by_hf_adam(b1, b2, eps)
    links = [adam, optax.scale_by_learning_rate(learning_rate)]
    if weight_decay:
        decay = _decay_made_weights(learning_rate, weight_decay)
        links.append(decay if mask is None else optax.masked(decay, mask))
    return optax.chain(*links)


def _scale_by_hf_adam(b1: float, b2: float, eps: float) -> optax.GradientTransformation:
    """optax.scale_by_adam, whose eps stands beside the root of the second moment before that is corrected."""
    adam = optax.scale_by_adam(b1, b2, eps)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        _, state = adam.update(grads, state, params)
        count = state.count.astype(jnp.float32)
        step = jnp.sqrt(1.0 - b2**count) / (1.0 - b1**count)
        made = jax.tree.map(lambda first, second: step * first / (jnp.sqrt(second) + eps), state.mu, state.nu)
        return made, state

    return optax.GradientTransformation(adam.init, update)


def _decay_made_weights(rate: optax.ScalarOrSchedule, decay: float) -> optax.GradientTransformation:
    """Decay of the weights behind the update that they have got: `p += u; p -= rate * decay * p`."""

    def init(params: Any) -> optax.ScaleByScheduleState:
        return optax.ScaleByScheduleState(count=jnp.zeros((), jnp.int32))

    def update(updates: Any, state: optax.ScaleByScheduleState, params: Any = None) -> tuple[Any, Any]:
        share = (rate(state.count) if callable(rate) else rate) * decay
        made = jax.tree.map(lambda step, weight: step - share * (weight + step), updates, params)
        return made, optax.ScaleByScheduleState(count=state.count + 1)

    return optax.GradientTransformation(init, update)


def decay_mask(params: Any) -> Any:
    """True for each parameter that transformers decays: all but biases and norm weights (adapters are decayed).

    A callable mask for optax; `params` is any tree, such as the `nnx.State` that nnx.Optimizer hands over.
    """
    return jax.tree_util.tree_map_with_path(lambda path, _: not _NO_DECAY.search(_dotted(path)), params)


def older_decay_mask(model: Any, transformers: str) -> Callable[[Any], Any]:
    """`decay_mask` as transformers before 4.53 had it: most families' norms were decayed.

    It went by the class of a layer, and only Llama's norm (and until 4.44 Gemma's) was named among those without decay;
    from 4.49 on by `layernorm` in a weight's name too, which the last norm and those of queries and keys haven't.
    """
    release = version_key(transformers)
    family = model.porter.family.name
    by_class = family == "llama3" or (family == "gemma" and release < (4, 45, 0))
    by_name = release >= (4, 49, 0)

    def decayed(path: Any, _: Any) -> bool:
        name = _dotted(path)
        if not _NO_DECAY.search(name):
            return True
        if by_class or "bias" in name:
            return False
        return not by_name or bool(_UNNAMED_NORMS.search(name))

    return lambda params: jax.tree_util.tree_map_with_path(decayed, params)


def decay_mask_but(model: Any, without: Sequence[str]) -> Callable[[Any], Any]:
    """`decay_mask` of a script's own groups: a weight in whose name in transformers one of `without` stands has none.

    Names are those of the checkpoint ("model.layers.0.input_layernorm.weight"), case and all: "LayerNorm.weight" is in
    none of Llama's. ValueError where it is in the name of one of two weights that Tunix holds in one tensor.
    """
    names: dict[str, list[str]] = {}
    for tensor in model.porter.family.tensors(model.porter.sizes):
        names.setdefault(tensor.tunix.replace("/", ".").lower(), []).append(tensor.hf)

    def decayed(path: Any, _: Any) -> bool:
        whole = _dotted(path)
        name = _ADAPTER.sub("", whole)
        if name not in names:
            raise ValueError(f"{name}: which weight of the checkpoint this is, is not known")
        # PEFT's are model.layers.0.self_attn.q_proj.lora_A.default.weight.
        of_adapter = [hf.replace(".weight", ".lora_A.default.weight") for hf in names[name]]
        kept = {not any(text in hf for text in without) for hf in (of_adapter if "_lora_" in whole else names[name])}
        if len(kept) > 1:
            raise ValueError(f"{without} has one of {', '.join(names[name])}: Tunix holds them in one tensor")
        return kept.pop()

    return lambda params: jax.tree_util.tree_map_with_path(decayed, params)


def clip_by_global_norm(max_grad_norm: float | None) -> optax.GradientTransformation:
    """optax.clip_by_global_norm, or nothing where transformers doesn't clip: None and 0 or less."""
    return optax.clip_by_global_norm(max_grad_norm) if max_grad_norm and max_grad_norm > 0 else optax.identity()


class _MomentumState(NamedTuple):
    first: jax.Array
    buffer: Any


def _momentum(momentum: float, dampening: float = 0.0, nesterov: bool = False) -> optax.GradientTransformation:
    """torch.optim.SGD's momentum: the first gradient enters the buffer whole, later ones times 1 - dampening."""
    if not momentum:
        return optax.identity()
    if nesterov and dampening:
        raise ValueError("Nesterov momentum needs zero dampening")  # PyTorch refuses it too
    if not dampening:
        return optax.trace(momentum, nesterov=nesterov)

    def init(params: Any) -> _MomentumState:
        return _MomentumState(jnp.ones((), bool), jax.tree.map(jnp.zeros_like, params))

    def update(grads: Any, state: _MomentumState, params: Any = None) -> tuple[Any, _MomentumState]:
        share = jnp.where(state.first, 1.0, 1.0 - dampening)
        buffer = jax.tree.map(lambda old, grad: momentum * old + (share * grad).astype(old.dtype), state.buffer, grads)
        return buffer, _MomentumState(jnp.zeros((), bool), buffer)

    return optax.GradientTransformation(init, update)


class _AdagradState(NamedTuple):
    count: jax.Array
    total: Any


def _adagrad(lr_decay: float, eps: float) -> optax.GradientTransformation:
    """torch.optim.Adagrad: sums start at 0 and eps stays outside the root (optax: 0.1, and inside)."""

    def init(params: Any) -> _AdagradState:
        return _AdagradState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(grads: Any, state: _AdagradState, params: Any = None) -> tuple[Any, _AdagradState]:
        total = jax.tree.map(lambda old, grad: old + grad * grad, state.total, grads)
        fading = 1.0 + state.count * lr_decay
        scaled = jax.tree.map(lambda grad, square: grad / (jnp.sqrt(square) + eps) / fading, grads, total)
        return scaled, _AdagradState(state.count + 1, total)

    return optax.GradientTransformation(init, update)


def read_arguments(name: str, args: str | Mapping[str, Any] | None, transformers: str | None) -> dict[str, Any]:
    """The arguments that the Trainer of a release gives an optimizer, see `reads_optim_args`; None: those of `args`."""
    given = _arguments(args)
    read = transformers is None or reads_optim_args(name, transformers)
    if given and not read:
        print(f"optim={name!r}: transformers {transformers} reads none of optim_args={args!r}, and so does the port")
    return given if read else {}


def _arguments(args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(args, str):
        return dict(args or {})
    pairs = [pair.split("=", 1) for pair in args.replace(" ", "").split(",") if pair]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"optim_args must read key=value,key=value; got {args!r}")
    return dict(pairs)


def _only(name: str, given: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(
            f"optim={name!r} takes no optim_args {', '.join(unknown)}; it knows {', '.join(known) or 'none'}"
        )


def _number(given: Mapping[str, Any], key: str, default: float) -> float:
    return float(given.get(key, default))


def _flag(given: Mapping[str, Any], key: str) -> bool:
    return str(given.get(key, False)).lower() in ("true", "1", "yes")


def _dotted(path: tuple[Any, ...]) -> str:
    keys = (getattr(key, "key", getattr(key, "name", getattr(key, "idx", ""))) for key in path)
    return ".".join(str(key) for key in keys).lower()
