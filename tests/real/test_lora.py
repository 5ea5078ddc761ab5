"""LoRA against the real PEFT: the same linears, adapters and logits. In training: test_lora_training.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import peft
import pytest
import qwix
import torch
from flax import nnx

from porter.runtime.facts import lora_targets, peft_targets
from porter.runtime.facts.families import family_of
from porter.runtime.lora.apply_lora import adapters, apply_lora, apply_peft, lora_rules, renew_adapters
from porter.runtime.lora.lora_provider import PEFT_INIT, LoraProvider
from porter.runtime.models.load_model import load_model
from porter.runtime.models.rematerialize import remat
from porter.runtime.saving.adapters import adapter_state, apply_adapter, load_adapter, save_adapter
from porter.runtime.saving.save_model import save_model
from tests import tiny as models

from .long import long, mostly_long
from .lora import FAMILIES, LAYOUTS, SEVEN, batches, few, fitting, logits, random_adapter, small, token_loss

pytestmark = pytest.mark.real

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
    sites = lora_targets.resolve(family, config, peft_targets.LoraSpec.read(settings))
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
        spec = peft_targets.LoraSpec.read(settings)
        assert peft_targets.beyond_text(family_of(config, "tiny"), config, spec) == (len(found) > len(expected))


@pytest.mark.parametrize("name", mostly_long(FAMILIES, short=LAYOUTS))
def test_an_adapter_goes_to_tunix_and_back(
    name: str, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    mesh = tiny_mesh(*fitting(name))
    settings = {"r": 3, "lora_alpha": 9, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    wrapped, state = random_adapter(name, settings)
    model = apply_peft(load_model(tiny(name, **few(name)), mesh), settings, mesh, seed=0)

    load_adapter(model, state)
    back = adapter_state(model)

    assert back.keys() == state.keys()
    assert all(np.array_equal(back[key], state[key]) for key in state)
    save_adapter(model, tmp_path / "adapter")
    loaded = peft.PeftModel.from_pretrained(models.hf_model(name, **few(name)), tmp_path / "adapter")
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


def test_adapters_put_in_again_replace_the_trained_ones(
    tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    """In PEFT as here: new ones leave the base, those of a folder are what was saved, whatever the model held."""
    settings: dict[str, Any] = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    wrapped, state = random_adapter("llama3", settings)
    wrapped.save_pretrained(tmp_path)
    inner, ids = wrapped.base_model.model, torch.arange(8, 20)[None]
    trained = wrapped(ids).logits
    again = peft.get_peft_model(inner, peft.LoraConfig.from_pretrained(tmp_path))
    with again.disable_adapter():
        base = again(ids).logits
    assert torch.equal(again(ids).logits, base) and torch.equal(wrapped(ids).logits, base) and not base.equal(trained)
    assert torch.equal(peft.PeftModel.from_pretrained(inner, tmp_path)(ids).logits, trained)

    mesh = tiny_mesh(2, 2)
    ours = load_model(tiny("llama3"), mesh)
    ids = ids.numpy().astype(np.int32)
    plain = logits(ours, ids)
    adapted = load_adapter(apply_peft(ours, settings, mesh, seed=0), state)
    held = logits(adapted, ids)
    assert renew_adapters(adapted, seed=1) is adapted and np.array_equal(logits(adapted, ids), plain)
    drawn = [value for key, value in adapter_state(adapted).items() if "lora_A" in key]
    assert all(0.9 * value.shape[1] ** -0.5 < np.abs(value).max() <= value.shape[1] ** -0.5 for value in drawn)
    assert np.array_equal(logits(load_adapter(adapted, tmp_path), ids), held) and not np.array_equal(held, plain)


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


def test_adapters_of_the_same_settings_are_drawn_anew(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    settings = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"]}
    once = apply_peft(small(tiny, mesh), settings, mesh, seed=3)
    twice = apply_peft(apply_peft(small(tiny, mesh), settings, mesh, seed=0), settings, mesh, seed=3)
    a, b = adapter_state(once), adapter_state(twice)
    assert a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    nnx.split(twice)
    nnx.eval_shape(lambda model: apply_peft(model, settings, mesh, seed=1), twice)  # as tpu-port plan traces it
    with pytest.raises(ValueError, match="of other settings"):
        apply_peft(twice, {**settings, "r": 8}, mesh, seed=3)
    with pytest.raises(ValueError, match="of other settings"):
        provider = LoraProvider([qwix.LoraRule(module_path=".*/(q_einsum|q_proj)", rank=4, alpha=8.0)])
        apply_lora(twice, provider, mesh, seed=3, targets=["q_proj"])
    provider = LoraProvider(
        [
            qwix.LoraRule(module_path=path, rank=rank, alpha=alpha, dropout=0.05, lora_a_initializer=PEFT_INIT)
            for path, rank, alpha in ((".*/q_einsum", 4, 8.0), (".*/kv_einsum", 4, 8.0))
        ]
    )
    by_rules = apply_lora(twice, provider, mesh, seed=5, targets=["q_proj", "v_proj"])
    b, a = adapter_state(by_rules), adapter_state(apply_peft(small(tiny, mesh), settings, mesh, seed=5))
    assert all(np.array_equal(a[key], b[key]) for key in a)
    for _, _, _, pair in adapters(twice):
        pair.set_value(pair.get_value() + 1)
    with pytest.raises(ValueError, match="the first are trained"):
        apply_peft(twice, settings, mesh, seed=3)


def test_rules_that_miss_a_layer_are_named(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    model = load_model(tiny("gemma4_keqv"), mesh)
    missing = LoraProvider([qwix.LoraRule(module_path=".*/(q_einsum|kv_einsum)", rank=4, alpha=4.0)])
    with pytest.raises(ValueError, match=r"layer 2: k_proj has no adapter \(no rule matched layers/2/attn/k_einsum\)"):
        apply_lora(model, missing, mesh, seed=0, targets=["q_proj", "k_proj"])
    with pytest.raises(ValueError, match="layers/0/attn/kv_einsum has an adapter, PEFT makes none there"):
        apply_lora(model, missing, mesh, seed=0, targets=["q_proj"])
    together = LoraProvider([qwix.LoraRule(module_path=".*/(q_einsum|k_einsum|kv_einsum)", rank=4, alpha=4.0)])
    with pytest.raises(ValueError, match="gives k_proj and v_proj rank 2 each, as layers/1/attn/kv_einsum holds them"):
        apply_lora(model, together, mesh, seed=0, targets=["q_proj", "k_proj", "v_proj"])
    with pytest.raises(ValueError, match="matches no linear"):
        apply_lora(model, missing, mesh, seed=0, targets=["qproj"])
    with pytest.raises(ValueError, match=r"before rt\.remat"):
        apply_lora(remat(load_model(tiny("gemma4_keqv"), mesh)), missing, mesh, seed=0, targets=["q_proj"])


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


@long
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
