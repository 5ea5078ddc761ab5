"""Which family stands in for a model that a script names, and why: by its name, else by what else is written there.

A script that was written for one machine names a folder of that machine, a placeholder, or nothing at all. What it
writes of tokens, classes, other models tells the family all the same; where nothing does, a guess is said to be one.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....runtime.facts.families import families, find_family, first_release_of
from ....runtime.facts.family import Family
from ....runtime.facts.field_tables import version_key
from ....source.project.other_models import foreign_name, is_known_without
from .stand_in_tokens import is_llama_2

PLACEHOLDER = "tpu-port/stand-in"
# The member of a family that stands in where only the family is known.
MEMBERS = {
    "gemma": "google/gemma-7b-it",
    "gemma2": "google/gemma-2-9b-it",
    "gemma3": "google/gemma-3-4b-it",
    "gemma4": "google/gemma-4-E4B-it",
    "llama2": "meta-llama/Llama-2-7b-chat-hf",
    "llama3": "meta-llama/Meta-Llama-3-8B-Instruct",
    "mistral": "mistralai/Mistral-7B-Instruct-v0.2",
    "qwen2": "Qwen/Qwen2.5-7B-Instruct",
    "qwen3": "Qwen/Qwen3-8B",
}
ROPE_THETA = "4.33.0"  # the first release that reads the base of Llama 3's rotary embedding

# What stands in where a release doesn't have a family.
BEFORE = {"gemma4": "gemma3", "gemma3": "gemma2", "gemma2": "gemma", "gemma": "llama2", "mistral": "llama2"}
BEFORE |= {"qwen3": "qwen2", "qwen2": "llama2", "llama3": "llama2"}

# Families in names that no Hub pattern of theirs fits, the more special ones first.
NAMED = (
    (r"qwen[-_ ]?3", "qwen3"),
    (r"qwen", "qwen2"),
    (r"gemma[-_ ]?3|gemma[-_ ]?(4|12)[-_ .]?b", "gemma3"),  # the only ones of these sizes
    (r"gemma[-_ ]?4", "gemma4"),
    (r"gemma[-_ ]?2(?![-_ .]?b)", "gemma2"),
    (r"gemma", "gemma"),
    (r"llama[-_ ]?v?3(?!\d*b)|deepseek", "llama3"),
    (r"llama(?![.]cpp|-?factory|[-_]?index|[-_]?recipes|guard)|vicuna|alpaca|guanaco|wizardlm", "llama2"),
    (r"mistral|zephyr", "mistral"),
)
# What a script writes for one family only: tokens of its templates, and its classes.
SIGNS = (
    (r"<\|start_header_id\|>|<\|eot_id\|>|<\|begin_of_text\|>|<\|reserved_special_token_\d", "llama3"),
    (r"<start_of_turn>|<end_of_turn>", "gemma"),
    (r"Qwen3ForCausalLM|enable_thinking", "qwen3"),
    (r"Qwen2ForCausalLM|Qwen2Tokenizer\w*", "qwen2"),
    (r"Gemma3\w*For\w+", "gemma3"),
    (r"Gemma2ForCausalLM|Gemma2DecoderLayer", "gemma2"),
    (r"GemmaForCausalLM|GemmaTokenizer\w*", "gemma"),
    (r"MistralForCausalLM|MistralDecoderLayer", "mistral"),
    (r"<<SYS>>|LlamaForCausalLM|LlamaTokenizer\w*|LlamaDecoderLayer", "llama2"),
    (r"\[INST\]", "mistral"),
    (r"<\|im_start\|>", "qwen2"),
)
FOREIGN_SIGNS = re.compile(
    r"""["'](c_attn|c_proj|query_key_value|Wqkv|qkv_proj|W_pack|fc_in)["']|\b(GPT2LMHeadModel|T5ForConditional\w+|"""
    r"GPTNeoX\w+|OPTForCausalLM|BloomForCausalLM|FalconForCausalLM|Phi3?ForCausalLM|AutoModelForSeq2SeqLM)"
)
HUB_ID = re.compile(r"(?<![\w./-])[A-Za-z][\w.-]{1,40}/[A-Za-z][\w.-]{3,90}(?![\w/])")
FILES = ("README*", "*.sh", "scripts/*.sh", "*.yaml", "*.yml", "configs/**/*.yaml", "recipes/**/*.yaml", "*.py")
MOST_FILES, LONGEST = 60, 200_000


@dataclass(frozen=True)
class Choice:
    """`family` is a family table's name; `member` the id whose tokens and sizes it gets; `reason` "" for its name."""

    family: str
    member: str
    reason: str = ""


