"""Models that Tunix 0.1.7 has no implementation for, by the names that they have on the Hub.

What a name doesn't tell, the model's config.json decides when the port runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Those of a maker whose other models it has, or whose name has one of these in it.
NOT_OF_THE_FAMILY = re.compile(
    r"^qwen(?:-\d|1[._]8b)|(?:^|[-_.])(?:mixtral|mistral-small-[34]|ministral-3|pixtral|voxtral|gemma-?3n|t5-?gemma|(?:pali|recurrent|vault)"
    r"gemma|shieldgemma-2-|llama-4|llama-3\.2-(?:11b|90b)|llama-guard-(?:4|3-11b)|diffllama|video-?llama|qwen1\.5-moe|"
    r"qwen[\d.]*-(?:vl|omni|audio)(?![a-z])|colqwen|qwen3\.5|qwen3-(?:30b|235b|coder|next)|"
    r"falcon-?mamba|llava|idefics|vl(?![a-z])|a\d+(?:\.\d+)?b(?![a-z\d])|moe(?![a-z]))"
)
# Those whose name is a word of its own, or the first of one: decoders, ...
DECODERS = (
    "mamba", r"phi[-_]?\d", "falcon(?!3)", "gpt-?2", "gpt[-_]?neo", "gpt-?j(?![a-z])", "gpt-oss", "gpt-sw3",
    "gpt4all-j", "openai-gpt", "japanese-gpt", "open-?calm", "mgpt", "kogpt", "phogpt", "biomedlm", "codeparrot",
    r"tinystories-(?:instruct-)?\d", "pythia", r"opt-\d", "bloom", "mpt-", "replit-code", "sea-lion-[37]b", "olmo",
    "flexolmo", "granite", r"deepseek-(?:v\d|vl|moe|ocr|coder-v2)", r"deepseek-r1(?:-zero|-0528)?$",
    r"kimi-(?:k\d|vl|linear)", "command-[ar](?![a-z])", "c4ai-", "aya-(?:23|expanse|vision|101)", "stablelm",
    "stable-code", "starcoder", "codegen", "incoder", "jais", "smollm3", "internlm", "baichuan", "chatglm",
    r"glm[-_]?(?:\d|edge|ocr|asr|z1)", "minicpm", "cpm-(?:ant|bee)", "lfm2", "llada", "rwkv", "xlstm", "xglm",
    "galactica", "cerebras-gpt", "btlm-", "santacoder", r"dolly-v\d", "redpajama-incite", "polyglot-ko", "openelm",
    "mobilellm", "jamba", "zamba", "bamba", "exaone", "hyperclovax-seed-think", "hunyuan", "persimmon", "dbrx",
    "arctic-(?:base|instruct)", r"afm-\d", "apertus", r"bitnet-b\d", "helium-1", "jetmoe", r"doge-\d",
    r"dots\.(?:llm|vlm|ocr)", r"ernie-(?:\d|gram|health|m-)", r"minimax-(?:text|m\d|vl)", "longcat", "seed-oss",
    "solar-open", "trinity-(?:nano|mini|large)", "youtu-llm", "nanochat", r"grok-\d", "decilm", "moss-moon",
    "orion-14b", "plamo-", "telechat", "xlnet", "transfo-xl", "reformer", r"ctrl(?![a-z])",
    r"nemotron-(?:[34]-|h(?![a-z])|nano|mini)", "minitron",
)  # fmt: skip
# ... those that read what they answer with an encoder, encoders alone, ...
ENCODERS = (
    r"t5(?!\d)", "t0(?:pp|_3b|-3b)", "bart", "bert", "electra", "xlm-", "xmod", "blenderbot", "pegasus", "bigbird",
    "prophetnet", "opus-mt", r"m2m[-_]?100", "nllb", r"led-(?:base|large)", "longformer", r"luke-(?:base|large)",
    r"switch-(?:base|large|xxl)", "roformer", "layoutlm", "tapas-", "mpnet", "all-minilm", "minilm-",
    r"bge-(?:small|base|large|m3)", r"e5-(?:small|base|large)", r"gte-(?:small|base|large)", "nomic-embed",
    "jina-embeddings", "arctic-embed",
)  # fmt: skip
# ... and those that see or hear.
SENSES = (
    "smolvlm", "yi-vl", "internvl", "fuyu", r"blip2?-", "clip-vit", r"vit-(?:base|large|huge)", r"dinov\d",
    r"florence-\d", r"kosmos-\d", "chameleon-", "janus-pro", "emu3", "whisper", "wav2vec2", "speecht5", "seamless",
    "musicgen", "moshi", "csm-1b", "trocr",
)  # fmt: skip
FOREIGN = re.compile(rf"(?:^|[-_.])(?:{'|'.join((*DECODERS, *ENCODERS, *SENSES))})")
# Those whose name ends a word; but encoders of billions of parameters are few, and people are called Albert.
WITHIN = re.compile(
    r"(?:gpt2|dialogpt|rugpt3?|biogpt|seqgpt|(?<![a-z])(?:m|by|um|code|flan|long|ara|i|vi|ru|pl|ptt|indo|bangla)t5p?|"
    r"m?bart|berta|bert(?!.*\d[.\d]*b(?![a-z])))(?=$|[-_.])"
)
# What a tokenizer has of one family alone, which Tunix has not: `tokenizer.eod_id`.
TOKENIZER_OF = {"eod_id": "Qwen-1 (QWenLMHeadModel)"}
OF_A_FAMILY = re.compile(r"llama|qwen|gemma|mistral")
# Linears of an attention over a latent, by which a model called DeepSeek is of V2's or V3's kind, not a Llama.
LATENT = frozenset(("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"))
# Unsloth gives models of other architectures that of Llama or Mistral: their config.json decides.
MADE_OVER = "unsloth/phi-"


def is_known_without(identifier: str) -> bool:
    """Whether a Hub id of no family that is known is that of a model which Tunix has not."""
    return foreign_name(identifier) is not None


def has_latent_attention(identifier: str, layers: Iterable[str]) -> bool:
    """Whether a name and the linears that are adapted tell a DeepSeek V2 or V3, however it is called."""
    name = identifier.lower()
    return "deepseek" in name and OF_A_FAMILY.search(name) is None and not LATENT.isdisjoint(layers)


def foreign_name(identifier: str, parts: Iterable[str] = ()) -> str | None:
    """The part of a Hub id that names a model which Tunix has not, None where none does.

    A family of Tunix's in the name makes another of it: Qwen's architecture, distilled from DeepSeek-V3. `parts`: those
    of a path that count, too, beside its last one.
    """
    if identifier.lower().startswith(MADE_OVER):
        return None
    for part in (identifier.rstrip("/").rsplit("/", 1)[-1], *parts):
        name = part.lower()
        found = NOT_OF_THE_FAMILY.search(name)
        if found is None and OF_A_FAMILY.search(name) is None:
            found = FOREIGN.search(name) or WITHIN.search(name)
        if found is not None:
            return found[0].strip("-_.")
    return None
