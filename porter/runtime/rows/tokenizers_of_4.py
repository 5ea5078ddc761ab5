"""Tokenizers as transformers 4 loaded them: the same ids of the same text.

transformers 5 builds a tokenizer anew from its vocabulary for some classes and leaves out how the checkpoint's
`tokenizer.json` splits a text, which transformers 4 read as it stands. Behind a special token within a text Llama 2's
then have another first token; of byte-level files that name Llama's class (DeepSeek-R1-Distill-Llama) all spaces are
lost; of those that name GPT-2's (SmolLM 1 and 2) the digits are no words of their own.
An added token that is looked for in the normalised text (`normalized` in `tokenizer.json`: `<s>` of Llama 2 as it was
converted before autumn 2023) is looked for there as the file's normalizer writes it, `▁<s>`.

Llama's slow class was SentencePiece itself, which does to a text what its `tokenizer.model` says: OpenLLaMA's makes one
space of several. transformers 5 takes nothing but the pieces from that file.

From 5.7 on `decode` leaves the spaces in front of punctuation of all these, where it took them out before if the
checkpoint (Llama 3's) or the call said so (`clean_up_tokenization_spaces`).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .end_tokens import bos_eos, loading_settings

# What transformers 4 loaded these as heard `add_bos_token`, `add_eos_token` and `add_prefix_space`, and padded left.
LLAMA = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast")
BYTES = ("GPT2Tokenizer", "GPT2TokenizerFast")
FILE = "tokenizer.json"
PIECES = "tokenizer.model"
SPACE = "▁"
# The normalizer_spec of Llama's and Mistral's tokenizer.model.
LLAMAS = SimpleNamespace(
    precompiled_charsmap=b"", remove_extra_whitespaces=False, add_dummy_prefix=True, escape_whitespaces=True
)
CLEANS = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"  # transformers' own switch
FOUND_BY = ("normalized", "lstrip", "rstrip", "single_word")  # of an added token in `tokenizer.json`
RAW = {"normalized": False}


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
    Tokenizers that aren't of the tokenizers library stay as they are. With `use_fast` False a Llama class normalises as
    its `tokenizer.model` says. Where that has a table of characters (`precompiled_charsmap`), a character that is
    written in more than five bytes with its accents is normalised by its parts.
    """
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        return bos_eos(tokenizer, add_bos_token=add_bos_token, add_eos_token=add_eos_token)
    setattr(tokenizer, CLEANS, True)
    settings = loading_settings(tokenizer)
    named = str(settings.get("tokenizer_class") or type(tokenizer).__name__)
    llama = named in LLAMA
    made = llama and (not use_fast or settings.get("add_prefix_space") is not None)  # from tokenizer.model then
    if not made and use_fast:
        made = not _read_file(tokenizer) and llama
    if made:
        legacy = settings.get("legacy", True) if legacy is None else legacy
        legacy = legacy is not False
        always = settings.get("add_prefix_space") is not False
        pieces = _pieces(tokenizer)
        if use_fast:
            _put_space(tokenizer, legacy=legacy, always=always)
        else:
            _normalise(tokenizer, pieces.normalizer_spec if pieces is not None else LLAMAS, legacy=legacy, put=always)
        _split_by(tokenizer, pieces)
        # Both looked for them in the text as it stands: the slow one for all, the one made of it for the special ones.
        added = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
        _find_added(tokenizer, {each.content: RAW for each in added if each.special or not use_fast})
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


def _read_file(tokenizer: Any) -> bool:
    """Let the tokenizer split and merge as its `tokenizer.json` says, where it has been built anew without that.

    Returns whether there is that file.
    """
    from tokenizers import Tokenizer

    if "__init__" not in type(tokenizer).__dict__:
        return True  # read from the file already
    file = _file(tokenizer, FILE)
    if file is None:
        return False
    written, backend = Tokenizer.from_file(file), tokenizer.backend_tokenizer
    backend.model = written.model
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        setattr(backend, part, getattr(written, part))
    said = written.get_added_tokens_decoder().values()
    _find_added(tokenizer, {each.content: {how: getattr(each, how) for how in FOUND_BY} for each in said})
    return True


