"""Writes a tiny tokenizer in the form of the Hub's files, which transformers reads from 4.31 to 5.

`save_pretrained` of one release writes what older ones can't read: other class names, merges as pairs, the template in
a file of its own. So the files are written here: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`,
the template in both places, and for the slow classes `tokenizer.model` or `vocab.json` with `merges.txt`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from ..data.rows import WORDS
from .stand_in_tokens import Tokens

CORPUS = [" ".join(WORDS), *WORDS, "user assistant system model " * 4]
# How the published tokenizers split a text before they merge bytes.
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
ADDED = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}


def write_tokenizer(folder: Path, tokens: Tokens, template: str | None) -> None:
    """Write the tokenizer's files into `folder`. Imports tokenizers, and sentencepiece for its kind."""
    tokenizer = byte_level(tokens) if tokens.pieces == "bytes" else sentencepieces(tokens, folder)
    tokenizer.add_special_tokens([token for token in (*tokens.first, *tokens.others) if token])
    if tokens.begin and tokens.adds_begin:
        from tokenizers import processors

        begin = tokens.begin
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin}:0 $A:0",
            pair=f"{begin}:0 $A:0 {begin}:1 $B:1",
            special_tokens=[(begin, tokenizer.token_to_id(begin))],
        )
    content = json.loads(tokenizer.to_str())
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    content["model"]["merges"] = merges  # as pairs, which tokenizers writes from 0.20 on, older ones can't read them
    _write(folder / "tokenizer.json", content)
    if tokens.pieces == "bytes":
        _write(folder / "vocab.json", content["model"]["vocab"])
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    named = {"bos_token": tokens.begin, "eos_token": tokens.end, "pad_token": tokens.pad, "unk_token": tokens.unknown}
    special = {name: token for name, token in named.items() if token}
    known = set(special.values())
    further = [token for token in (*tokens.first, *tokens.others) if token not in known]
    _write(folder / "special_tokens_map.json", special | {"additional_special_tokens": further})
    config: dict[str, Any] = {
        "added_tokens_decoder": {
            str(added["id"]): {"content": added["content"], **ADDED} for added in content["added_tokens"]
        },
        "additional_special_tokens": further,
        **named,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
        "tokenizer_class": tokens.tokenizer_class,
    }
    if tokens.side is not None:
        config["padding_side"] = tokens.side
    if tokens.pieces == "sentencepiece":
        # Without legacy transformers 5 and the slow class of 4 put no space behind a special token, the fast one does.
        config |= {"add_bos_token": True, "add_eos_token": False, "legacy": tokens.legacy, "sp_model_kwargs": {}}
        config |= {"use_default_system_prompt": False}
    elif tokens.tokenizer_class == "PreTrainedTokenizerFast":
        config |= {"model_input_names": ["input_ids", "attention_mask"]}  # else token types, which no model here takes
    else:
        config |= {"add_prefix_space": False}
    if template is not None:
        config["chat_template"] = template
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    _write(folder / "tokenizer_config.json", config)


def byte_level(tokens: Tokens) -> Any:
    """A byte-level BPE tokenizer that splits as Llama 3, Qwen or SmolLM does."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    llama = tokens.tokenizer_class == "PreTrainedTokenizerFast"
    if tokens.tokenizer_class == "GPT2Tokenizer":
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        split = pre_tokenizers.Split(Regex(LLAMA_3 if llama else QWEN), behavior="isolated", invert=False)
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    if tokens.tokenizer_class == "Qwen2Tokenizer":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=tokens.count,
        special_tokens=[*tokens.first, *tokens.others],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def sentencepieces(tokens: Tokens, folder: Path) -> Any:
    """A SentencePiece model with byte fallback, written to `tokenizer.model`, and the same as a BPE of tokenizers."""
    import sentencepiece
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    written = io.BytesIO()
    ids = {token: number for number, token in enumerate(tokens.first)}
    pads = tokens.pad in set(tokens.first) - {tokens.begin, tokens.end, tokens.unknown}  # with a piece of its own
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=written,
        model_type="bpe",
        vocab_size=tokens.count,
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=tokens.prefix,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        unk_id=ids[str(tokens.unknown)],
        bos_id=ids[str(tokens.begin)],
        eos_id=ids[tokens.end],
        pad_id=ids[str(tokens.pad)] if pads else -1,
        unk_piece=tokens.unknown,
        bos_piece=tokens.begin,
        eos_piece=tokens.end,
        pad_piece=tokens.pad if pads else "<pad>",
        control_symbols=[token for token in tokens.first if token not in _own(tokens)],
        user_defined_symbols=list(tokens.others),
        num_threads=1,
        minloglevel=2,
    )
    (folder / "tokenizer.model").write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    vocabulary = {pieces.id_to_piece(number): number for number in range(pieces.get_piece_size())}
    merges = []
    for piece, number in vocabulary.items():
        if pieces.is_byte(number) or pieces.is_control(number) or piece in tokens.others:
            continue
        parts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        parts = [(left, right) for left, right in parts if left in vocabulary and right in vocabulary]
        parts.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(pieces.get_score(number), pair) for pair in parts]
    merges.sort(key=lambda merge: merge[0], reverse=True)
    ordered = [pair for _, pair in merges]
    unknown = str(tokens.unknown)
    tokenizer = Tokenizer(models.BPE(vocabulary, ordered, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    strip = [decoders.Strip(content=" ", left=1)] if tokens.prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    replaced = normalizers.Replace(" ", "▁")
    if tokens.prefix:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replaced])
    else:
        tokenizer.normalizer = replaced
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous", invert=False)
    return tokenizer


def _own(tokens: Tokens) -> set[str | None]:
    return {tokens.begin, tokens.end, tokens.pad, tokens.unknown}


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
