"""The family tables: ids, sizes, layers and meshes, without JAX."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from porter.runtime.facts.families import families, family_of, find_family, read_family, refusal, tables_folder
from porter.runtime.facts.family import UnknownFamily, rope
from porter.runtime.facts.mesh import mesh_problems


def family(name):
    return next(f for f in families() if f.name == name)


@pytest.mark.parametrize(
    ("hub_id", "name", "layers"),
    [
        ("google/gemma-2b-it", "gemma", 18),
        ("google/gemma-1.1-7b-it", "gemma", 28),
        ("google/gemma-2-9b-it", "gemma2", 42),
        ("google/gemma-3-270m", "gemma3", 18),
        ("unsloth/gemma-3-4b-it", "gemma3", 34),
        ("google/translategemma-12b-it", "gemma3", 48),
        ("google/txgemma-9b-chat", "gemma2", 42),
        ("google/gemma-4-E2B-it", "gemma4", 35),
        ("google/gemma-4-31B", "gemma4", 60),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3", 32),
        ("meta-llama/Llama-3.2-1B", "llama3", 16),
        ("unsloth/Llama-3.3-70B-Instruct", "llama3", 80),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", 32),
        ("unsloth/Mistral-Nemo-Base-2407", "mistral", 40),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2", 24),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2", 64),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2", 28),
        ("Qwen/Qwen3-0.6B-Base", "qwen3", 28),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3", 36),
    ],
)
def test_a_hub_id_finds_its_family_and_sizes(hub_id, name, layers):
    found = find_family(hub_id=hub_id)
    assert found.name == name
    assert found.known_sizes(hub_id)["layers"] == layers


@pytest.mark.parametrize(
    ("hub_id", "name"),
    [
        ("/models/Qwen/Qwen2___5-0___5B", "qwen2"),  # ModelScope's folder
        ("meta-llama/Llama-2-7b-hf", "llama3"),
        ("NousResearch/Llama-2-13b-chat-hf", "llama3"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama3"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "llama3"),
        ("lmsys/vicuna-7b-v1.5", "llama3"),
        ("lmsys/vicuna-7b-v1.5-16k", "llama3"),
        ("codellama/CodeLlama-7b-Instruct-hf", "llama3"),
        ("01-ai/Yi-1.5-9B-Chat", "llama3"),
        ("tiiuae/Falcon3-7B-Instruct", "llama3"),
        ("deepseek-ai/deepseek-coder-6.7b-instruct", "llama3"),
        ("unsloth/Phi-4", "llama3"),
        ("HuggingFaceH4/zephyr-7b-beta", "mistral"),
        ("teknium/OpenHermes-2.5-Mistral-7B", "mistral"),
        ("Qwen/Qwen1.5-7B-Chat", "qwen2"),
    ],
)
def test_models_of_a_known_architecture_by_other_names(hub_id, name):
    assert find_family(hub_id=hub_id).name == name


@pytest.mark.parametrize(
    "hub_id",
    [
        "mistralai/Mixtral-8x7B-v0.1",
        "intfloat/e5-mistral-7b-instruct",
        "Qwen/Qwen1.5-MoE-A2.7B",
        "deepseek-ai/DeepSeek-Coder-V2-Lite-Base",
        "tiiuae/Falcon3-Mamba-7B-Base",
        "google/gemma-3n-E2B-it",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        "HuggingFaceTB/SmolVLM-Instruct",
        "google/embeddinggemma-300m",
        "google/t5gemma-2b-2b-ul2",
    ],
)
def test_other_models_have_no_family(hub_id):
    assert find_family(hub_id=hub_id) is None


# Parameters as their model cards and checkpoints have them: names, shapes and sizes of every tensor add up.
@pytest.mark.parametrize(
    ("hub_id", "parameters"),
    [
        ("google/gemma-2b", 2_506_172_416),
        ("google/gemma-7b", 8_537_680_896),
        ("google/gemma-2-2b", 2_614_341_888),
        ("google/gemma-2-9b", 9_241_705_984),
        ("google/gemma-3-1b-it", 999_885_952),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
        ("mistralai/Mistral-7B-v0.3", 7_248_023_552),
        ("mistralai/Mistral-Nemo-Base-2407", 12_247_782_400),
        ("mistralai/Mistral-Small-24B-Base-2501", 23_572_403_200),
        ("Qwen/Qwen2.5-0.5B", 494_032_768),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-8B", 8_190_735_360),
    ],
)
def test_the_tensors_add_up_to_the_parameters(hub_id, parameters):
    found = find_family(hub_id=hub_id)
    assert sum(math.prod(t.shape_hf) for t in found.tensors(found.known_sizes(hub_id))) == parameters


def test_an_unknown_architecture_is_named_with_the_known_ones():
    with pytest.raises(UnknownFamily, match=r"/m: MixtralForCausalLM is no model family .* Gemma3ForCausalLM"):
        family_of({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}, "/m")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"architectures": ["LlamaForCausalLM"], "attention_bias": True}, "attention_bias is true"),
        ({"architectures": ["LlamaForCausalLM"], "rope_scaling": {"type": "yarn"}}, "rope_type is yarn"),
        ({"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": True}, "use_sliding_window is true"),
        (
            {"architectures": ["Gemma2ForCausalLM"], "head_dim": 128, "query_pre_attn_scalar": 144},
            "query_pre_attn_scalar is 144, Tunix computes 128",
        ),
        (
            {"architectures": ["Gemma4ForConditionalGeneration"], "text_config": {"enable_moe_block": True}},
            "enable_moe_block is true",
        ),
        ({"architectures": ["Gemma3ForCausalLM"], "tie_word_embeddings": False}, "tie_word_embeddings is false"),
    ],
)
def test_settings_that_tunix_does_not_compute_are_refused(config, said):
    with pytest.raises(UnknownFamily, match=said):
        family_of(config, "m")


def test_a_known_id_may_be_refused_at_porting_time():
    assert "mixture of experts" in refusal(family("gemma4"), "google/gemma-4-26B-A4B-it")
    assert "sqrt(144)" in refusal(family("gemma2"), "google/gemma-2-27b-it")
    assert refusal(family("gemma4"), "google/gemma-4-31B-it") is None


def test_sizes_of_a_config_that_leaves_defaults_out():
    # As google/gemma-3-4b-it has it: heads, head_dim and vocabulary are transformers' defaults.
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
    }
    sizes = family_of(config, "m").sizes(config)
    assert sizes == {**family("gemma3").known_sizes("google/gemma-3-4b-it"), **sizes}
    assert (sizes["heads"], sizes["kv_heads"], sizes["head_dim"], sizes["vocab"]) == (8, 4, 256, 262208)
    assert sizes["kinds"][:7] == ("local",) * 5 + ("global", "local")
    assert rope(config)["factor"] == 8.0
    assert (rope(config)["rope_theta"], rope(config)["local"]["rope_theta"]) == (1e6, 1e4)


def test_rotary_settings_of_transformers_4_and_5():
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    four = {"rope_theta": 5e5, "rope_scaling": {**scaling, "rope_type": "llama3"}}
    five = {"rope_parameters": {**scaling, "rope_type": "llama3", "rope_theta": 5e5}}
    assert rope(four) == rope(five) == {**scaling, "rope_type": "llama3", "rope_theta": 5e5}
    assert rope({"rope_theta": 1e6, "rope_scaling": None}) == {"rope_type": "default", "rope_theta": 1e6}


def layer(linears, index):
    return {x.name.rpartition(".")[2]: x for x in linears if x.layer == index}


def test_keys_and_values_are_fused_in_gemma():
    two, seven = (family("gemma").linears(family("gemma").known_sizes(f"google/gemma-{n}b")) for n in (2, 7))
    v = layer(two, 0)["v_proj"]
    assert (v.tunix, v.weight, v.slot, v.slots) == ("layers/0/attn/kv_einsum", "w", 1, 2)
    assert (v.shape_hf, v.shape_tunix) == ((256, 2048), (2, 1, 2048, 256))
    v = layer(seven, 27)["v_proj"]
    assert (v.tunix, v.slot, v.slots, v.shape_tunix) == ("layers/27/attn/qkv_einsum", 2, 3, (3, 16, 3072, 256))


def test_gemma4_global_layers_without_v_have_a_k_einsum():
    linears = family("gemma4").linears(family("gemma4").known_sizes("google/gemma-4-31b"))
    local, other = layer(linears, 4), layer(linears, 5)
    assert (local["k_proj"].tunix, local["k_proj"].kind) == ("layers/4/attn/kv_einsum", "local")
    assert "v_proj" not in other
    assert (other["k_proj"].tunix, other["k_proj"].kind) == ("layers/5/attn/k_einsum", "global")
    assert (other["k_proj"].slots, other["k_proj"].shape_tunix) == (1, (4, 5376, 512))
    assert other["q_proj"].hf == "model.language_model.layers.5.self_attn.q_proj"


def test_gemma4_layers_that_share_keys_and_values_have_none_of_their_own():
    sizes = family("gemma4").known_sizes("google/gemma-4-e2b")
    linears = family("gemma4").linears(sizes)
    assert sorted(layer(linears, 14)) == sorted([*layer(linears, 15), "k_proj", "v_proj"])
    assert [layer(linears, i)["gate_proj"].shape_hf[0] for i in (14, 15)] == [6144, 12288]
    top = [x for x in linears if x.layer is None]
    assert [(x.hf, x.tunix) for x in top] == [
        ("model.language_model.per_layer_model_projection", "embedder/per_layer_model_projection")
    ]
    # Tunix still has the parameters, and a checkpoint may have the tensors.
    unused = {t.tunix for t in family("gemma4").tensors(sizes) if t.unused}
    assert "layers/15/attn/kv_einsum/w" in unused and "layers/14/attn/kv_einsum/w" not in unused


def test_an_untied_head_is_a_linear_and_a_tied_one_is_not():
    llama = family("llama3")
    heads = [
        [x.hf for x in llama.linears(llama.known_sizes(n)) if x.layer is None] for n in ("llama-3.1-8b", "llama-3.2-1b")
    ]
    assert heads == [["lm_head"], []]


def test_default_targets_are_pefts():
    assert family("qwen3").default_targets("qwen3") == ("q_proj", "v_proj")
    assert family("gemma3").default_targets("gemma3") is None
    assert family("gemma4").default_targets("gemma4") == r".*language_model\..*\.(q_proj|v_proj)"


def test_a_mesh_that_divides_everything_is_no_problem():
    qwen3 = family("qwen3")
    assert mesh_problems(qwen3, qwen3.known_sizes("qwen3-8b"), 1, 8) == []


def test_a_mesh_problem_names_the_tensor_and_the_meshes_that_fit():
    gemma4 = family("gemma4")
    assert mesh_problems(gemma4, gemma4.known_sizes("gemma-4-31b"), 1, 8) == [
        "layers/5/attn/k_einsum/w: global_kv_heads = 4 does not divide by tp = 8",
        "meshes of 8 devices that fit: fsdp=8,tp=1, fsdp=4,tp=2, fsdp=2,tp=4",
    ]
    qwen2 = family("qwen2")
    first = mesh_problems(qwen2, qwen2.known_sizes("qwen2.5-0.5b"), 2, 4)[0]
    assert first == "layers/0/attn/q_proj/w: heads = 14 does not divide by tp = 4"


def test_a_single_key_head_is_replicated_not_a_problem():
    gemma = family("gemma")
    assert mesh_problems(gemma, gemma.known_sizes("gemma-2b"), 1, 8) == []


def test_a_contributed_table_comes_first(tmp_path):
    text = (tables_folder() / "qwen3.toml").read_text(encoding="utf-8").replace("Qwen3ForCausalLM", "AcmeForCausalLM")
    own = tmp_path / "acme.toml"
    own.write_text(text.replace('name = "qwen3"', 'name = "acme"'), encoding="utf-8")
    assert find_family("AcmeForCausalLM", extra=[own]).name == "acme"
    assert find_family("Qwen3ForCausalLM", extra=[own]).name == "qwen3"


def test_a_broken_table_names_its_file(tmp_path):
    (tmp_path / "bad.toml").write_text('name = "bad"\n')
    with pytest.raises(ValueError, match=r"bad\.toml: a model family table needs architectures, module"):
        read_family(tmp_path / "bad.toml")


def test_no_jax_and_no_torch():
    code = "import sys, porter.runtime.facts.mesh; print([m for m in ('jax', 'torch', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_an_architecture_however_it_is_spelt() -> None:
    """Llama's first conversions; transformers goes by their model_type."""
    assert family_of({"architectures": ["LLaMAForCausalLM"], "model_type": "llama"}, "here").name == "llama3"
