"""Libraries of the GPU side that the port still needs: what it imports, and what transformers loads models with."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Sequence
from functools import cache

from ...text.edit import Edit
from ...text.edits import apply_edits
from ...text.import_lines import STRING
from ..packs.facts import Facts, is_like

SAVES_ADAPTERS = re.compile(r"\brt\.(?:apply_\w+|save_adapter)\(")  # puts adapters in, or saves them
# A file of Python that the script names, which it may write and run.
PYTHON_FILE = re.compile(r"""[\w-]\.py["']""")


def libraries_left(text: str, edits: Sequence[Edit], known: Collection[str], facts: Facts) -> frozenset[str]:
    """The packages among `known` that a text needs once its edits are made."""
    after = apply_edits(text, edits)
    code = _without_texts(after)
    modules = {name: name.replace("-", "_") for name in known}
    said = {name: module for name, module in modules.items() if module in code}
    others = r"(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*"  # `import torch, trl as t, accelerate`
    imports = rf"(?m)^\s*(?:import[ \t]+{others}|from[ \t]+)"
    found = {name for name, module in said.items() if re.search(rf"{imports}{module}\b", code)}
    homes = "|".join(sorted({name.partition(".")[0] for name in (*dict(facts.call_needs), *facts.kept_models)}))
    if not homes or re.search(rf"(?m)^\s*(?:import|from)\s+(?:{homes})\b", code) is None:
        return frozenset(found)
    tensors = {package for _, package in facts.tensors}
    for call in _loading(facts).finditer(code):
        if call["method"] is None and not call["name"][0].islower():
            continue
        given = _inside(code, call.end())
        needs = {what for fact, what in facts.call_needs if is_like(call["name"], (fact.partition(".")[2],))}
        found |= needs or tensors
        if call["method"] != ".from_config" and SAVES_ADAPTERS.search(code):
            # with which transformers loads a folder or repository that holds adapters alone
            found.update(name.partition(".")[0] for name in facts.puts_in_adapters)
        for each, libraries in facts.installs:
            if _is_given(each, given, code):
                found.update(libraries.split())
    for each, libraries in facts.installs:
        if (found & tensors and _is_method(each, code)) or _is_trainer(each, code):
            found.update(libraries.split())
    return frozenset(found & set(known))


@cache
def _loading(facts: Facts) -> re.Pattern[str]:
    """A call that gives a model of torch, or is nothing without it."""
    names = {fact.split(".")[1].replace("*", r"\w*") for fact in (*dict(facts.call_needs), *facts.kept_models)}
    return re.compile(rf"\b(?P<name>{'|'.join(sorted(names))})(?P<method>\.from_pretrained|\.from_config)?\(")


def _is_given(said: str, given: str, code: str) -> bool:
    """Whether a call that loads is given a keyword, `device_map=`, a value of one, or a configuration of a class."""
    name, sign, value = said.partition("=")
    if sign:
        found = rf"""\b{name}["']?\s*[=:]\s*["']{value}["']""" if value else rf"\b{name}\s*="
        return re.search(found, given) is not None
    made = said.removesuffix("()").rpartition(".")[2]
    return made.endswith("Config") and "quantization_config" in given and re.search(rf"\b{made}\(", code) is not None


def _is_method(said: str, code: str) -> bool:
    return said.startswith("@model.") and f".{said.removeprefix('@model.')[:-1]}" in code


def _is_trainer(said: str, code: str) -> bool:
    """Whether a library's trainer is imported by its name and made."""
    library, _, name = said.removesuffix("()").partition(".")
    if not name.endswith("Trainer"):
        return False
    imported = re.search(rf"(?m)^\s*from\s+{library}\s+import\b[^#]*\b{name}\b", code)
    return imported is not None and re.search(rf"(?<![\w.])(?:{library}\.)?{name}\(", code) is not None


def _without_texts(code: str) -> str:
    """Code without its texts of several lines, such as a model card with an example; a program that stands in one stays
    where the code names files of Python, since it may write and run it.
    """
    writes = PYTHON_FILE.search(code) is not None

    def kept(match: re.Match[str]) -> str:
        return match[0] if "\n" not in match[0] or (writes and _is_program(match[2])) else match["prefix"] + '""'

    return STRING.sub(kept, code)


def _is_program(quoted: str) -> bool:
    try:
        ast.parse(textwrap.dedent(quoted.strip("\"'")))
    except (SyntaxError, ValueError):
        return False
    return True


def _inside(text: str, start: int) -> str:
    """What stands between the parentheses of a call, the first of which ends at `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]
