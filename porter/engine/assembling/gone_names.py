"""Names that the libraries of a port no longer have: an import of one ends the port at its first lines.

from huggingface_hub import HfFolder
from datasets import load_metric
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import within
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


def say_gone_names(porting: Porting, edits: Sequence[Edit]) -> None:
    """An error for each import of such a name that the port still uses; where a handler catches it, it may fail."""
    module = porting.module
    spans = sorted((edit.start, edit.end) for edit in edits)
    for scope in module.scopes.values() if porting.options.active(RULE) else ():
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                if binding.kind != "import" or binding.qualified not in GONE or is_probe(module, binding.node):
                    continue
                if any(not within(module.span(use)[0], spans) for use in module.references(name, scope)):
                    library = binding.qualified.partition(".")[0]
                    message = f"{binding.qualified}: the {library} that a port installs has no such name any more."
                    porting.find(RULE, "error", message, GONE[binding.qualified], *module.location(binding.node))


def is_probe(module: Module, node: cst.CSTNode) -> bool:
    """Whether an import stands in a `try` whose handler says what holds without it."""
    inner = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef | cst.ClassDef):
            return False
        if isinstance(ancestor, cst.Try):
            return ancestor.body is inner and bool(ancestor.handlers)
        inner = ancestor
    return False
