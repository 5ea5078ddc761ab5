"""Secrets that stand in a source: found by their form, by the name they are given to, or by looking random; masked.

The port keeps the user's line as it is. Everything that is said about it (reports, recipes, pages, logs) has `hf_***`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, TypeVar

STARS = "***"
# What the services' own documentation says that their keys look like.
FORMS = {
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}\b|\bapi_org_[A-Za-z0-9]{30,}\b",
    "OpenAI or Anthropic key": r"\bsk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}\b",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "Google key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "Replicate token": r"\br8_[A-Za-z0-9]{30,}\b",
    "JSON web token": r"(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}",
    "password in a URL": r"(?<=://)[^\s/:@\"'{}$<>]{1,80}:(?![/\d]+\b(?!@))[^\s/@\"'{}$<>]{1,200}(?=@)",
}
KNOWN = [(kind, re.compile(pattern)) for kind, pattern in FORMS.items()]
# Each form has one of these: most texts have none, and are not looked through for each form.
HEADS = re.compile(r"hf_|api_org_|sk-|A[KS]IA|gh[pousr]_|github_pat_|glpat-|xox|AIza|r8_|eyJ|://")
# Names of secrets. `token` alone and with the name of a service; `pad_token` and its kin are a tokenizer's.
NAME = (
    r"(?:[\w-]{0,40}?(?:api|access|secret|auth|private|encryption|service|account|wandb|comet|openai)[_-]?key"
    r"|[\w-]{0,40}?(?:password|passwd|secret|credential)s?"
    r"|(?:[\w-]{0,40}?[_-])?(?:hf|hub|face|access|auth|api|bearer|github|gh|gitlab|slack|telegram|discord|bot|wandb|comet|replicate"
    r"|read|write|secret|session|refresh|kaggle|neptune|clearml|mlflow|ngrok)[_-]?token|token)"
)
VALUE = r"(?P<value>[^\s\"'`<>{}$()\[\],;\\]{8,300})"
GAP = r"\s{0,40}"  # bounded, as a text may be of white space alone
NAMED = [
    re.compile(
        rf"(?i)(?<![\w-])(?P<name>{NAME})[\"']?{GAP}\]?{GAP}(?::{GAP}str{GAP})?(?:=|:|,){GAP}[rbu]?[\"']{VALUE}[\"']"
    ),
    re.compile(rf"(?im)^[ \t]*(?:export\s+|[%!][ \t]*(?:set_)?env\s+)?(?P<name>{NAME})\s?[=:]\s?{VALUE}[ \t\r]*$"),
    re.compile(rf"(?i)--(?P<name>{NAME})[= ]{VALUE}"),
    re.compile(rf"\b(?P<name>login)\(\s*(?:(?:token|key)\s*=\s*)?[\"']{VALUE}[\"']"),
]
# Where a person is told to put one, and code that reads one.
PLACEHOLDER = re.compile(
    r"(?i)(?:hf_|sk-|ghp_)?(?:your|my[_-]|insert|replace|enter|put|paste|add|change|some|x{3}|\*|\.\.|token|api[_-]?key|none|"
    r"null|todo|dummy|fake|default|env|args?\.|self\.|os\.|config|userdata|secret|password|key|true|false|auto)|.*(?:[_-]here$|\.\.\.)"
)
QUOTED = re.compile(r"(?<=[\"'])[A-Za-z0-9+/_-]{32,88}={0,2}(?=[\"'])")
RANDOM = 4.5  # bits a character; English has about 4, a random base64 text of 40 characters about 4.9
WORD = re.compile(r"[a-z]{5,}|[A-Z]{6,}|[_/-].*[_/-]")

Anything = TypeVar("Anything")


@dataclass(frozen=True)
class Secret:
    """One secret of a text: what it is, and where it begins (an offset)."""

    kind: str
    value: str
    start: int


def find_secrets(text: str) -> tuple[Secret, ...]:
    """The secrets in a source, each value once, in their order."""
    found: dict[str, Secret] = {}
    for kind, form in KNOWN:
        for match in form.finditer(text):
            if not PLACEHOLDER.match(match[0].rpartition(":")[2] if "URL" in kind else match[0]):
                found.setdefault(match[0], Secret(kind, match[0], match.start()))
    for named in NAMED:
        for match in named.finditer(text):
            value = match["value"]
            if not PLACEHOLDER.match(value) and not _is_plain(match["name"], value):
                found.setdefault(value, Secret(f"value of {match['name']}", value, match.start("value")))
    for match in QUOTED.finditer(text):
        if is_random(match[0]):
            found.setdefault(match[0], Secret("text that looks random", match[0], match.start()))
    return tuple(sorted(found.values(), key=lambda secret: secret.start))


def is_random(text: str) -> bool:
    """Whether a text looks drawn by lot: capitals, small letters and digits mixed, no word, no hash in hex."""
    mixed = all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    if not mixed or WORD.search(text):
        return False
    counts = Counter(text)
    bits = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    return bits > min(RANDOM, math.log2(len(text)) - 0.6)


def _is_plain(name: str, value: str) -> bool:
    """Whether a value is a word, a path or a variable's name rather than a secret: `api_key = "OPENAI_API_KEY"`."""
    if re.fullmatch(
        r"[A-Z_]+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[a-z]+(?:[_.-][a-z]+)*|[A-Z][a-z]+|\d+|[\w.-]+\.(?:json|txt|ya?ml|pem|env|py)",
        value,
    ):
        return not value.startswith(("hf_", "sk-"))
    return value.startswith(("http://", "https://", "/", "./", "~", "--"))


