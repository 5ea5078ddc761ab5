"""Names that a port's machine doesn't have: an import of one ends the port at its first lines.

from huggingface_hub import HfFolder     # the libraries have it no longer
from google.colab import userdata        # only the notebook service has it
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ....source.module import Module, flatten
from ....source.scopes import ends_the_run
from ....text.edit import Edit
from ....text.edits import Spans
from ...script.porting import Porting
from ...script.sites import absent_packages, facts_of

RULE = "TP007"
INSTEAD = "take its files, drives and secrets from the TPU VM's own disk and environment"


def say_gone_names(porting: Porting, edits: Sequence[Edit]) -> None:
    """A finding for each import of such a name that the port still uses; where a handler catches it, it may fail."""
    module = porting.module
    spans = Spans((edit.start, edit.end) for edit in edits)
    for scope in module.scopes.values() if porting.options.active(RULE) else ():
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                if binding.kind != "import" or is_probe(module, binding.node):
                    continue
                gone = gone_of(module, binding.qualified)
                service = service_of(module, binding.qualified)
                if not gone and (not service or _is_asked_first(module, binding.node)):
                    continue
                if all(module.span(use)[0] in spans for use in module.references(name, scope)):
                    continue
                place = module.location(binding.node)
                if gone:
                    library = binding.qualified.partition(".")[0]
                    message = f"{binding.qualified}: the {library} that a port installs has no such name any more."
                    porting.find(RULE, "error", message, gone, *place)
                else:
                    message = f"{binding.qualified} is there in {service} alone: on a TPU VM the port ends here."
                    porting.find(RULE, "warning", message, f"Run the port on a TPU of {service}, or {INSTEAD}.", *place)


def gone_of(module: Module, qualified: str) -> str:
    """What does the same as a name that its library has no more, whichever of the library's modules had it; "" for one
    that may be there.
    """
    return dict(facts_of(module).gone).get(flatten(qualified, (qualified.partition(".")[0],)), "")


def is_not_there(module: Module, library: str, source: str) -> bool:
    """Whether an import that nothing uses, and that needs a library, may well fail where the port runs."""
    facts = facts_of(module)
    lacks = library in absent_packages(module) or library in facts.gpu_drivers
    return lacks or gone_of(module, source) != "" or service_of(module, source) != ""


def service_of(module: Module, qualified: str) -> str:
    """The notebook service whose module holds a name; "" for none."""
    services = facts_of(module).services
    return next((who for name, who in services if f"{qualified}.".startswith(f"{name}.")), "")


def _is_asked_first(module: Module, node: cst.CSTNode) -> bool:
    """Whether a condition stands before the import: `if IN_COLAB:`."""
    return any(isinstance(holder, cst.If) for holder in module.ancestors(node))


def is_probe(module: Module, node: cst.CSTNode) -> bool:
    """Whether an import stands in a `try` whose handler says what holds without it; one that ends the run doesn't."""
    inner = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.ClassDef):
            return False
        if isinstance(ancestor, cst.Try):
            return ancestor.body is inner and not all(ends_the_run(handler.body) for handler in ancestor.handlers)
        inner = ancestor
    return False
