"""LoRA against the real PEFT: the same linears, adapters and logits; and what keeps it so in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import peft
import pytest
import qwix
import torch
import transformers
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter.runtime import lora_targets
from porter.runtime.adapters import adapter_state, apply_adapter, load_adapter, save_adapter
from porter.runtime.families import family_of
from porter.runtime.lora import adapters, apply_lora, apply_peft, lora_rules, separate_kv
from porter.runtime.lora_provider import PEFT_INIT, LoraProvider
from porter.runtime.merging import merge_and_unload
from porter.runtime.models import load_model
from porter.runtime.rematerialize import remat
from porter.runtime.saving import save_model
from tests import tiny as models

pytestmark = pytest.mark.real

FAMILIES = list(models.MODELS)
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# The paper's recipe: everything but the vision tower, by a regular expression.
REGEX = r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$"
SPECS: list[dict[str, Any]] = [
    {"target_modules": None},
    {"target_modules": SEVEN},
    {"target_modules": "all-linear"},
    {"target_modules": REGEX, "use_rslora": True},
    {"target_modules": ["k_proj"]},
    {"target_modules": ["v_proj", "mlp.down_proj"], "layers_to_transform": [0], "layers_pattern": "layers"},
    {"target_modules": SEVEN, "exclude_modules": ["up_proj", "model.layers.1.self_attn.q_proj"]},
    {"target_modules": "all-linear", "exclude_modules": r".*\.mlp\..*"},
    {"target_modules": ["o_proj", "up_proj"], "rank_pattern": {"up_proj": 2, r"layers\.0\..*": 5}},
    {"target_modules": ["q_proj", "o_proj"], "rank_pattern": {"o_proj": 2}, "alpha_pattern": {r"0\.self_attn.*": 7}},
]


def fitting(name: str) -> tuple[int, int]:
    return (8, 1) if name in ("gemma_mqa", "gemma4_ple") else (2, 4)


def in_peft(model: Any, settings: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """Name -> (rank, scale) of the linears that PEFT adapts; the model is left as it was."""
    wrapped = peft.get_peft_model(model, peft.LoraConfig(**settings))
    found = {
        name.removeprefix("base_model.model."): (layer.r["default"], round(layer.scaling["default"], 9))
        for name, layer in wrapped.named_modules()
        if isinstance(layer, peft.tuners.lora.LoraLayer)
    }
    wrapped.unload()
    return found


def in_tunix(config: dict[str, Any], settings: dict[str, Any]) -> dict[str, tuple[int, float]]:
    family = family_of(config, "tiny")
    sites = lora_targets.resolve(family, config, lora_targets.LoraSpec.read(settings))
    return {block.hf: (block.rank, round(site.alpha / site.rank, 9)) for site in sites for block in site.blocks}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_linears_as_peft(name: str) -> None:
    model = models.hf_model(name)
    config = model.config.to_dict()
    for settings in SPECS:
        settings = {"r": 4, "lora_alpha": 6, **settings}
        try:
            expected = in_peft(model, settings)
        except ValueError as error:
            with pytest.raises(ValueError, match="target_modules"):
                in_tunix(config, settings)
            assert "target_modules" in str(error)  # PEFT has no default for gemma4_text
            continue
        assert in_tunix(config, settings) == expected, settings


def test_the_text_model_inside_a_multimodal_one() -> None:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text = models.hf_config("gemma3").to_dict()
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    full = Gemma3Config(text_config=text, vision_config={**vision, "image_size": 28, "patch_size": 14})
    full.architectures = ["Gemma3ForConditionalGeneration"]
    with torch.device("meta"):
        model = Gemma3ForConditionalGeneration(full)
    for settings in ({"target_modules": REGEX}, {"target_modules": SEVEN}, {"target_modules": "all-linear"}):
        found = in_peft(model, settings)
        expected = {name: value for name, value in found.items() if "language_model" in name}
        config = full.to_dict()
        assert in_tunix(config, settings) == expected
        spec = lora_targets.LoraSpec.read(settings)
        assert lora_targets.beyond_text(family_of(config, "tiny"), config, spec) == (len(found) > len(expected))


def logits(model: nnx.Module, ids: np.ndarray) -> np.ndarray:
    rows, length = ids.shape
    positions = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
    mask = np.tile(np.tril(np.ones((length, length), bool)), (rows, 1, 1))
    out = nnx.jit(lambda m, i, p, a: m(i, p, None, a)[0])(model, ids, positions, mask)
    return np.asarray(out, np.float32)


def random_adapter(name: str, settings: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """A tiny model in PEFT with a random adapter, B included, and its state dict."""
    wrapped = peft.get_peft_model(models.hf_model(name), peft.LoraConfig(**settings))
    torch.manual_seed(1)
    for key, parameter in wrapped.named_parameters():
        if "lora_" in key:
            torch.nn.init.normal_(parameter, std=0.1)
    return wrapped, {k: v.numpy() for k, v in peft.get_peft_model_state_dict(wrapped).items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapter_goes_to_tunix_and_back(
    name: str, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    mesh = tiny_mesh(*fitting(name))
    settings = {"r": 3, "lora_alpha": 9, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    wrapped, state = random_adapter(name, settings)
    model = apply_peft(load_model(tiny(name), mesh), settings, mesh, seed=0)

    load_adapter(model, state)
    back = adapter_state(model)

    assert back.keys() == state.keys()
    assert all(np.array_equal(back[key], state[key]) for key in state)
    save_adapter(model, tmp_path / "adapter")
    loaded = peft.PeftModel.from_pretrained(models.hf_model(name), tmp_path / "adapter")
    assert all(torch.equal(v, wrapped.state_dict()[k]) for k, v in loaded.state_dict().items())
    ids = np.random.default_rng(0).integers(8, models.VOCAB - 16, (2, 24)).astype(np.int32)
    with torch.no_grad():
        expected = loaded.eval()(torch.from_numpy(ids).long()).logits.numpy()
        base = loaded.unload()(torch.from_numpy(ids).long()).logits.numpy()
    with mesh:
        got = logits(model, ids)
    assert np.abs(got - expected).max() < 1e-4
    assert np.abs(base - expected).max() > 1e-1  # the adapter is seen at all
    load_adapter(model, tmp_path / "adapter")


def small(tiny: Callable[..., Path], mesh: Any, name: str = "gemma3", **load: Any) -> nnx.Module:
    return load_model(tiny(name, num_hidden_layers=1), mesh, **load)


def test_a_saved_adapter_is_trained_on(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    mesh = tiny_mesh(2, 4)
    settings = {"r": 3, "lora_alpha": 9, "target_modules": ["q_proj", "k_proj"], "lora_dropout": 0.1}
    model = apply_peft(small(tiny, mesh), settings, mesh, seed=0)
    dice = np.random.default_rng(0)
    load_adapter(model, {key: dice.normal(size=value.shape) for key, value in adapter_state(model).items()})
    save_adapter(model, tmp_path / "adapter" / "last")

    again = apply_adapter(small(tiny, mesh), tmp_path / "adapter", mesh, seed=7, subfolder="last")

    before, after = adapter_state(model), adapter_state(again)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert (again.lora.spec.r, again.lora.spec.lora_alpha, again.lora.spec.lora_dropout) == (3, 9, 0.1)
    with pytest.raises(FileNotFoundError, match=r"no adapter_config\.json"):
        apply_adapter(model, tmp_path / "adapter", mesh, seed=7)
    with pytest.raises(FileNotFoundError, match="is no folder"):
        apply_adapter(model, tmp_path / "none", mesh, seed=7)


def test_the_literal_rules_of_a_port(tiny: Callable[..., Path], tiny_mesh: Any, capsys: Any) -> None:
    mesh = tiny_mesh(2, 4)
    model = small(tiny, mesh)
    provider = LoraProvider(
        [
            qwix.LoraRule(
                module_path=".*/(q_einsum|attn_vec_einsum|gate_proj|up_proj|down_proj)",
                rank=4,
                alpha=8.0,
                lora_a_initializer=PEFT_INIT,
            ),
            qwix.LoraRule(module_path=".*/kv_einsum", rank=8, alpha=16.0, lora_a_initializer=PEFT_INIT),
        ]
    )
    written = apply_lora(model, provider, mesh, seed=3, targets=SEVEN)
    described = apply_peft(model, {"r": 4, "lora_alpha": 8, "target_modules": SEVEN}, mesh, seed=3)
    a, b = adapter_state(written), adapter_state(described)
    assert a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
    assert written.lora.sites == described.lora.sites
    assert "LoRA: 7 linears" in capsys.readouterr().out


def test_an_adapter_starts_as_in_peft(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    state = adapter_state(apply_peft(small(tiny, mesh), {"r": 16, "target_modules": SEVEN}, mesh, seed=0))
    for key, value in state.items():
        if "lora_B" in key:
            assert not value.any()
            continue
        bound = value.shape[1] ** -0.5  # kaiming_uniform_(a=sqrt(5))
        assert np.abs(value).max() <= bound
        assert np.abs(value).max() > 0.97 * bound
        assert abs(value.std() / (bound / 3**0.5) - 1) < 0.08
    gaussian = {"r": 16, "target_modules": SEVEN, "init_lora_weights": "gaussian"}
    for key, value in adapter_state(apply_peft(small(tiny, mesh), gaussian, mesh, seed=0)).items():
        assert value.std() == (0 if "lora_B" in key else pytest.approx(1 / 16, rel=0.1))
    random = {"r": 16, "target_modules": SEVEN, "init_lora_weights": False}
    model = apply_peft(small(tiny, mesh), random, mesh, seed=0)
    for key, value in adapter_state(model).items():  # which also says that B is zero outside its blocks
        assert np.abs(value).max() == pytest.approx(value.shape[1] ** -0.5, rel=0.03), key


def test_rules_that_miss_a_layer_are_named(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    model = load_model(tiny("gemma4_keqv"), mesh)
    missing = LoraProvider([qwix.LoraRule(module_path=".*/(q_einsum|kv_einsum)", rank=4, alpha=4.0)])
    with pytest.raises(ValueError, match=r"layer 5: k_proj has no adapter \(no rule matched layers/5/attn/k_einsum\)"):
        apply_lora(model, missing, mesh, seed=0, targets=["q_proj", "k_proj"])
    with pytest.raises(ValueError, match="layers/0/attn/kv_einsum has an adapter, PEFT makes none there"):
        apply_lora(model, missing, mesh, seed=0, targets=["q_proj"])
    together = LoraProvider([qwix.LoraRule(module_path=".*/(q_einsum|k_einsum|kv_einsum)", rank=4, alpha=4.0)])
    with pytest.raises(ValueError, match="gives k_proj and v_proj rank 2 each, as layers/4/attn/kv_einsum holds them"):
        apply_lora(model, together, mesh, seed=0, targets=["q_proj", "k_proj", "v_proj"])
    with pytest.raises(ValueError, match="matches no linear"):
        apply_lora(model, missing, mesh, seed=0, targets=["qproj"])
    with pytest.raises(ValueError, match=r"before rt\.remat"):
        apply_lora(remat(load_model(tiny("gemma4_keqv"), mesh)), missing, mesh, seed=0, targets=["q_proj"])


def token_loss(model: nnx.Module, ids: jax.Array) -> jax.Array:
    rows, length = ids.shape
    positions = jnp.broadcast_to(jnp.arange(length), ids.shape)
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((length, length), bool)), (rows, length, length))
    scores = model(ids, positions, None, mask)[0][:, :-1].astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(scores, ids[:, 1:]).mean()


def batches(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"ids": rng.integers(8, models.VOCAB - 16, (8, 16)).astype(np.int32)} for _ in range(count)]


def train(
    model: nnx.Module, mesh: Any, optimizer: Any, steps: int = 3, evaluate: Any = None, **config: Any
) -> PeftTrainer:
    settings = TrainingConfig(eval_every_n_steps=10**9, max_steps=steps, **config)
    trainer = PeftTrainer(model, optimizer, settings).with_loss_fn(token_loss)
    with mesh:
        trainer.train(batches(steps * (config.get("gradient_accumulation_steps") or 1)), evaluate)
    return trainer


@pytest.mark.parametrize("name, targets", [("gemma3", SEVEN), ("gemma", ["k_proj", "v_proj"]), ("gemma3", ["v_proj"])])
def test_k_and_v_stay_apart_in_training(
    name: str, targets: list[str], tiny: Callable[..., Path], tiny_mesh: Any
) -> None:
    mesh = tiny_mesh(1, 2)
    model = apply_peft(small(tiny, mesh, name), {"r": 2, "lora_alpha": 8, "target_modules": targets}, mesh, seed=0)
    chain = optax.chain(separate_kv(model), optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    train(model, mesh, chain, gradient_accumulation_steps=2)
    assert all(value.any() for value in adapter_state(model).values())  # raises if B left its blocks


def test_an_adapter_that_mixes_k_and_v_is_no_peft_adapter(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 2)
    model = apply_peft(small(tiny, mesh), {"r": 2, "target_modules": SEVEN}, mesh, seed=0)
    train(model, mesh, optax.sgd(1e-2), steps=1)
    with pytest.raises(ValueError, match=r"put rt.separate_kv\(model\) first"):
        adapter_state(model)


def test_nothing_to_separate(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    full = small(tiny, mesh, "qwen3")
    model = apply_peft(full, {"target_modules": SEVEN}, mesh, seed=0)
    tree = {"a": jnp.ones(3)}
    for transformation in (separate_kv(full), separate_kv(model)):
        assert transformation.update(tree, transformation.init(tree))[0] is tree


@pytest.mark.parametrize("name", ["gemma3", "gemma4"])  # one that computes in its weights' dtype, one with a dtype
def test_float32_adapters_over_a_bf16_base(name: str, tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    model = small(tiny, mesh, name, dtype=jnp.bfloat16)
    adapted = apply_peft(model, {"r": 4, "target_modules": SEVEN}, mesh, seed=0)
    ids = batches(1)[0]["ids"]
    with mesh:
        assert np.array_equal(logits(adapted, ids), logits(model, ids))  # B is zero: the casts are right
    random = {k: v + 0.1 for k, v in adapter_state(adapted).items()}
    load_adapter(adapted, random)
    trainer = train(adapted, mesh, optax.chain(separate_kv(adapted), optax.adam(1e-6)), steps=1)
    assert all(x.get_value().dtype == jnp.float32 for _, _, a, b in adapters(adapted) for x in (a, b))
    moments = [x for x in jax.tree.leaves(nnx.state(trainer.optimizer, nnx.optimizer.OptState)) if x.ndim]
    assert moments and all(x.dtype == jnp.float32 for x in moments)
    # Adam's first step is the learning rate: far below what bf16 resolves at these values (1/256 of them).
    changes = [np.abs(value - random[key]).max() for key, value in adapter_state(adapted).items()]
    assert max(changes) < 2e-6 and min(changes) > 5e-7


@pytest.mark.parametrize("shape", [(2, 4), (8, 1)])
def test_the_optimizer_state_lies_like_the_adapters(
    shape: tuple[int, int], tiny: Callable[..., Path], tiny_mesh: Any
) -> None:
    mesh = tiny_mesh(*shape)
    model = remat(apply_peft(small(tiny, mesh), {"r": 4, "target_modules": SEVEN}, mesh, seed=0))
    chain = optax.chain(separate_kv(model), optax.adamw(1e-3))
    trainer = train(model, mesh, chain, steps=1, gradient_accumulation_steps=2)
    placed: dict[tuple[int, ...], set[str]] = {}
    sharded = 0
    for path, _, a, b in adapters(model):
        for adapter in (a, b):
            value = adapter.get_value()
            assert value.sharding.mesh.shape == mesh.shape, path
            placed.setdefault(value.shape, set()).add(str(_canonical(value)))
            sharded += value.sharding.shard_shape(value.shape) != value.shape
    assert sharded > 4
    state = [x for x in jax.tree.leaves(nnx.state(trainer.optimizer, nnx.optimizer.OptState)) if x.ndim > 1]
    assert len(state) >= 3 * 2 * len(list(adapters(model)))  # two moments and the accumulated gradient
    for x in state:
        assert str(_canonical(x)) in placed[x.shape]


def _canonical(x: jax.Array) -> tuple[int, ...]:
    return x.sharding.shard_shape(x.shape)


@pytest.mark.parametrize("name, checkpointing", [("qwen3", False), ("qwen3", True), ("gemma3", True), ("gemma4", True)])
def test_dropout_in_training_only(name: str, checkpointing: bool, tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    base = small(tiny, mesh, name)

    def adapted(dropout: float) -> nnx.Module:
        settings = {"r": 4, "target_modules": SEVEN, "init_lora_weights": False, "lora_dropout": dropout}
        model = apply_peft(base, settings, mesh, seed=0)
        return remat(model) if checkpointing else model

    plain, dropped = adapted(0.0), adapted(0.5)
    assert not nnx.state(plain, nnx.RngState) and nnx.state(dropped, nnx.RngState)
    ids = jnp.asarray(batches(1)[0]["ids"])
    loss = nnx.jit(lambda m: token_loss(m, ids))
    step = nnx.jit(nnx.value_and_grad(lambda m: token_loss(m, ids), argnums=nnx.DiffState(0, nnx.LoRAParam)))
    with mesh:
        evaluated = float(loss(plain))
        assert float(loss(dropped)) == evaluated
        trained = [float(step(dropped)[0]) for _ in range(40)]
        assert len({evaluated, *trained}) == 41  # another mask every step
        assert float(loss(dropped)) == evaluated
    assert abs(np.mean(trained) - evaluated) < 4 * np.std(trained)


def test_dropout_is_off_in_the_trainers_evaluation(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    settings = {"r": 4, "target_modules": SEVEN, "init_lora_weights": False, "lora_dropout": 0.5}
    model = apply_peft(small(tiny, mesh, "qwen3"), settings, mesh, seed=0)
    trainer = train(model, mesh, optax.sgd(0.0), steps=1, evaluate=batches(1))
    with mesh:
        expected = float(nnx.jit(token_loss)(model, batches(1)[0]["ids"]))
    assert float(trainer.metrics_logger.get_metric("", "loss", "eval")) == pytest.approx(expected, rel=1e-6)
    assert float(trainer.metrics_logger.get_metric("", "loss", "train")) != pytest.approx(expected, rel=1e-3)


def test_a_whole_model_is_saved_as_it_was_loaded(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    for name in ("gemma3", "gemma4_ple", "qwen2"):
        mesh = tiny_mesh(*fitting(name))
        model = load_model(tiny(name), mesh)
        save_model(model, tmp_path / name)
        original = AutoModelForCausalLM.from_pretrained(tiny(name)).state_dict()
        saved = AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict()
        assert original.keys() == saved.keys()
        assert all(torch.equal(original[key], saved[key]) for key in original)


def test_rules_by_name(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    model = small(tiny, tiny_mesh(2, 4))
    plain, fused = lora_rules(model, r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj"], lora_dropout=0.1)
    assert (plain.module_path, plain.rank, plain.alpha) == (".*/q_einsum", 4, 8.0)
    assert (fused.module_path, fused.rank, fused.alpha, fused.dropout) == (".*/kv_einsum", 8, 16.0, 0.1)
    with pytest.raises(ValueError, match="use_dora"):
        lora_rules(model, use_dora=True)


def test_what_qwix_and_tunix_still_do_differently(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    """Each assertion fails once upstream does as PEFT does: then its workaround in lora_provider.py can go."""
    mesh = tiny_mesh(1, 1)
    rule = {"module_path": ".*/q_einsum", "rank": 4, "alpha": 4.0, "dropout": 0.5}

    def qwix_alone(model: nnx.Module) -> nnx.Module:
        with mesh:
            provider = qwix.LoraProvider([qwix.LoraRule(**rule, lora_b_initializer=jax.nn.initializers.ones)])
            return qwix.apply_lora_to_model(model, provider, rngs=nnx.Rngs(0), **model.get_model_input())

    model = qwix_alone(small(tiny, mesh, "gemma4", dtype=jnp.bfloat16))
    ((_, _, a, _),) = adapters(model)
    assert a.get_value().dtype == jnp.bfloat16  # PEFT: float32
    assert np.abs(a.get_value()).max() > 64**-0.5  # PEFT's bound; qwix 0.1.8 starts with he_uniform
    model.set_attributes(qwix_rngs=nnx.Rngs(dropout=0))
    with mesh:
        ids = batches(1)[0]["ids"]
        assert nnx.jit(token_loss)(model, ids) != nnx.jit(token_loss)(model, ids)  # dropout without any gradient
    assert not list(adapters(qwix_alone(remat(small(tiny, mesh, "gemma4")))))  # google-tunix 0.1.7: remat loses them


@pytest.mark.parametrize("name", ["gemma3", "qwen3"])
def test_a_merged_model_is_pefts_merged_model(
    name: str, tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path
) -> None:
    base = tiny(name)
    model = apply_peft(
        load_model(str(base), tiny_mesh(2, 2)), {"r": 4, "target_modules": SEVEN}, tiny_mesh(2, 2), seed=3
    )
    dice = np.random.default_rng(0)
    load_adapter(model, {key: dice.normal(size=value.shape) for key, value in adapter_state(model).items()})

    merge_and_unload(model).save_pretrained(tmp_path / "merged", safe_serialization=True)

    save_adapter(model, tmp_path / "adapter")
    torch_model = transformers.AutoModelForCausalLM.from_pretrained(base)
    expected = peft.PeftModel.from_pretrained(torch_model, tmp_path / "adapter").merge_and_unload().state_dict()
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").state_dict()
    assert expected.keys() == found.keys()
    assert max(float((expected[key] - found[key]).abs().max()) for key in expected) < 1e-5