def choose(
    name: str,
    texts: Sequence[str] = (),
    project: Path | None = None,
    asked: str | None = None,
    release: tuple[int, ...] = (),
) -> Choice:
    """What stands in for model `name` (Hub id, path, placeholder or "").

    `texts` are the scripts', `project` the folder to look for other evidence in, `asked` the family of `--family`,
    `release` the source's transformers: one that doesn't have the family gets the next older one, which is said.
    ValueError in one line for a model of a family that none here computes.
    """
    choice = _chosen(name, texts, project, asked, release)
    family = choice.family
    if family == "llama3" or not release or release[:2] >= since(family):
        return choice
    while release[:2] < since(family):
        family = BEFORE[family]
    numbers = ".".join(map(str, release[:2]))
    return _of(family, f"{choice.family} isn't in transformers {numbers}, which runs the source")


@functools.cache
def since(family: str) -> tuple[int, ...]:
    """The first release of transformers that has a family: `(4, 51)`, `(0, 0)` for Llama 2."""
    table = next((each for each in families() if each.name == family), None)
    first = ROPE_THETA if family == "llama3" else first_release_of(table) if table is not None else ""
    return version_key(first or "0")[:2]


def _chosen(
    name: str, texts: Sequence[str], project: Path | None, asked: str | None, release: tuple[int, ...]
) -> Choice:
    if name in ("None", "none", "null"):
        name = ""
    known = by_name(name)
    if known is not None:
        return Choice(known.name, _member(name, known.name))
    if asked is not None:
        return _of(asked, "as --family says")
    if foreign := foreign_name(name, Path(name).parts):
        raise ValueError(
            f"{name} is a model of a family that Tunix doesn't compute here ({foreign}): --family NAME "
            "trains a tiny model of another family in its place, --model PATH one of yours"
        )
    said = next((family for pattern, family in NAMED if re.search(pattern, name, re.IGNORECASE)), None)
    if said is not None:
        return _of(said, "by its name")
    own = "\n".join(texts)
    for where, text in (("the script", own), *_files(project)):
        for family, member, sign in _evidence(text):
            if not release or release[:2] >= since(family):
                return _of(family, f"{where} has {sign}", member)
        if written := FOREIGN_SIGNS.search(text):
            if where == "the script" and not re.search(r"\b[qv]_proj\b", text):
                raise ValueError(
                    f"{name or 'the model'}: the script is written for a family that Tunix doesn't compute here "
                    f"({written[1] or written[2]}): --family NAME takes another, --model PATH a model of yours"
                )
    guess = "llama3" if "bos_token" in own else "qwen2"
    if release and release[:2] < since(guess):
        guess = "llama2"
    return _of(guess, "a guess, since neither the script nor its folder tells the family: --family NAME says it")


def by_name(name: str) -> Family | None:
    """The family of a Hub id or of a path whose last parts are named after a model; None if the name doesn't tell."""
    if name == PLACEHOLDER or not name:
        return None
    plain = re.sub(r"[-_.](gptq|awq|gguf|bnb|4bit|8bit|int4|int8|fp16|bf16|hf)\b", "", name, flags=re.IGNORECASE)
    parts = [part for part in Path(plain).parts if part not in ("/", ".", "..")]
    ids = [name, plain, *(f"x/{part}" for part in reversed(parts[-3:]))]
    for candidate in ids:
        for written in (candidate, f"{candidate}-", candidate.replace("_", "-")):
            found = find_family(hub_id=written)
            if found is not None and not re.search(r"(-a\d+b|moe|mixtral)(?![a-z])", name, re.IGNORECASE):
                return found
    return None


def _member(name: str, family: str) -> str:
    """`name` in the form of a Hub id: the last part that tells the family decides the generation too."""
    if name.count("/") <= 1 and not name.startswith((".", "/", "~")):
        return name
    for part in reversed(Path(name).parts):
        found = by_name(part)
        if found is not None and found.name == family:
            return part
    return name


def _of(family: str, reason: str, member: str | None = None) -> Choice:
    return Choice("llama3" if family == "llama2" else family, member or MEMBERS[family], reason)


def _evidence(text: str) -> Iterator[tuple[str, str | None, str]]:
    """(family, Hub id where one is written, the words that say so) in the order of how sure they are."""
    ids = Counter(found[0] for found in HUB_ID.finditer(text) if not is_known_without(found[0]))
    for name, _ in ids.most_common():
        family = find_family(hub_id=name)
        if family is not None:
            yield family.name if family.name != "llama3" or not is_llama_2(name) else "llama2", name, name
    for pattern, family_name in SIGNS:
        if found := re.search(pattern, text):
            yield family_name, None, found[0]
    for pattern, family_name in NAMED:
        if found := re.search(rf"(?<![a-z_]){pattern}[\w.-]*", text, re.IGNORECASE):
            yield family_name, None, found[0]


def _files(project: Path | None) -> Iterator[tuple[str, str]]:
    """The names and texts of the project's files that may tell the model."""
    if project is None or not project.is_dir():
        return
    seen = 0
    for pattern in FILES:
        for path in sorted(project.glob(pattern)):
            seen += 1
            if seen > MOST_FILES:
                return
            try:
                if path.is_file() and path.stat().st_size <= LONGEST:
                    yield str(path.relative_to(project)), path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
