"""Names that a port's machine doesn't have: an import of one ends the port at its first lines.

from huggingface_hub import HfFolder     # the libraries have it no longer
from google.colab import userdata        # only the notebook service has it
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...source.module import Module
from ...source.scopes import ends_the_run
from ...text.edit import Edit
from ...text.edits import Spans
from ..script.porting import Porting

RULE = "TP007"
# By name, what does the same in the releases that a port installs (huggingface_hub 1, datasets 4).
GONE = {
    "huggingface_hub.HfFolder": "huggingface_hub.get_token() and login() read and keep the token.",
    "huggingface_hub.Repository": "HfApi().upload_folder() uploads without a clone.",
    "huggingface_hub.InferenceApi": "huggingface_hub.InferenceClient asks a served model.",
    "huggingface_hub.cached_download": "huggingface_hub.hf_hub_download() keeps what it loads.",
    "huggingface_hub.ModelFilter": "list_models() takes the filters as keywords.",
    "huggingface_hub.DatasetFilter": "list_datasets() takes the filters as keywords.",
    "datasets.load_metric": "evaluate.load() loads the same metrics.",
    "datasets.list_metrics": "evaluate.list_evaluation_modules() lists them.",
    "datasets.list_datasets": "huggingface_hub.list_datasets() lists them.",
    "datasets.inspect_dataset": "huggingface_hub.snapshot_download() brings its files.",
    "datasets.Metric": "evaluate.Metric is the same class.",
}
# Modules that no package brings: by name, whose notebooks have them.
SERVICES = {"google.colab": "Colab", "kaggle_secrets": "Kaggle", "kaggle_datasets": "Kaggle"}
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
                gone, service = binding.qualified in GONE, service_of(binding.qualified)
                if not gone and (not service or _is_asked_first(module, binding.node)):
                    continue
                if all(module.span(use)[0] in spans for use in module.references(name, scope)):
                    continue
                place = module.location(binding.node)
                if gone:
                    library = binding.qualified.partition(".")[0]
                    message = f"{binding.qualified}: the {library} that a port installs has no such name any more."
                    porting.find(RULE, "error", message, GONE[binding.qualified], *place)
                else:
                    message = f"{binding.qualified} is there in {service} alone: on a TPU VM the port ends here."
                    porting.find(RULE, "warning", message, f"Run the port on a TPU of {service}, or {INSTEAD}.", *place)


def service_of(qualified: str) -> str:
    """The notebook service whose module holds a name; "" for none."""
    return next((who for module, who in SERVICES.items() if f"{qualified}.".startswith(f"{module}.")), "")


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