def _find_added(tokenizer: Any, ways: dict[str, dict[str, bool]]) -> None:
    """Let the added tokens be found in a text in their `ways`, and the normalised ones by the normalizer of now.

    The tokenizers library keeps what it looks for from when a token was added, whatever is set later.
    """
    from tokenizers import Tokenizer

    backend = tokenizer.backend_tokenizer
    before = backend.get_added_tokens_decoder().values()
    if not any(token.normalized or _differs(token, ways.get(token.content, {})) for token in before):
        return
    state = json.loads(backend.to_str())
    for token in state["added_tokens"]:
        token.update(ways.get(token["content"], {}))
    made = Tokenizer.from_str(json.dumps(state))
    made.encode_special_tokens = backend.encode_special_tokens  # which isn't in the text
    tokenizer._tokenizer = made


def _differs(token: Any, way: dict[str, bool]) -> bool:
    return any(getattr(token, how) != value for how, value in way.items())


def _file(tokenizer: Any, name: str) -> str | None:
    """The path of a file of the tokenizer's checkpoint; None where it has none."""
    from transformers.utils import cached_file

    commit = tokenizer.init_kwargs.get("_commit_hash")
    try:
        return cached_file(tokenizer.name_or_path, name, revision=commit, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):
        return None


def _put_space(tokenizer: Any, *, legacy: bool, always: bool) -> None:
    """A space before the text as a tokenizer made of the slow one puts it: before each part between special tokens, or
    the first.
    """
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


def _pieces(tokenizer: Any) -> Any:
    """The checkpoint's `tokenizer.model`, as SentencePiece's proto has it; None where there is none."""
    from transformers.convert_slow_tokenizer import import_protobuf

    file = _file(tokenizer, PIECES)
    return None if file is None else import_protobuf().ModelProto.FromString(Path(file).read_bytes())


def _split_by(tokenizer: Any, pieces: Any) -> None:
    """The likeliest pieces where `tokenizer.model` has their likelihoods, which transformers 5 merges all the same."""
    from tokenizers import models

    if pieces is not None and pieces.trainer_spec.model_type == pieces.trainer_spec.UNIGRAM:
        scored = [(piece.piece, piece.score) for piece in pieces.pieces]
        model = models.Unigram(scored, pieces.trainer_spec.unk_id, byte_fallback=pieces.trainer_spec.byte_fallback)
        tokenizer.backend_tokenizer.model = model


def _normalise(tokenizer: Any, spec: Any, *, legacy: bool, put: bool) -> None:
    """Do to a text between special tokens what SentencePiece does by its `normalizer_spec` (normalizer.cc).

    Characters by its table, spaces at both ends away and one for several, a space in front, each as ▁. Without `legacy`
    the slow tokenizer had it leave the first spaces alone: one is kept, and ▁ put before the whole text if `put`.
    """
    from tokenizers import Regex, normalizers, pre_tokenizers

    backend, space = tokenizer.backend_tokenizer, SPACE if spec.escape_whitespaces else " "
    steps, joins = [] if legacy else [normalizers.Replace(SPACE, " ")], False
    if spec.precompiled_charsmap:
        table = normalizers.Precompiled(spec.precompiled_charsmap)
        steps.append(table)
        joins = spec.remove_extra_whitespaces and table.normalize_str(SPACE) == " "
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex("(?<= ) +"), ""))  # the first one stays, at its place
        if legacy:
            steps.append(normalizers.Replace(Regex(r"\A +"), ""))
    if legacy and spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(space))
    steps.append(normalizers.Replace(" ", space))
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(rf"{space}+\z"), ""))
    backend.normalizer, backend.pre_tokenizer = normalizers.Sequence(steps), None
    if put and not legacy:
        # Metaspace puts none where the text begins with its own: so that it does, a space, which no text has any more.
        first = pre_tokenizers.Metaspace(SPACE if joins else " ", prepend_scheme="first", split=False)
        shown = pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([first, shown])
