"""Calls to the Hub that stay as they are: keywords that transformers 4 and datasets 2 took, and today's don't.

What it does: `use_auth_token=` of a load or an upload becomes `token=`, which takes True, too. Of
`tokenizer.push_to_hub(...)` what transformers 5 has no more goes: `use_temp_dir`, and what transformers 4 read past.
Why: a port runs with transformers 5 and datasets 5. There `load_dataset` and `push_to_hub` end with an error on such a
keyword, and `from_pretrained` reads past it, so that a gated checkpoint isn't found.
Example: `rows = load_dataset("me/rows", split="train", use_auth_token=True)`
Use instead: `rows = load_dataset("me/rows", split="train", token=True)`
Safety: exact, but that `use_temp_dir=False` left the files in a folder of the repository's name, too.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, is_tokenizer

ID = "TP317"
OLD, NEW = "use_auth_token", "token"
LOADS = re.compile(
    r"datasets\.(?:load\.)?load_dataset(?:_builder)?|datasets\.get_dataset_\w+"
    r"|transformers\.[\w.]+\.from_pretrained|transformers\.(?:pipelines\.)?pipeline"
)
UPLOAD = frozenset(
    "repo_id commit_message commit_description private token revision create_pr max_shard_size tags".split()
)
DEPRECATED = frozenset({"repo_path_or_name", "repo_url", "organization"})  # of transformers 4: where it uploads to


@step(Phase.NAME, reads=("columns",), fills=("keywords of the Hub",))
def rename_keywords(porting: Porting) -> None:
    """Gives calls that the port keeps the keywords that its libraries know."""
    module = porting.module
    for call in module.calls:
        if not any(arg.keyword is not None for arg in call.args) or porting.covered(module.span(call)[0]):
            continue
        uploads = _uploads_tokenizer(module, call)
        if not uploads and LOADS.fullmatch(module.qualified(call.func) or "") is None:
            continue
        names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        for arg in call.args:
            if arg.keyword is None:
                continue
            name = arg.keyword.value
            if name == OLD and NEW not in names:
                porting.edit(*module.span(arg.keyword), NEW, ID, "today's name of it")
            elif name == OLD or (uploads and name not in UPLOAD | DEPRECATED):
                _drop(porting, call, arg)


def _uploads_tokenizer(module: Module, call: cst.Call) -> bool:
    func = call.func
    return isinstance(func, cst.Attribute) and func.attr.value == "push_to_hub" and is_tokenizer(module, func.value)


def _drop(porting: Porting, call: cst.Call, arg: cst.Arg) -> None:
    """One argument goes, with the comma that parts it from the others."""
    module, at = porting.module, call.args.index(arg)
    start, end = module.span(arg)
    if at:
        start = module.span(call.args[at - 1])[1]
    elif len(call.args) > 1:
        end = module.span(call.args[1])[0]
    porting.edit(start, end, "", ID, "transformers 5 takes no such argument")
