"""Start and end tokens that a tokenizer puts around every text, as transformers 4 put them.

transformers 5 builds the tokenizer's template anew where `add_bos_token` or `add_eos_token` is given or assigned, takes
the other one for False whatever the checkpoint says (`TokenizersBackend.update_post_processor`), and does so for every
class; transformers 4 kept the other one, and only some classes listened.
"""

from __future__ import annotations

from typing import Any

# Of these classes both the fast and the slow tokenizer of transformers 4 listened.
LISTENING = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizer", "GemmaTokenizerFast")
PROBE = "a"


def bos_eos(tokenizer: Any, *, add_bos_token: bool | None = None, add_eos_token: bool | None = None) -> Any:
    """The tokenizer, which puts a start or end token around texts as transformers 4 did when it was told so.

    What is None stays as it is. A class that didn't listen then (Llama 3's, Qwen's) stays as it is, too.
    """
    if type(tokenizer).__name__ not in LISTENING and named_class(tokenizer) not in LISTENING:
        return tokenizer
    ids = tokenizer(PROBE).input_ids
    starts = bool(ids) and ids[0] == tokenizer.bos_token_id
    ends = bool(ids) and ids[-1] == tokenizer.eos_token_id
    tokenizer.add_bos_token = starts if add_bos_token is None else add_bos_token
    tokenizer.add_eos_token = ends if add_eos_token is None else add_eos_token
    return tokenizer


def named_class(tokenizer: Any) -> str:
    """The class that the checkpoint names, as transformers 4 took it: 5 loads Mistral's in one of its own."""
    return str(loading_settings(tokenizer).get("tokenizer_class") or type(tokenizer).__name__)


def loading_settings(tokenizer: Any) -> dict[str, Any]:
    """What `tokenizer_config.json` of the checkpoint says; nothing where there is none."""
    name = getattr(tokenizer, "name_or_path", None)
    if not isinstance(name, str) or not name:
        return {}
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    try:
        return get_tokenizer_config(name, revision=tokenizer.init_kwargs.get("_commit_hash"))
    except (OSError, ValueError):
        return {}
