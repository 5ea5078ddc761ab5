"""A class that a script tries to import and that its release hasn't yet: the GPU run goes on in the `except`.

try:
    from trl import SFTConfig, SFTTrainer  # TRL 0.8: an ImportError
except ImportError:
    from trl import SFTTrainer
    SFTConfig = None

The port has the class whatever the release, and would go the other way.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ....releases.history import LIBRARIES, history
from ....runtime.facts.field_tables import version_key
from ....source.module import Module
from ....source.scopes import catches_missing, dotted, ends_the_run
from ...script.dead_blocks import is_dead
from ...script.fill_from_tables import plain_version
from ...script.porting import Porting
from ...steps.step import Phase, step

RULE = "TP008"
SETTINGS = ("Config", "Arguments")


@step(Phase.ANSWER)
def say_tried_imports(porting: Porting) -> None:
    """An error at each such import of a class that the training is made of, or that holds settings."""
    module = porting.module
    made = {site.qualified for site in porting.sites}
    for holder in [node for node in module.parents if isinstance(node, cst.Try)] if "except" in module.text else ():
        handlers = [each for each in holder.handlers if catches_missing(each)]
        if not handlers or all(ends_the_run(each.body) for each in handlers) or is_dead(module, holder):
            continue
        again = {name for each in handlers for name, _ in _imported(each)}
        for name, alias in _imported(holder.body):
            library = name.partition(".")[0]
            release = plain_version(porting.versions.get(library, "")) if library in LIBRARIES else ""
            counts = name not in again and (name in made or name.endswith(SETTINGS))
            since = history().lifetime(library, name)[0] if release and counts else None
            if since is None or version_key(release) >= version_key(since) or not _is_read(module, holder, alias):
                continue
            message = f"{library} {release} has no {name.rpartition('.')[2]} (new in {since}): the GPU run goes on in "
            message += "`except`. The port has the class, and goes the other way."
            fix = "Write what that release does without the `try`, or name the release by --source-trl if it was "
            fix += "another."
            porting.find(RULE, "error", message, fix, *module.location(alias))


def _is_read(module: Module, holder: cst.Try, alias: cst.ImportAlias) -> bool:
    """Whether anything outside the `try` reads the name that an import binds."""
    bound = alias.evaluated_alias or alias.evaluated_name
    uses = module.references(bound, module.scope(holder))
    return any(holder not in module.ancestors(use) for use in uses)


def _imported(block: cst.CSTNode) -> Iterator[tuple[str, cst.ImportAlias]]:
    """What the lines of a block import from a module, by its whole name."""
    body = block.body if isinstance(block, cst.ExceptHandler) else block
    for line in body.body if isinstance(body, cst.IndentedBlock) else ():
        for part in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.ImportFrom) and part.module is not None and not part.relative:
                home = dotted(part.module)
                for alias in part.names if not isinstance(part.names, cst.ImportStar) else ():
                    yield f"{home}.{alias.evaluated_name}", alias