def masked(text: str, values: Iterable[str] = ()) -> str:
    """The text without the secrets `values`, and without whatever has the form of one."""
    for value in values:
        text = text.replace(value, _mask(value))
    for kind, form in KNOWN if HEADS.search(text) else ():
        if "URL" in kind:
            text = form.sub(lambda match: f"{match[0].partition(':')[0]}:{STARS}", text)
        else:
            text = form.sub(lambda match: _mask(match[0]), text)
    return text


def masked_in(thing: Anything, values: Iterable[str]) -> Anything:
    """The same for every text in a dataclass, mapping or sequence; the very thing where that changes none."""
    said: dict[str, str] = {}
    seen: dict[int, tuple[Any, Any]] = {}  # dataclasses by identity: recipes share their values
    values = tuple(values)

    def within(thing: Any) -> Any:
        if isinstance(thing, str):
            if thing not in said:
                new = masked(thing, values)
                said[thing] = thing if new == thing else new
            return said[thing]
        if thing is None or isinstance(thing, bool | int | float):
            return thing
        if is_dataclass(thing) and not isinstance(thing, type):
            if id(thing) not in seen:
                seen[id(thing)] = (thing, _with_texts(thing, within))
            return seen[id(thing)][1]
        if isinstance(thing, dict):
            values_of = {key: within(value) for key, value in thing.items()}
            return values_of if any(values_of[key] is not value for key, value in thing.items()) else thing
        if isinstance(thing, tuple | list):
            each = [within(one) for one in thing]
            return type(thing)(each) if any(new is not old for new, old in zip(each, thing, strict=True)) else thing
        return thing

    found: Anything = within(thing)
    return found


def _with_texts(thing: Any, within: Callable[[Any], Any]) -> Any:
    """A dataclass with its fields masked; itself where that changes none."""
    changed = {}
    for name in thing.__dataclass_fields__:
        old = getattr(thing, name)
        if (new := within(old)) is not old:
            changed[name] = new
    return replace(thing, **changed) if changed else thing


def _mask(value: str) -> str:
    """`hf_***`: what it is stays in sight, where its form says it."""
    head = re.match(r"[A-Za-z0-9]{2,4}[_-]|AKIA|ASIA|AIza|eyJ", value)
    return f"{head[0] if head else ''}{STARS}"
