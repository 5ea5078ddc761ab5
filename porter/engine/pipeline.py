"""Porting one module: find the sites, read the recipe, write the target, answer the rest, put the text together."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import libcst as cst

from ..errors import InputError
from ..meshes import parse_mesh
from ..port import Options, Port, Status
from ..recipe import Finding, Recipe
from ..runtime.facts.field_tables import version_key
from ..safety.limits import frames_of, place_of
from ..safety.masking import find_secrets, masked_in
from ..safety.shown import one_line
from ..source.launch.launch_config import Setting, read_launch_config
from ..source.merged import Merged
from ..source.module import Module
from ..target.write import write
from ..text.edits import line_start
from .answering.annotations import drop_subclasses, rename_annotations
from .answering.asked_gpus import name_asked_gpus
from .answering.given_to_unknown_code import name_handed
from .answering.library_names import apply_rewrites
from .answering.member_uses import apply_members
from .answering.pack_places import apply_places
from .answering.saving_functions import replace_saving_functions
from .answering.scoped_names import is_in_reach
from .answering.spread_arguments import spread_arguments
from .answering.trained_again import say_trained_again
from .answering.unclaimed_configs import say_other_calls
from .answering.wrapped_models import answer_wrapping
from .assembling.gpu_contexts import share_mesh
from .assembling.metadata import script_metadata
from .assembling.per_file import divided
from .assembling.receipts import receipts
from .assembling.whole_port import finish
from .libraries.accelerate.deepspeed import apply_deepspeed, named_settings
from .libraries.accelerate.world_size import apply_world_size
from .libraries.accelerate.zero3 import answer_zero_tests
from .libraries.datasets.columns import list_columns
from .libraries.peft.merged_adapters import note_merged
from .libraries.peft.parameter_counts import replace_counts
from .libraries.torch.compared_types import answer_comparisons
from .libraries.torch.cuda_available import answer_gpu_tests
from .libraries.torch.cuda_left import name_cuda_left
from .libraries.torch.gpu_branches import settle_gpu_branches
from .libraries.torch.gpu_reports import drop_gpu_reports
from .libraries.torch.gpu_tests_left import name_gpu_tests
from .libraries.torch.handed_types import keep_handed_types
from .libraries.torch.layer_casts import drop_casts
from .libraries.torch.loop_trainer import LOOP, find_loops
from .libraries.torch.named_types import rewrite_named_types
from .libraries.torch.torch_tensors import answer_tensors
from .libraries.transformers.attention_cap import say_attention_cap
from .libraries.transformers.auto_config import answer_configs
from .libraries.transformers.checkpointing import scan_checkpointing
from .libraries.transformers.embedding_rows import answer_rows
from .libraries.transformers.generation.generate import apply_generation
from .libraries.transformers.saving_patches import (
    drop_gathered_weights,
    drop_saving_patches,
)
from .libraries.transformers.tokenizers_of_4 import keep_tokenizers
from .libraries.trl.class_patches import name_class_patches
from .libraries.trl.reference_members import apply_reference_members
from .libraries.unsloth.chat_template import answer_chat_templates
from .packs.engine_rules import check_names
from .packs.packs import Pack, launchers, load_packs
from .reading.families import check_mesh, find_model_family, refused
from .reading.kept_configs import answer_uses
from .reading.launch import read_launch
from .reading.pack_readings import read_packs
from .reading.precision import settle_compute_type
from .reading.read_trainer import read_trainer
from .reading.release_tests import answer_release_tests, settle_release_tests
from .reading.resuming import resumed_from
from .reading.unknown_training import find_unknown_training
from .script.dating import say_release, versions_in
from .script.dead_blocks import drop_dead_code
from .script.fill_from_tables import find_other_trainer, find_sites
from .script.porting import Porting
from .script.sites import Site
from .script.trainers import merge, merge_findings, read_views
from .script.uses_of_training import Use, role_uses
from .settling.all_hosts import take_all_hosts
from .settling.blocks import close_empty_blocks
from .settling.constant_conditionals import settle_branches
from .settling.leftovers import drop_leftovers
from .settling.release_asserts import drop_release_asserts
from .settling.unused import drop_device_maps, drop_unused_functions

Mesh = tuple[int, int] | None
# A trainer by a bare name, as `import *` gives it; PeftTrainer is Tunix's, of a port.
OWN_TRAINER = re.compile(r"(?<![.\w])(?!PeftTrainer)\w*Trainer\(")
OLDEST_TRL = (0, 7)  # the first release whose defaults the tables give


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
    if not found and masked_in(port.recipe, ()) == port.recipe:
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
    porting = Porting(module, options, packs)
    mesh = parse_mesh(options.mesh) if options.mesh is not None else None
    find_sites(porting)
    porting.versions = versions_in(porting) if porting.sites else {}
    if answer_release_tests(porting):
        porting.sites, porting.answers = [], {}
        find_sites(porting)
    note_merged(porting)
    porting.recipe = Recipe(module.path, versions=porting.versions)
    _check_release(porting)
    for cell, why in module.notebook.skipped if module.notebook is not None else ():
        message = f"Cell {cell} is no Python ({why}): it stays as it is."
        porting.find("TP000", "warning", message, "Mend it if it matters, and port again.", 1, 1)
    launch: tuple[Setting, ...] = ()
    if options.launch_config is not None:
        counted = options.processes is not None
        others = launchers(packs)
        launch = read_launch_config(options.launch_config, Path(module.path), counted=counted, others=others)
    trainers = [site for site in porting.sites if site.role == "trainer"] or find_loops(porting)
    star = re.search(r"^[ \t]*from[ \t]+trl\b[\w.]*[ \t]+import[ \t]+\*", module.text, re.MULTILINE)
    if not trainers and star is not None and OWN_TRAINER.search(module.text):
        line, column = module.line_column(star.start())
        message = "import * hides which of these names are TRL's."
        porting.find("TP102", "error", message, "Import the classes by name, and port again.", line, column)
        return finish(porting, "unsupported")
    if not trainers:
        return _without_trainer(porting)
    unnamed = [site for site in trainers if site.is_bound and not (site.alone or site.variable)]
    if unnamed:
        return _without_name(porting, unnamed)
    views = read_views(porting, trainers, lambda view: _read(view, packs, launch, mesh))
    possible = [view for view in views if not view.refused]
    if not possible:
        return finish(merge(views), "unsupported")
    for view in possible:
        _write(view, mesh)
    porting = merge(views)
    settle_release_tests(porting)
    share_mesh(porting)
    rename_annotations(porting, possible)
    drop_gpu_reports(porting)
    settle_gpu_branches(porting)
    answer_gpu_tests(porting)
    drop_gpu_reports(porting)
    drop_gathered_weights(porting)
    answer_zero_tests(porting)
    answer_chat_templates(porting)
    keep_tokenizers(porting)
    apply_places(porting)
    answer_comparisons(porting)
    keep_handed_types(porting)
    apply_rewrites(porting)
    rewrite_named_types(porting)
    apply_world_size(porting)
    for view in possible:
        view.edits = porting.edits
        name_handed(view)
        _check_trained(view)
        say_trained_again(view)
    porting = merge_findings(porting, views)
    find_other_trainer(porting, todo=True)
    name_class_patches(porting)
    drop_subclasses(porting, possible)
    settle_branches(porting)
    take_all_hosts(porting)
    drop_leftovers(porting)
    drop_device_maps(porting)
    drop_unused_functions(porting)
    answer_tensors(porting)
    list_columns(porting)
    close_empty_blocks(porting)
    name_gpu_tests(porting)
    name_cuda_left(porting)
    name_asked_gpus(porting)
    return finish(porting, None)


def _read(porting: Porting, packs: tuple[Pack, ...], launch: tuple[Setting, ...], mesh: Mesh) -> None:
    """What one trainer of the file trains, and how."""
    read_trainer(porting)
    read_packs(porting)
    settings = (*launch, *named_settings(porting, launch))
    read_launch(porting, packs, settings)
    apply_deepspeed(porting, settings)
    family, sizes = find_model_family(porting)
    assert porting.trainer is not None
    porting.recipe = replace(
        porting.recipe, trainer=porting.trainer.qualified, target="PeftTrainer", family=family.name if family else None
    )
    settle_compute_type(porting, family)
    say_attention_cap(porting, family)
    porting.refused = refused(porting, family)
    check_mesh(porting, family, sizes, mesh)
    _scan_members(porting)
    scan_checkpointing(porting)


def _write(porting: Porting, mesh: Mesh) -> None:
    """Everything that one trainer of the file becomes."""
    drop_dead_code(porting)
    drop_release_asserts(porting)
    family, sizes = find_model_family(porting)
    write(porting, family, sizes, mesh)
    script_metadata(porting)
    drop_saving_patches(porting)
    replace_saving_functions(porting)
    replace_counts(porting)
    drop_casts(porting)
    answer_rows(porting)
    answer_configs(porting)
    apply_generation(porting)
    answer_wrapping(porting)
    apply_members(porting)
    apply_reference_members(porting)
    answer_uses(porting)
    spread_arguments(porting)


def _without_trainer(porting: Porting) -> Port:
    """Nothing changes; a trainer that no table reads is named."""
    module = porting.module
    name = find_other_trainer(porting) or (LOOP if len(porting.findings) else find_unknown_training(porting))
    status: Status = "unsupported" if name else "unchanged"
    say_other_calls(porting, (), status)
    rows = receipts(porting, (), refused=True)
    recipe = replace(porting.recipe, trainer=name, fields=rows, findings=tuple(porting.findings))
    kind = (module.bom, module.encoding, (), module.notebook)
    port = Port(module.path, module.as_written, module.as_written, status, recipe, (), *kind)
    return divided(port, module, ()) if isinstance(module, Merged) else port


def _check_release(porting: Porting) -> None:
    """`--source-trl` names a release that the tables know; a newer one is read as the newest."""
    say_release(porting)
    asked = porting.options.source_trl
    table = next(
        (rule.table for pack in porting.packs for rule in pack.tables if rule.table.name == "trl.SFTConfig"), None
    )
    if asked is None or table is None or not porting.sites:
        return
    if version_key(asked) < OLDEST_TRL:
        known = f"{'.'.join(map(str, OLDEST_TRL))} to {table.newest}"
        raise InputError(f"--source-trl {asked}: tpu-port knows TRL {known}", fix="name one of these releases")
    if version_key(asked) > version_key(table.newest):
        site = porting.sites[0]
        message = f"TRL {asked} is newer than the tables: it is read as {table.newest}."
        porting.find("TP101", "warning", message, "Check the defaults that changed since.", site.line, site.column)


def _without_name(porting: Porting, sites: list[Site]) -> Port:
    for site in sites:
        message = "This trainer is made inside an expression that may not be evaluated, so what follows can't be told."
        porting.find(site.rule, "error", message, "Write `trainer = SFTTrainer(...)`.", site.line, site.column)
    porting.recipe = replace(porting.recipe, trainer=sites[0].qualified)
    return finish(porting, "unsupported")


def _scan_members(porting: Porting) -> None:
    """What the writer has to know of the lines after the trainer: whether it evaluates, whether it resumes."""
    uses_of_trainer = list(role_uses(porting, "trainer"))
    if not any(use.match == "@trainer.train()" for use in uses_of_trainer) and _is_given_away(porting, uses_of_trainer):
        porting.used_elsewhere = porting.given_away = True
    trains: list[cst.Call] = []
    for use in uses_of_trainer:
        if use.kind != "bare" and not is_in_reach(porting, use.name):
            porting.used_elsewhere = True
        if use.match == "@trainer.evaluate()":
            porting.evaluates = True
        if use.match == "@trainer.train()":
            assert isinstance(use.outer, cst.Call)
            trains.append(use.outer)
    porting.resumes = resumed_from(porting, trains)


def _check_trained(porting: Porting) -> None:
    site = porting.trainer
    assert site is not None
    if porting.loop is None and not any(use.match == "@trainer.train()" for use in role_uses(porting, "trainer")):
        message = "The call of train() on this trainer was not found beside it."
        names = porting.names
        batches = f"{names.trainer}.batches" if porting.given_away else names.batches
        fix = f"Where it is called, write `with {names.mesh}: {names.trainer}.train({batches})`."
        porting.find("TP111", "error", message, fix, site.line, site.column)


def _is_given_away(porting: Porting, uses: list[Use]) -> bool:
    """Whether the trainer leaves its function: it is returned, or an attribute of `self`."""
    site = porting.trainer
    assert site is not None
    nodes = [site.node, *(use.name for use in uses)]
    returned = any(isinstance(porting.module.parents[node], cst.Return) for node in nodes)
    return returned or (site.variable is not None and "." in site.variable)
