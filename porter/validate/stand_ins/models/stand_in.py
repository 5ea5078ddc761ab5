"""A tiny model of a family: random weights, the family's special tokens and its chat template.

What a stand-in keeps of the family is what a port can get wrong: layer names, fused and grouped heads, local and
global layers, rotary parameters, tied embeddings, special tokens. Sizes are chosen so that a training step takes
milliseconds and every mesh of up to eight devices divides the heads.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....runtime.facts.families import find_family
from .model_choice import Choice, choose
from .stand_in_tokenizer import write_tokenizer
from .stand_in_tokens import ROWS, tokens_of, with_written

SMALL = re.compile(r"(0\.5b|0\.6b|1\.5b|1\.7b|1b|3b|4b)(\b|-)", re.IGNORECASE)

FAMILIES = ("gemma", "gemma2", "gemma3", "gemma4", "llama3", "mistral", "qwen2", "qwen3")
WINDOWED = (4, 48)  # transformers applies Mistral's window on the CPU from here on
SCALED = (4, 43)  # and reads Llama 3.1's rotary scaling
WROTE = "4.40.0"  # the release that the files say they are from: they have the form of that time
# What of Gemma 3's own generation_config.json decides whether it generates: without this cache the layers with a window
# of transformers 4.50 to 4.52 end behind it, and from this release on a trainer's own settings leave it as it is.
OF_GEMMA_3 = {"cache_implementation": "hybrid", "transformers_version": "4.50.0.dev0"}

# Mistral's turns; TRL carries no template of theirs.
MISTRAL = """{{ bos_token }}
{%- for message in messages %}
    {%- set answer = message['role'] == 'assistant' %}
    {{- message['content'] + eos_token if answer else '[INST] ' + message['content'] + ' [/INST]' }}
{%- endfor %}"""

# Llama 2's turns, whose system message stands inside the first user's.
LLAMA_2 = """{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- set lead = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' if system and loop.index0 == 1 else '' %}
        {{- bos_token + '[INST] ' + lead + message['content'].strip() + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}"""

# SmolLM's turns, which name who it is where the first message doesn't.
CHATML = """{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\nYou are a helpful AI assistant<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

# Those of Zephyr and TinyLlama-Chat.
ZEPHYR = """{%- for message in messages %}
    {{- '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}"""
OF_ZEPHYR = re.compile(r"zephyr|tinyllama.*chat")

# Rotary scaling's own numbers, which the Hub's files keep in `rope_scaling`.
OLD_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def make_stand_in(
    folder: str | Path,
    model_id: str,
    family: str,
    *,
    kv_heads: int = 4,
    seed: int = 0,
    template: bool = True,
    release: tuple[int, ...] = (),
    own_heads: bool = False,
    pads: bool = False,
    texts: Sequence[str] = (),
    guessed: bool = False,
) -> Path:
    """Write a tiny model and tokenizer of `family` into `folder` and return it; a finished folder is left as it is.

    `model_id` picks what differs within a family (tokens, tied embeddings, rotary scaling, shared keys and values).
    `kv_heads` key and value heads and twice as many query heads, or with `own_heads` as many. Without `template` the
    tokenizer has no chat template, as those of most base models; with `pads` it has a token to pad with, and it has the
    tokens that scripts' `texts` count on, see `with_written`. Imports torch and transformers. The files are in the form
    that transformers reads from 4.31 on. `release`: of the transformers that trains it, for what an older one does
    wrong.
    ValueError for a family without a stand-in.
    """
    folder = Path(folder)
    if (folder / "finished").exists():
        return folder
    if family not in FAMILIES:
        raise ValueError(f"there is no stand-in for family {family!r}: give a small model of it with --model PATH")
    folder.mkdir(parents=True, exist_ok=True)
    tokens = with_written(tokens_of(family, model_id), family, model_id, texts, guessed=guessed)
    if pads and tokens.pad is None:
        tokens = replace(tokens, pad=tokens.unknown or (tokens.others[-1] if tokens.others else tokens.end))
    write_tokenizer(folder, tokens, chat_template(family, model_id) if template else None)
    from tokenizers import Tokenizer

    number = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id
    model = make_model(family, model_id, kv_heads=kv_heads, seed=seed, release=release, own_heads=own_heads)
    for name, token in (("bos", tokens.begin), ("eos", tokens.end), ("pad", tokens.pad)):
        setattr(model.config, f"{name}_token_id", number(token) if token else None)
        setattr(model.generation_config, f"{name}_token_id", number(token) if token else None)
    model.save_pretrained(folder)
    for file in ("config.json", "generation_config.json"):
        content = json.loads((folder / file).read_text(encoding="utf-8"))
        generates = {"transformers_version": WROTE} | (OF_GEMMA_3 if family == "gemma3" else {})
        content = as_on_the_hub(content) if file == "config.json" else content | generates
        (folder / file).write_text(json.dumps(content, indent=1), encoding="utf-8")
    (folder / "finished").touch()
    return folder


def as_on_the_hub(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json of transformers 5 with the keys of the Hub's own files, which all releases read."""
    if config["model_type"].startswith("gemma4"):
        return config  # no older release knows this family
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype")}
    old |= {"torch_dtype": config.get("dtype", "float32"), "transformers_version": WROTE, "rope_scaling": None}
    rotary = config.get("rope_parameters") or {}
    if "full_attention" in rotary:
        old["rope_local_base_freq"] = rotary["sliding_attention"]["rope_theta"]
        old["sliding_window_pattern"] = 6
        rotary = rotary["full_attention"]
    if rotary:
        old["rope_theta"] = rotary["rope_theta"]
    if rotary.get("rope_type", "default") != "default":
        kind = rotary["rope_type"]
        old["rope_scaling"] = {"rope_type": kind, **{key: rotary[key] for key in OLD_ROPE if key in rotary}}
        if kind == "linear":
            old["rope_scaling"] = {"type": kind, "factor": rotary["factor"]}  # all that was allowed before 4.43
    return old


def chat_template(family: str, model_id: str = "") -> str:
    """The family's chat template as TRL carries it: TRL knows its training variant only by the exact text."""
    import trl

    name = model_id.lower()
    if OF_ZEPHYR.search(name):
        return ZEPHYR
    if family == "mistral":
        return MISTRAL
    if "smollm" in name and family == "llama3":
        return CHATML
    if family == "llama3" and tokens_of(family, model_id).pieces == "sentencepiece":
        return LLAMA_2
    file = {"qwen2": "qwen2_5", "gemma2": "gemma"}.get(family, family)
    if family == "qwen3" and "2507" in name:
        file = "qwen3_instruct_2507"
    if family == "llama3":
        file = "llama3_2" if "3.2" in name else "llama3_1" if "3.1" in name else "llama3"
    path = Path(trl.__file__).parent / "chat_templates" / f"{file}.jinja"
    if not path.exists():
        raise FileNotFoundError(f"this trl has no chat template {file}.jinja: upgrade it, or give --model PATH")
    return path.read_text(encoding="utf-8")


def make_model(
    family: str,
    model_id: str,
    *,
    kv_heads: int = 4,
    seed: int = 0,
    release: tuple[int, ...] = (),
    own_heads: bool = False,
) -> Any:
    """A float32 model of the family with random weights, norms and biases included."""
    import torch
    import transformers

    config = make_config(family, model_id, kv_heads=kv_heads)
    if own_heads:
        config.num_key_value_heads = config.num_attention_heads
    if family == "mistral" and config.sliding_window and release and release < WINDOWED:
        config.sliding_window = 4096  # the published one: these leave it out on the CPU where no row is padded
    if release and release < SCALED and (config.rope_parameters or {}).get("rope_type") == "llama3":
        config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if "layer_scalar" in name:
                buffer.add_(0.1 * torch.randn_like(buffer))
    return model


def make_config(family: str, model_id: str = "", *, kv_heads: int = 4) -> Any:
    """The transformers config of the family's stand-in."""
    import transformers

    name = model_id.lower()
    heads, width = 2 * kv_heads, 16
    # Older releases divide the width by the heads in these families, and so do all models of them but a few.
    divided = family in ("qwen2", "llama3", "mistral") and "nemo" not in name and "24b" not in name
    shared: dict[str, Any] = {
        "vocab_size": ROWS,
        "hidden_size": heads * width if divided else 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "max_position_embeddings": _positions(family, model_id),
        "initializer_range": 0.1,
        "dtype": "float32",
    }
    tied = bool(SMALL.search(name))
    if family == "qwen3":
        theta = 5e6 if "2507" in name else 1e6
        rotary = {"rope_type": "default", "rope_theta": theta}
        return transformers.Qwen3Config(**shared, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "qwen2":
        del shared["head_dim"]
        rotary = {"rope_type": "default", "rope_theta": 1e6}
        return transformers.Qwen2Config(**shared, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "llama3":
        rotary = {"rope_type": "default", "rope_theta": 500000.0}
        if "3.1" in name or "3.2" in name or "3.3" in name:
            rotary |= {
                "rope_type": "llama3",
                "factor": 32.0 if "3.2" in name else 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            }
        if "deepseek-coder" in name:
            rotary = {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0}
        tied = tied and ("3.2" in name or "smollm" in name)
        if tokens_of(family, model_id).pieces == "sentencepiece":
            rotary = {"rope_type": "default", "rope_theta": 1e6 if "codellama" in name else 1e4}
        return transformers.LlamaConfig(**shared, rms_norm_eps=1e-5, tie_word_embeddings=tied, rope_parameters=rotary)
    if family == "mistral":
        # The first release has a window, here a short one, the later ones none.
        window, theta = (32, 1e4) if "v0.1" in name or "zephyr" in name else (None, 1e6)
        rotary = {"rope_type": "default", "rope_theta": theta}
        return transformers.MistralConfig(**shared, rms_norm_eps=1e-5, sliding_window=window, rope_parameters=rotary)
    if family == "gemma":
        return transformers.GemmaConfig(**shared, hidden_act="gelu_pytorch_tanh")
    if family == "gemma2":
        # The published window: Tunix masks packed rows by position, which differs once a row is longer than it.
        return transformers.Gemma2Config(
            **shared | {"num_hidden_layers": 4},
            query_pre_attn_scalar=width,
            sliding_window=4096,
            final_logit_softcapping=30.0,
            attn_logit_softcapping=50.0,
        )
    if family == "gemma3":
        return transformers.Gemma3TextConfig(
            **shared | {"num_hidden_layers": 7}, query_pre_attn_scalar=width, sliding_window=32
        )
    return _gemma4(shared, name)


def _positions(family: str, model_id: str) -> int:
    """The published positions where they are few: transformers 4.38 and 4.39 make a mask of their square for Llama."""
    name = model_id.lower()
    if family == "llama3" and tokens_of(family, model_id).pieces == "sentencepiece":
        return 16384 if "codellama" in name else 2048 if "tinyllama" in name else 4096
    if family == "llama3":
        return 131072 if re.search(r"3\.[123]", name) else 8192
    return 8192 if family in ("gemma", "gemma2") else 131072


def _gemma4(shared: dict[str, Any], name: str) -> Any:
    import transformers

    width = shared["head_dim"]
    own: dict[str, Any] = {
        "num_hidden_layers": 6,
        "sliding_window": 32,
        "global_head_dim": 2 * width,
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": ROWS,
    }
    if "e2b" in name or "e4b" in name:
        own |= {"num_hidden_layers": 10, "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 5}
        own["use_double_wide_mlp"] = True
        own["layer_types"] = (["sliding_attention"] * 4 + ["full_attention"]) * 2
    else:
        own |= {"attention_k_eq_v": True, "num_global_key_value_heads": shared["num_key_value_heads"]}
    return transformers.Gemma4TextConfig(**shared | own)


def main() -> int:
    """Build one stand-in in a process of the tool's own: what is asked for comes as JSON on standard input.

    The answer, family and reason, is left in the folder. Exit status 2 and a line for a model that nothing stands for.
    """
    asked = json.load(sys.stdin)
    release = tuple(int(part) for part in re.findall(r"\d+", asked["release"])[:2])
    texts, name = asked["texts"], asked["name"]
    try:
        if asked["config"] and Path(asked["config"]).is_file():
            choice = of_config(Path(asked["config"]), name)
        else:
            project = Path(asked["project"]) if asked["project"] else None
            choice = choose(name, texts, project, asked["family"], release)
        # Base models have no template: a script that brings its own may fail, or do something else, where there is one.
        brought = any(
            re.search(r"setup_chat_format|chat_template\s*(=|is)|clone_chat_template", text) for text in texts
        )
        make_stand_in(
            asked["folder"],
            choice.member,
            choice.family,
            kv_heads=asked["kv_heads"],
            seed=asked["seed"],
            template=tokens_of(choice.family, choice.member).chat or not brought,
            release=release,
            # A script that sets no token to pad with has one in the folder that it names.
            pads=bool(choice.reason) and not any("pad_token" in text for text in texts),
            texts=texts,
            guessed=bool(choice.reason),
            own_heads=not choice.reason and has_own_heads(choice.family, choice.member),
        )
    except (ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    answer = {"family": choice.family, "reason": choice.reason}
    (Path(asked["folder"]) / "stand_in.json").write_text(json.dumps(answer), encoding="utf-8")
    return 0


def has_own_heads(family: str, member: str) -> bool:
    """Whether the model has keys and values of their own for each query, and Tunix one tensor of all three then.

    That is Gemma 7B: adapters go to another layer than in the rest of its family.
    """
    known = find_family(hub_id=member)
    sizes = (known.known_sizes(member) if known is not None else None) or {}
    return family.startswith("gemma") and bool(sizes) and sizes.get("heads") == sizes.get("kv_heads")


def of_config(config: Path, name: str) -> Choice:
    """The choice for a model folder that is too large to train here."""
    model_type = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    family = find_family(model_type=str(model_type))
    if family is None:
        raise ValueError(f"{name}: no family of model_type {model_type!r}: give a small model with --model PATH")
    return Choice(family.name, name)


if __name__ == "__main__":
    sys.exit(main())
