"""Porting one module: find the sites, read the recipe, write the target, answer the rest, put the text together."""

from __future__ import annotations

import os
import re
from copy import copy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ..errors import InputError
from ..meshes import parse_mesh
from ..port import Options, Port, Status
from ..recipe import Finding, Recipe
from ..releases.versions import pins_of
from ..runtime.facts.field_tables import version_key
from ..safety.limits import frames_of, place_of
from ..safety.masking import find_secrets, masked_in
from ..safety.shown import one_line
from ..source.launch.launch_config import read_launch_config
from ..source.merged import Merged
from ..source.module import Module
from ..text.edits import line_start
from .answering.pack_steps import take
from .answering.unclaimed_configs import say_other_calls
from .assembling.per_file import divided
from .assembling.receipts import receipts
from .assembling.whole_port import finish
from .dating.decided.release_tests import answer_release_tests
from .dating.told.said_release import say_release
from .dating.versions import versions_in
from .draft.findings import NO_TASK
from .foreign import is_foreign
from .loops.loop_trainer import find_loops, loop_table
from .loops.models_trained import say_others
from .loops.unread.unknown_training import find_unknown_training
from .packs.engine_rules import check_names
from .packs.facts import note_facts
from .packs.pack import KEPT, Pack
from .packs.packs import load_packs
from .packs.said_by_packs import dating_pack, facts_in, launchers, newest_of, owner_of
from .script.fill_from_tables import OWN_WAY, find_other_trainer, find_sites, trainer_libraries
from .script.porting import Porting
from .script.sites import Site
from .script.trainers import merge, merge_findings, read_views
from .script.training import Training
from .script.uses_of_training import role_uses
from .steps.order import BadSteps, by_phase
from .steps.step import Phase, Step

STEPS = ("porter.engine", "porter.target")  # the packages whose modules declare steps
MOST_ROUNDS = 8
# What is followed in one file: its trainers, and for all of several together the uses of them and of their models.
MOST_TRAINERS, MOST_USES = 500, 400_000
# A trainer by a bare name, as `import *` gives it; PeftTrainer is Tunix's, of a port.
OWN_TRAINER = re.compile(r"(?<![.\w])(?!PeftTrainer)\w*Trainer\(")


def port_module(module: Module, options: Options) -> Port:
    """Port a parsed module. InputError for a wrong option; everything about the source becomes a finding.

    So does a mistake of tpu-port or of a pack's rule: the file stays as it is, and the line is named at which it was
    made. TPU_PORT_TRACEBACK=1 raises it instead.
    """
    try:
        return _without_secrets(_port_module(module, options))
    except (InputError, RecursionError, MemoryError):
        raise
    except Exception as error:
        if os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        return _own_mistake(module, error)


def _without_secrets(port: Port) -> Port:
    """The port with secrets of its source masked in all that is said of it; its text keeps them, the user's lines."""
    is_said = port.edits or port.findings or port.recipe.fields or port.recipe.values
    found = find_secrets(port.before) if is_said else ()
    if not found and masked_in(port.recipe, ()) is port.recipe:
        return port
    findings = []
    for secret in found if port.edits or port.findings else ():
        begin = line_start(port.before, secret.start)
        line, column = len(re.findall(r"\r\n|\r|\n", port.before[:begin])) + 1, secret.start - begin + 1
        message = f"A secret stands in the source ({secret.kind}): it is masked here, and stays in the port's line."
        fix = "Revoke it if others see this file, and read it from the environment."
        findings.append(Finding("TP198", "warning", message, fix, line, column))
    recipe = masked_in(port.recipe.with_findings(findings), [secret.value for secret in found])
    return replace(port, recipe=recipe)


