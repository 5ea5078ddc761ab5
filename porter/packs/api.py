"""What a pack's Python rules import, with libcst: what they are given, and what they may ask.

A rule is a function of a site and of what it may do there. `apply(site: Site, porting: Porting)` writes the port,
`read(site: Site, reading: Reading)` yields what a line means for the training. A step goes through the whole script,
`@step(Phase.ANSWER)`, and asks what `porter.packs.script`, `training`, `writing` and `runtime` have. docs/packs.md
documents them; names that aren't listed here may change with any release.
"""

from __future__ import annotations

import libcst as cst

from ..engine.answering.pack_places import Definition
from ..engine.dating.asked.places import release_of
from ..engine.packs.facts import is_like
from ..engine.packs.patterns import parse_pattern
from ..engine.reading.pack_readings import Fill, Reading
from ..engine.script.flow import binding_origins, origins
from ..engine.script.following.may_be_none import is_none_somewhere
from ..engine.script.following.reaching import reaching
from ..engine.script.keywords import say_keywords
from ..engine.script.porting import Porting
from ..engine.script.sites import Argument, Site, facts_of
from ..engine.script.training import Training
from ..engine.settling import decisions
from ..engine.steps.step import Phase, step
from ..engine.tokens.tokenizers import saved_tokenizer
from ..recipe import Field, Finding, Origin, Severity, Value
from ..runtime.facts.field_tables import version_key
from ..target.statements.evaluation import evaluates_in_training, strategy_when_run
from ..target.statements.training_config import loads_best
from ..text.expressions import choice

__all__ = [
    "Argument",
    "Definition",
    "Field",
    "Fill",
    "Finding",
    "Origin",
    "Phase",
    "Porting",
    "Reading",
    "Severity",
    "Site",
    "Value",
    "choice",
    "condition_of",
    "decide",
    "evaluates_in_training",
    "is_before",
    "is_none_somewhere",
    "loads_best",
    "made_by",
    "matched",
    "methods_of",
    "remove_decorator",
    "saved_tokenizer",
    "say_keywords",
    "stays_torchs",
    "step",
    "strategy_when_run",
]


# Conditions


def decide(porting: Porting, site: Site, answer: bool, reason: str) -> None:
    """What a site asks is decided: an `if` keeps the branch that runs, a longer condition loses this part.

    `if site and more: ...` keeps `if more: ...` for True, and goes for False.
    """
    assert isinstance(site.node, cst.BaseExpression)
    node = site.node
    decisions.decide(porting, node, lambda part: answer if part is node else None, site.rule, reason)


def condition_of(porting: Porting, site: Site) -> cst.If | None:
    """The `if` whose condition a site is, or is part of with `and`, `or` and `not`; None where it stands elsewhere."""
    assert isinstance(site.node, cst.BaseExpression)
    test = decisions.condition(porting.module, site.node)
    holder = porting.module.parents[test]
    return holder if isinstance(holder, cst.If) and holder.test is test else None


# Releases


def is_before(porting: Training, library: str, release: str) -> bool:
    """Whether the script was written for an older release of a library than `release`; False where none is known."""
    said = porting.versions.get(library, "")
    told = "" if said.endswith("(newest table)") else said.partition(" ")[0]
    known = told or release_of(porting, library) or ""
    return bool(known) and version_key(known) < version_key(release)


# Values


def made_by(porting: Porting | Reading, node: cst.BaseExpression | None) -> str | None:
    """The import name of what made a value, through variables and functions of the file: `our_library.Client`."""
    for value in origins(porting.module, node):
        name = porting.module.qualified(value.func if isinstance(value, cst.Call) else value)
        if name is not None:
            return name
    return None


def stays_torchs(porting: Porting, node: cst.BaseExpression | None) -> bool:
    """Whether a value is a model that transformers or PEFT loads in the port, too: no rule has made it Tunix's."""
    loaders = facts_of(porting.module).kept_models
    made = list(origins(porting.module, node))
    for binding in reaching(porting.module, node) if node is not None else ():
        made += binding_origins(porting.module, binding)
    for value in made:
        name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and is_like(name, loaders) and not porting.covered(porting.module.span(value)[0]):
            return True
    return False


def matched(porting: Porting | Reading, node: cst.CSTNode, pattern: str) -> dict[str, str] | None:
    """The code of each hole where `node` is an expression like `pattern`, `{model}.to({device})`; None elsewhere.

    ValueError for a pattern that is none.
    """
    captured = parse_pattern(pattern).captures(porting.module, node)
    return {name: porting.module.code(value) for name, value in captured.items()} if captured is not None else None


# Classes and functions of the file


def methods_of(site: Site) -> dict[str, cst.FunctionDef]:
    """The methods that a class of the file defines, by name."""
    body = site.node.body.body if isinstance(site.node, cst.ClassDef) else ()
    return {node.name.value: node for node in body if isinstance(node, cst.FunctionDef)}


def remove_decorator(porting: Porting, site: Site, reason: str) -> None:
    """The decorator of a function goes; the function stays."""
    assert isinstance(site, Definition) and isinstance(site.node, cst.FunctionDef)
    module = porting.module
    kept = site.node.decorators
    place = next(index for index, decorator in enumerate(kept) if decorator.decorator is site.by)
    start = module.span(kept[place])[0]
    end = module.span(kept[place + 1] if place + 1 < len(kept) else site.node)[0]
    porting.edit(start, end, "", site.rule, reason)
