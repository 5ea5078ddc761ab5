"""Tokenizers as transformers 4 loaded them: the same ids of the same text.

transformers 5 builds a tokenizer anew from its vocabulary for some classes and leaves out how the checkpoint's
`tokenizer.json` splits a text, which transformers 4 read as it stands. Behind a special token within a text Llama 2's
then have another first token; of byte-level files that name Llama's class (DeepSeek-R1-Distill-Llama) all spaces are
lost; of those that name GPT-2's (SmolLM 1 and 2) the digits are no words of their own.

From 5.7 on `decode` leaves the spaces in front of punctuation of all these, where it took them out before if the
checkpoint (Llama 3's) or the call said so (`clean_up_tokenization_spaces`).
"""

from __future__ import annotations

from typing import Any

from .end_tokens import bos_eos, loading_settings

# What transformers 4 loaded these as heard `add_bos_token`, `add_eos_token` and `add_prefix_space`, and padded left.
LLAMA = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast")
BYTES = ("GPT2Tokenizer", "GPT2TokenizerFast")
FILE = "tokenizer.json"
SPACE = "▁"
CLEANS = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"  # transformers' own switch


def as_transformers_4(
    tokenizer: Any,
    *,
    use_fast: bool = True,
    legacy: bool | None = None,
    add_bos_token: bool | None = None,
    add_eos_token: bool | None = None,
) -> Any:
    """The tokenizer, changed in place where transformers 5 loads it otherwise than transformers 4 did.

    `use_fast`, `legacy`: as they were given to `from_pretrained`. `add_bos_token`, `add_eos_token`: as for `bos_eos`.
    Tokenizers without a `tokenizer.json`, and those that aren't of the tokenizers library, stay as they are.
    """
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        return bos_eos(tokenizer, add_bos_token=add_bos_token, add_eos_token=add_eos_token)
    setattr(tokenizer, CLEANS, True)
    settings = loading_settings(tokenizer)
    named = str(settings.get("tokenizer_class") or type(tokenizer).__name__)
    llama = named in LLAMA
    if llama and (not use_fast or settings.get("add_prefix_space") is not None):  # made from tokenizer.model then
        legacy = settings.get("legacy", True) if legacy is None else legacy
        legacy = legacy is not False
        always = settings.get("add_prefix_space") is not False or (legacy and not use_fast)
        _put_space(tokenizer, legacy=legacy, always=always)
    elif use_fast:
        _read_file(tokenizer)
    if llama and "padding_side" not in settings:
        tokenizer.padding_side = tokenizer.init_kwargs.get("padding_side", "left" if use_fast else "right")
    if llama:
        add_bos_token = settings.get("add_bos_token", True) if add_bos_token is None else add_bos_token
        add_eos_token = settings.get("add_eos_token", False) if add_eos_token is None else add_eos_token
    return bos_eos(tokenizer, add_bos_token=add_bos_token, add_eos_token=add_eos_token)


def as_transformers_5_0(tokenizer: Any) -> Any:
    """The tokenizer, changed in place where AutoTokenizer of transformers 5.0 to 5.2 loaded it otherwise.

    A checkpoint that names Llama's class (Llama 2, TinyLlama, Mistral) was read there from its `tokenizer.json` as it
    stands, whatever `legacy` and `add_prefix_space` say: a text that begins with a space has one token more. It padded
    right. So was a Llama that names GPT-2's class (SmolLM 1 and 2), whose digits are words of their own. Others stay as
    they are, but for the texts that are decoded.
    """
    setattr(tokenizer, CLEANS, True)
    settings = loading_settings(tokenizer)
    named = settings.get("tokenizer_class")
    if getattr(tokenizer, "backend_tokenizer", None) is None or named not in (*LLAMA, *BYTES):
        return tokenizer
    _read_file(tokenizer)
    if named in LLAMA and "padding_side" not in settings:
        tokenizer.padding_side = tokenizer.init_kwargs.get("padding_side", "right")
    return tokenizer


def as_transformers_5_3(tokenizer: Any) -> Any:
    """The tokenizer, whose decoded texts are cleaned as by transformers 5.3 to 5.6, where checkpoint or call say so."""
    setattr(tokenizer, CLEANS, True)
    return tokenizer


def _read_file(tokenizer: Any) -> None:
    """Let the tokenizer split and merge as its `tokenizer.json` says, where it has been built anew without that."""
    from tokenizers import Tokenizer
    from transformers.utils import cached_file

    if "__init__" not in type(tokenizer).__dict__:
        return  # read from the file already
    commit = tokenizer.init_kwargs.get("_commit_hash")
    try:
        file = cached_file(tokenizer.name_or_path, FILE, revision=commit, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):
        return
    if file is None:
        return
    written, backend = Tokenizer.from_file(file), tokenizer.backend_tokenizer
    backend.model = written.model
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        setattr(backend, part, getattr(written, part))


def _put_space(tokenizer: Any, *, legacy: bool, always: bool) -> None:
    """A space before the text as the slow tokenizer puts it: before each part between special tokens, or the first."""
    from tokenizers import normalizers, pre_tokenizers

    backend = tokenizer.backend_tokenizer
    if legacy:
        replaced = normalizers.Replace(" ", SPACE)
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replaced] if always else [replaced])
        backend.pre_tokenizer = None
    else:
        backend.normalizer = None
        scheme = "first" if always else "never"
        backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