def _own_mistake(module: Module, error: Exception) -> Port:
    frames = frames_of(error.__traceback__)
    line = getattr(error, "line", None) or place_of(frames) or 1
    where = f"{os.path.basename(frames[0].f_code.co_filename)}:{frames[0].f_lineno}"
    message = f"tpu-port made a mistake here ({where}: {type(error).__name__}: {error}): nothing of the file is ported."
    fix = "TPU_PORT_TRACEBACK=1 shows where; please report it."
    recipe = Recipe(module.path, findings=(Finding("TP199", "error", one_line(message), fix, line, 1),))
    text, notebook = module.as_written, module.notebook
    return Port(module.path, text, text, "unsupported", recipe, (), module.bom, module.encoding, notebook=notebook)


def _port_module(module: Module, options: Options) -> Port:
    packs = load_packs(options.rules)
    check_names((*options.select, *options.ignore), packs)
    whole = Training(module, options, packs)
    whole.mesh = parse_mesh(options.mesh) if options.mesh is not None else None
    note_facts(module, facts_in(packs))
    if is_foreign(module, options, packs):
        text = module.as_written
        return Port(module.path, text, text, "unchanged", Recipe(module.path), (), module.bom, module.encoding)
    find_sites(whole)
    whole.versions = versions_in(whole) if whole.sites else {}
    if answer_release_tests(whole):
        whole.sites, whole.answers = [], {}
        find_sites(whole)
    _take(whole, "file", Phase.FIND)
    whole.recipe = Recipe(module.path, versions=whole.versions)
    _check_release(whole)
    for cell, why in module.notebook.skipped if module.notebook is not None else ():
        message = f"Cell {cell} is no Python ({why}): it stays as it is."
        whole.find("TP000", "warning", message, "Mend it if it matters, and port again.", 1, 1)
    if options.launch_config is not None:
        counted = options.processes is not None
        others = launchers(packs)
        whole.launch = read_launch_config(options.launch_config, Path(module.path), counted=counted, others=others)
    trainers = [site for site in whole.sites if site.role == "trainer"] or find_loops(whole)
    named = "|".join(sorted(trainer_libraries(packs)))
    star = re.search(rf"^[ \t]*from[ \t]+({named})\b[\w.]*[ \t]+import[ \t]+\*", module.text, re.MULTILINE)
    if not trainers and star is not None and OWN_TRAINER.search(module.text):
        line, column = module.line_column(star.start())
        message = f"import * hides which of these names are {owner_of(packs, star[1])}."
        whole.find("TP102", "error", message, "Import the classes by name, and port again.", line, column)
        return finish(Porting.of(whole), "unsupported")
    if not trainers:
        return _without_trainer(whole)
    if len(trainers) > MOST_TRAINERS:
        return _with_too_many(whole, trainers, f"no more than {MOST_TRAINERS} of a file are ported")
    unnamed = [site for site in trainers if site.is_bound and not (site.alone or site.variable)]
    if unnamed:
        return _without_name(whole, unnamed)
    read = read_views(whole, trainers, lambda view: _take(view, "trainer", Phase.READ))
    if len(read) > 1 and sum(len(role_uses(view)) for view in read) > MOST_USES:
        return _with_too_many(whole, trainers, "they and their models are used in too many places to follow them all")
    views = [Porting.of(training) for training in read]
    possible = [view for view in views if not view.refused]
    if not possible:
        for view in views:
            if view.findings.has(NO_TASK):
                view.findings.keep(NO_TASK, whole.findings)
        return finish(merge(views), "unsupported")
    for view in possible:
        _take(view, "trainer", Phase.WRITE, Phase.ANSWER, Phase.CARRY)
    porting = merge(views)
    porting.trainers = tuple(possible)
    _take(porting, "file", Phase.ANSWER)
    _settle(porting)
    for view in possible:
        view.edits = porting.edits
        _take(view, "trainer", Phase.NAME)
    porting = merge_findings(porting, views)
    _take(porting, "file", Phase.NAME)
    return finish(porting, None)


def _take(porting: Training, of: str, *phases: Phase) -> None:
    """Take the steps of phases that are of a trainer, or of the file."""
    for phase in phases:
        steps = steps_of(porting.packs)[phase, of]
        for each in steps:
            take(porting, each, steps)


