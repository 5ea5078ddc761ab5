"""Optimizers by transformers' names: their trajectories against PyTorch's own, decay masks and clipping included."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from porter.runtime.training.optimizers import clip_by_global_norm, decay_mask, hf_optimizer, read_arguments
from porter.runtime.training.schedules import hf_schedule

pytestmark = pytest.mark.real

STEPS = 25
EPSILON = 0.1  # so large that its place shows
SHAPES = {"q_proj.weight": (6, 4), "input_layernorm.weight": (4,), "v_proj.bias": (6,), "q_proj.lora_A.weight": (3, 4)}
DRAW = np.random.default_rng(0)
START = {name: DRAW.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
GRADS = [{name: DRAW.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()} for _ in range(STEPS)]


def _ours(name: str, decay: float, args: Any, eps: float = 1e-6) -> dict[str, np.ndarray]:
    schedule = hf_schedule("cosine", 0.03, warmup_steps=5, steps=STEPS)
    tx = hf_optimizer(name, schedule, b1=0.8, b2=0.95, eps=eps, weight_decay=decay, mask=decay_mask, args=args)
    params = jax.tree.map(jnp.asarray, START)
    state = tx.init(params)

    @jax.jit
    def step(params: Any, state: Any, grads: Any) -> Any:
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for grads in GRADS:
        params, state = step(params, state, grads)
    return jax.tree.map(np.asarray, params)


def _of_transformers(name: str, decay: float, args: str | None) -> dict[str, np.ndarray]:
    import torch
    from transformers import Trainer, TrainingArguments, get_scheduler

    settings = TrainingArguments(
        output_dir="unused", optim=name, optim_args=args, learning_rate=0.03, weight_decay=decay,
        adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6, use_cpu=True,
    )  # fmt: skip
    cls, kwargs = Trainer.get_optimizer_cls_and_kwargs(settings)
    params = {key: torch.nn.Parameter(torch.tensor(value)) for key, value in START.items()}
    decayed = {"q_proj.weight", "q_proj.lora_A.weight"}
    groups = [
        {"params": [params[key] for key in params if key in decayed], "weight_decay": decay},
        {"params": [params[key] for key in params if key not in decayed], "weight_decay": 0.0},
    ]
    optimizer = cls(groups, **kwargs)
    scheduler = get_scheduler("cosine", optimizer, 5, STEPS)
    for grads in GRADS:
        for key, param in params.items():
            param.grad = torch.tensor(grads[key])
        optimizer.step()
        scheduler.step()
    return {key: param.detach().numpy() for key, param in params.items()}


EXACT: list[tuple[str, str | None]] = [
    ("adamw_torch", None),
    ("sgd", None),
    ("sgd", "momentum=0.9"),
    ("sgd", "momentum=0.9,nesterov=true"),
    ("sgd", "momentum=0.9,dampening=0.4"),
    ("rmsprop", None),
    ("rmsprop", "momentum=0.9,alpha=0.95,eps=1e-6"),
    ("rmsprop", "centered=true"),
    ("adagrad", None),
    ("adagrad", "lr_decay=0.1,eps=1e-6"),
    ("adafactor", None),
]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("name", "args"), EXACT)
def test_the_weights_go_where_pytorch_takes_them(name: str, args: str | None, decay: float) -> None:
    ours, theirs = _ours(name, decay, args), _of_transformers(name, decay, args)
    for key in SHAPES:
        np.testing.assert_allclose(ours[key], theirs[key], rtol=2e-5, atol=2e-6, err_msg=key)


def test_a_forgotten_decay_mask_is_noticed() -> None:
    tx = optax.adamw(
        hf_schedule("cosine", 0.03, warmup_steps=5, steps=STEPS), b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.1
    )
    params = jax.tree.map(jnp.asarray, START)
    state = tx.init(params)
    for grads in GRADS:
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    theirs = _of_transformers("adamw_torch", 0.1, None)
    assert not np.allclose(params["input_layernorm.weight"], theirs["input_layernorm.weight"], rtol=1e-3)


def test_lion_follows_its_paper() -> None:
    # bitsandbytes' Lion needs a GPU; its rule, in NumPy.
    ours = _ours("lion_32bit", 0.1, None)["q_proj.weight"]
    schedule = hf_schedule("cosine", 0.03, warmup_steps=5, steps=STEPS)
    weight, mean = START["q_proj.weight"].copy(), np.zeros((6, 4), np.float32)
    for count, grads in enumerate(GRADS):
        rate, grad = float(schedule(count)), grads["q_proj.weight"]
        weight = weight * (1 - rate * 0.1) - rate * np.sign(0.8 * mean + 0.2 * grad)
        mean = 0.95 * mean + 0.05 * grad
    np.testing.assert_allclose(ours, weight, rtol=1e-5, atol=1e-6)


class _Block(nnx.Module):
    def __init__(self) -> None:
        self.attn = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
        self.post_attention_norm = nnx.RMSNorm(2, rngs=nnx.Rngs(0))
        self.kernel_lora_a = nnx.LoRAParam(jnp.zeros((2, 1)))


def test_the_mask_knows_nnx_paths() -> None:
    mask = decay_mask(nnx.state(_Block(), nnx.Param))
    flat = {".".join(map(str, path)): value for path, value in nnx.to_flat_state(mask)}
    found = {name: bool(value if isinstance(value, bool) else value.get_value()) for name, value in flat.items()}
    assert found == {
        "attn.bias": False,
        "attn.kernel": True,
        "kernel_lora_a": True,
        "post_attention_norm.scale": False,
    }


@pytest.mark.parametrize("family", ["gemma3", "gemma4", "qwen2"])
def test_the_mask_spares_as_many_weights_as_transformers(
    family: str, tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]
) -> None:
    from transformers import Trainer

    from porter.runtime.models.load_model import load_model
    from tests.tiny import hf_model

    state = nnx.state(load_model(tiny(family), tiny_mesh(1, 1)), nnx.Param)
    spared = [
        ".".join(map(str, path))
        for path, decayed in nnx.to_flat_state(decay_mask(state))
        if not (decayed if isinstance(decayed, bool) else decayed.get_value())
    ]
    model = hf_model(family)
    decayed = Trainer.get_decay_parameter_names(None, model)  # type: ignore[arg-type]
    theirs = [name for name, _ in model.named_parameters() if name not in decayed]
    assert len([name for name in spared if not name.endswith("skip_scale")]) == len(theirs)
    assert all(name in spared for name in (".".join(map(str, path)) for path, _ in _vectors(state)))


def _vectors(state: Any) -> list[tuple[Any, Any]]:
    return [(path, leaf) for path, leaf in nnx.to_flat_state(state) if leaf.ndim < 2]


def test_clipping_is_off_where_transformers_has_it_off() -> None:
    grads = {"w": jnp.full((4,), 10.0)}
    for off in (None, 0, 0.0, -1.0):
        tx = clip_by_global_norm(off)
        assert float(tx.update(grads, tx.init(grads))[0]["w"][0]) == 10.0
    tx = clip_by_global_norm(1.0)
    assert float(tx.update(grads, tx.init(grads))[0]["w"][0]) == pytest.approx(0.5)


def test_refusals_name_the_optimizer() -> None:
    with pytest.raises(ValueError, match="galore_adamw"):
        hf_optimizer("galore_adamw", 1e-3)
    with pytest.raises(ValueError, match="takes no optim_args rank"):
        hf_optimizer("adamw_torch", 1e-3, args="rank=4")
    with pytest.raises(ValueError, match="key=value"):
        hf_optimizer("sgd", 1e-3, args="momentum")


@pytest.mark.parametrize(
    ("name", "release", "read"),
    [
        ("sgd", "5.2.0", False),
        ("sgd", "5.3.0", True),
        ("rmsprop", "4.51.3", False),
        ("rmsprop_bnb", "4.51.3", True),
        ("rmsprop_bnb_8bit", "5.12.0", True),
        ("adagrad", "4.51.3", False),
        ("adamw_torch", "4.51.3", False),
        ("lion_8bit", "5.12.0", False),
    ],
)
def test_a_release_reads_arguments_of_some_optimizers(name: str, release: str, read: bool) -> None:
    args = "lr_decay=0.5" if name == "adagrad" else "momentum=0.5"
    grads = {"w": jnp.ones(4)}

    def second(**settings: Any) -> float:
        tx = hf_optimizer(name, 1e-3, **settings)
        _, state = tx.update(grads, tx.init(grads), grads)
        return float(tx.update(grads, state, grads)[0]["w"][0])

    assert (second(args=args, transformers=release) == second()) is not read
    assert read or read_arguments(name, args, release) == {}


def test_every_name_of_transformers_is_known_or_refused_by_its_table() -> None:
    from transformers.training_args import OptimizerNames

    from porter.runtime.facts.field_tables import find_table

    row = find_table("transformers.TrainingArguments").row("optim")
    assert row is not None
    for name in (entry.value for entry in OptimizerNames):
        refused = row.verdict(name)[0] == "manual"
        try:
            hf_optimizer(name, 1e-3)
        except ValueError:
            assert refused, name
        else:
            assert not refused, name


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_transformers_old_adamw_adds_epsilon_before_the_correction(decay: float) -> None:
    """Its update rule, optimization.AdamW of transformers 4.31.0, in float64."""
    rates = [float(hf_schedule("cosine", 0.03, warmup_steps=5, steps=STEPS)(step)) for step in range(STEPS)]
    theirs = {name: value.astype(np.float64) for name, value in START.items()}
    first, second = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    for count, (grads, rate) in enumerate(zip(GRADS, rates, strict=True), start=1):
        for name, grad in grads.items():
            first[name] = 0.8 * first[name] + 0.2 * grad
            second[name] = 0.95 * second[name] + 0.05 * np.square(grad)
            size = rate * np.sqrt(1 - 0.95**count) / (1 - 0.8**count)
            theirs[name] -= size * first[name] / (np.sqrt(second[name]) + EPSILON)
            decayed = name in ("q_proj.weight", "q_proj.lora_A.weight")
            theirs[name] -= rate * (decay if decayed else 0.0) * theirs[name]
    ours, torchs = _ours("adamw_hf", decay, None, EPSILON), _ours("adamw_torch", decay, None, EPSILON)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-5, atol=2e-6)
    assert max(np.abs(ours[name] - torchs[name]).max() for name in SHAPES) > 1e-3


def test_a_fused_adamw_rounds_once() -> None:
    """torch's fused kernel, which CPUs have too, on weights in bfloat16; not fused, steps are 6 % smaller here."""
    import torch

    steps, draw = 400, np.random.default_rng(0)
    start = draw.standard_normal(4000).astype(np.float32)
    grads = [draw.standard_normal(4000).astype(np.float32) for _ in range(steps)]
    weight = torch.nn.Parameter(torch.tensor(start).bfloat16())
    theirs = torch.optim.AdamW([weight], lr=1e-2, weight_decay=0.01, fused=True)
    ours = {name: hf_optimizer(name, 1e-2, weight_decay=0.01) for name in ("adamw_torch_fused", "adamw_torch")}
    params = {name: jnp.asarray(start, jnp.bfloat16) for name in ours}
    states = {name: tx.init(params[name]) for name, tx in ours.items()}
    update = {name: jax.jit(tx.update) for name, tx in ours.items()}
    for grad in grads:
        weight.grad = torch.tensor(grad).bfloat16()
        theirs.step()
        for name in ours:
            given, states[name] = update[name](jnp.asarray(grad, jnp.bfloat16), states[name], params[name])
            params[name] = optax.apply_updates(params[name], given)
    wanted = weight.detach().float().numpy()
    off = {name: np.abs(np.asarray(each, np.float32) - wanted).max() for name, each in params.items()}
    assert off["adamw_torch_fused"] < 0.02 < 0.1 < off["adamw_torch"]
    assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(states["adamw_torch_fused"]) if leaf.ndim)
