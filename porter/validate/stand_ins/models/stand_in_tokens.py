"""Which tokens and which embedding rows a model id has: what its stand-in's tokenizer and sizes are made from.

From the published tokenizers and configurations. A script that adds a token or pads with a reserved one works or fails
by exactly this: Llama 2 and 3, Mistral and Gemma have as many embedding rows as tokens, Qwen has rows to spare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Pieces = Literal["bytes", "sentencepiece"]

ROWS = 512  # of every stand-in's embedding: all meshes of up to eight devices divide it
SPARE = 32  # rows without a token, where the real model has some
INSTRUCT = re.compile(r"instruct|chat|-it\b|-it-|zephyr|vicuna|openchat|starling|hermes|-sft|r1-distill", re.IGNORECASE)
LLAMA_3 = re.compile(r"llama-?3(?!\d*b)|r1-distill-llama", re.IGNORECASE)
BYTES = re.compile(r"llama-?3(?!\d*b)|r1-distill|smollm|deepseek|falcon3|phi-4", re.IGNORECASE)
MANY_ROWS = re.compile(r"deepseek-(llm|coder|math)|gemma-3-(4|12|27)b|medgemma|translategemma", re.IGNORECASE)
# Published with a token to pad with, which other models of their family lack: the end, or the unknown token.
ENDS_PAD = re.compile(r"tinyllama.*-chat-v(0\.6|1)|zephyr|mistral-7b-sft|^deepseek", re.IGNORECASE)
UNKNOWN_PADS = re.compile(r"^vicuna|^yi-", re.IGNORECASE)
# Published with padding on the right; the tokenizer class of Llama 2 and Mistral pads on the left of itself.
ON_THE_RIGHT = re.compile(r"llama-?2|tinyllama|vicuna", re.IGNORECASE)
RESERVED = tuple(f"<|reserved_special_token_{number}|>" for number in (*range(12), 247, 250))
HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>")
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TURNS = ("<start_of_turn>", "<end_of_turn>")
# What Qwen 2.5 and 3 are published with beside ChatML's, which a stand-in has where a script reads or writes them.
MARKS = tuple(f"<|{name}_{end}|>" for name in ("object_ref", "box", "quad", "vision") for end in ("start", "end"))
PADS = tuple(f"<|{name}_pad|>" for name in ("vision", "image", "video"))
INFILLING = tuple(
    f"<|{name}|>" for name in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")
)
# A token to pad with that a script gives by name, and doesn't add.
WRITTEN_PAD = re.compile(r"""\bpad_token\s*=\s*["']([^"'\s]{1,40})["']""")


@dataclass(frozen=True)
class Tokens:
    """The special tokens of a model: `first` have the lowest ids, in this order, `others` are further ones.

    `pieces`: what the rest of the vocabulary is made of. `classes`: the tokenizer class that the Hub's files name.
    `prefix`: a space is put before the text. `spare`: embedding rows that no token has. `adds_begin`: `begin` starts
    every text. `chat`: published with a chat template. `side`: where it pads, None for its class' own. `legacy`: as its
    settings say, for SentencePiece.
    """

    pieces: Pieces
    tokenizer_class: str
    begin: str | None
    end: str
    pad: str | None
    unknown: str | None
    first: tuple[str, ...]
    others: tuple[str, ...] = ()
    prefix: bool = False
    spare: int = 0
    adds_begin: bool = True
    chat: bool = True
    side: str | None = None
    legacy: bool = True

    @property
    def count(self) -> int:
        """Tokens in all, special ones included."""
        return ROWS - self.spare


def tokens_of(family: str, model_id: str = "") -> Tokens:
    """The tokens of a model of `family`, of which `model_id` tells the generation and whether it is tuned to chat."""
    name = model_id.lower().rsplit("/", 1)[-1]
    tuned = INSTRUCT.search(model_id) is not None or not name
    unsloth = model_id.lower().startswith("unsloth/")  # its copies name a token to pad with, never the end
    spare = SPARE if family in ("qwen2", "qwen3") or MANY_ROWS.search(name) else 0
    if family == "qwen3":
        base = name.endswith("-base") or "-base-" in name
        return _qwen("<|endoftext|>" if base else "<|im_end|>", ("<think>", "</think>"), spare, unsloth=unsloth)
    if family == "qwen2":
        return _qwen("<|im_end|>" if tuned else "<|endoftext|>", (), spare, unsloth=unsloth)
    if family == "mistral":
        pad = "[control_768]" if "v0.3" in name else "<pad>" if "nemo" in name or "24b" in name else None
        if pad is None:
            return _sentencepiece((), spare, _llama_2_pad(name, unsloth=unsloth), chat=tuned)
        return _sentencepiece(("[INST]", "[/INST]", pad), spare, pad if unsloth else None, chat=tuned)
    if family.startswith("gemma"):
        turns = ("<|turn>", "<turn|>", "<|channel>", "<channel|>") if family == "gemma4" else TURNS
        return Tokens(
            pieces="sentencepiece",
            tokenizer_class="GemmaTokenizer",
            begin="<bos>",
            end="<eos>",
            pad="<pad>",
            unknown="<unk>",
            first=("<pad>", "<eos>", "<bos>", "<unk>", "<mask>"),
            others=turns,
            spare=spare,
            chat=tuned,
        )
    if is_llama_2(name):
        side = "right" if ON_THE_RIGHT.search(name) else None
        return replace(_sentencepiece((), spare, _llama_2_pad(name, unsloth=unsloth), side, chat=tuned), legacy=False)
    if "smollm" in name:
        end = "<|im_end|>" if tuned else "<|endoftext|>"
        begin, pad = ("<|im_start|>", "<|im_end|>") if tuned else ("<|endoftext|>", None)
        return Tokens("bytes", "GPT2Tokenizer", begin, end, pad, "<|endoftext|>", CHATML, adds_begin=False, chat=tuned)
    newer = LLAMA_3.search(name) is None or re.search(r"3\.\d|r1-distill", name) is not None
    padding = "<|finetune_right_pad_id|>"
    others = (*HEADERS, *((padding,) if newer else ()), *RESERVED)
    end = "<|eot_id|>" if tuned else "<|end_of_text|>"
    pad = end if ENDS_PAD.search(name) else None
    if unsloth:
        pad = padding if newer else RESERVED[-1]
    kind, first = "PreTrainedTokenizerFast", ("<|begin_of_text|>", "<|end_of_text|>")
    return Tokens("bytes", kind, "<|begin_of_text|>", end, pad, None, first, others, spare=spare, chat=tuned)


def with_written(tokens: Tokens, family: str, model_id: str, texts: Sequence[str], *, guessed: bool) -> Tokens:
    """`tokens` and those that scripts count on: of Qwen's own ones, and of a model of which only the family is
    `guessed` the one that they pad with."""
    name = model_id.lower().rsplit("/", 1)[-1]
    found: list[str] = []
    if family == "qwen3" or (family == "qwen2" and re.search(r"2[._]5", name)):
        listed = any("additional_special_tokens" in text for text in texts)
        found += [each for each in (*MARKS, *PADS) if listed or any(each in text for text in texts)]
        found += [each for each in INFILLING if any(each in text for text in texts)]
    if guessed and tokens.unknown is None:  # else a text that is no token is the unknown one
        found += [each for text in texts for each in WRITTEN_PAD.findall(text)]
    held = {*tokens.first, tokens.begin, tokens.end, tokens.pad, tokens.unknown}
    more = [each for each in dict.fromkeys([*tokens.others, *found]) if each not in held or each in tokens.others]
    return replace(tokens, others=tuple(more))


def is_llama_2(name: str) -> bool:
    """Whether a model of Llama's architecture has Llama 2's SentencePiece tokens: all of them but a few do."""
    return bool(name) and BYTES.search(name) is None


def _llama_2_pad(name: str, *, unsloth: bool) -> str | None:
    """What a model with Llama 2's tokens pads with: nothing, but for some."""
    if ENDS_PAD.search(name) and not unsloth:
        return "</s>"
    return "<unk>" if unsloth or UNKNOWN_PADS.search(name) else None


def _qwen(end: str, more: tuple[str, ...], spare: int, *, unsloth: bool) -> Tokens:
    pad = "<|vision_pad|>" if unsloth else "<|endoftext|>"
    more = (*more, pad) if unsloth else more
    return Tokens("bytes", "Qwen2Tokenizer", None, end, pad, None, CHATML, more, spare=spare)


def _sentencepiece(
    others: tuple[str, ...], spare: int, pad: str | None, side: str | None = None, *, chat: bool
) -> Tokens:
    return Tokens(
        pieces="sentencepiece",
        tokenizer_class="LlamaTokenizer",
        begin="<s>",
        end="</s>",
        pad=pad,
        unknown="<unk>",
        first=("<unk>", "<s>", "</s>"),
        others=others,
        prefix=True,
        spare=spare,
        chat=chat,
        side=side,
    )