@lru_cache(maxsize=KEPT)
def steps_of(packs: tuple[Pack, ...]) -> dict[tuple[Phase, str], tuple[Step, ...]]:
    """The steps of the engine and of packs. InputError where a pack's can't be put in order."""
    try:
        return by_phase(STEPS, tuple(each for pack in packs for each in pack.steps))
    except BadSteps as error:
        for each in error.steps:
            if each.path is not None:
                fix = "correct what its steps read, fill or settle"
                raise InputError(f"pack {each.pack}: {error}", each.path, each.line, fix=fix) from None
        raise


def _settle(porting: Porting) -> None:
    """Take out what the others leave, again until nothing more falls. What two have planned alike is one edit."""
    porting.edits = list(dict.fromkeys(porting.edits))
    for _ in range(MOST_ROUNDS):
        before = porting.edits
        porting.edits = list(before)
        _take(porting, "file", Phase.SETTLE)
        if set(porting.edits) == set(before):
            porting.edits = before
            return
    message = f"After {MOST_ROUNDS} rounds something still falls that nothing of the port needs: the rest of it stays."
    porting.find("TP001", "warning", message, "Port the port once more, or take it out.", 1, 1)


def _without_trainer(porting: Training) -> Port:
    """Nothing changes; a trainer that no table reads is named."""
    module = porting.module
    before = copy(porting.findings)
    loop = loop_table(porting) if len(porting.findings) else None
    name = find_other_trainer(porting) or (loop.names[0] if loop is not None else find_unknown_training(porting))
    if porting.findings.has(OWN_WAY):  # by what it trains, too
        say_others(porting)
        if porting.findings.has(NO_TASK):
            porting.findings.keep(NO_TASK, before)
    status: Status = "unsupported" if name else "unchanged"
    port = Porting.of(porting)
    say_other_calls(port, (), status)
    rows = receipts(port, (), refused=True)
    recipe = replace(port.recipe, trainer=name, fields=rows, findings=port.findings.by_place())
    kind = (module.bom, module.encoding, (), module.notebook)
    made = Port(module.path, module.as_written, module.as_written, status, recipe, (), *kind)
    return divided(made, module, ()) if isinstance(module, Merged) else made


def _check_release(porting: Training) -> None:
    """`--source-trl` names a release that the tables know; a newer one is read as the newest."""
    say_release(porting)
    asked = porting.options.source_trl
    if asked is None or not porting.sites:
        return
    pack = dating_pack(porting.packs)
    library, reads = next(iter(pack.reads.items()))
    oldest = next(version for sign, version in pins_of(reads) if sign == ">=")
    newest = newest_of(porting.packs, library)
    if version_key(asked) < version_key(oldest):
        known = f"{pack.title} {oldest} to {newest}"
        raise InputError(f"--source-trl {asked}: tpu-port knows {known}", fix="name one of these releases")
    if version_key(asked) > version_key(newest):
        site = porting.sites[0]
        message = f"{pack.title} {asked} is newer than the tables: it is read as {newest}."
        porting.find("TP101", "warning", message, "Check the defaults that changed since.", site.line, site.column)


def _without_name(porting: Training, sites: list[Site]) -> Port:
    for site in sites:
        message = "This trainer is made inside an expression that may not be evaluated, so what follows can't be told."
        porting.find(site.rule, "error", message, "Write `trainer = SFTTrainer(...)`.", site.line, site.column)
    porting.recipe = replace(porting.recipe, trainer=sites[0].qualified)
    return finish(Porting.of(porting), "unsupported")


def _with_too_many(porting: Training, trainers: list[Site], why: str) -> Port:
    """A script that a program has written, or somebody who wants to see tpu-port at work for an hour."""
    site = trainers[min(len(trainers) - 1, MOST_TRAINERS)]
    message = f"This file makes {len(trainers)} trainers: {why}."
    porting.find(site.rule, "error", message, "Port it in parts.", site.line, site.column)
    porting.recipe = replace(porting.recipe, trainer=trainers[0].qualified)
    return finish(Porting.of(porting), "unsupported")
