"""Calls that stay as they are, with keywords that transformers 4 and datasets 2 took and today's don't.

What it does: `use_auth_token=` of a load or an upload becomes `token=`, which takes True, too. What transformers 5 has
no more goes: of `push_to_hub(...)` of torch's models, tokenizers and configs `use_temp_dir`, `safe_serialization` and
what transformers 4 read past (`check_pr`); of a model's `from_pretrained(...)` `resume_download`,
`use_flash_attention_2` and a `load_in_4bit=False`.
Why: a port runs with transformers 5 and datasets 5. There these calls end with an error on such a keyword, an upload's
after the training; a tokenizer's `from_pretrained` reads past it, so that a gated checkpoint isn't found.
Example: `rows = load_dataset("me/rows", split="train", use_auth_token=True)`
Use instead: `rows = load_dataset("me/rows", split="train", token=True)`
Safety: exact, but that `use_temp_dir=False` left the files in a folder of the repository's name, too, which is said.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import libcst as cst

from porter.packs.api import Phase, Porting, stays_torchs, step
from porter.packs.script import is_tokenizer, origins

ID = "TP317"
OLD, NEW = "use_auth_token", "token"
LOADS = re.compile(
    r"datasets\.(?:load\.)?load_dataset(?:_builder)?|datasets\.get_dataset_\w+"
    r"|(?:transformers|peft)\.[\w.]+\.from_pretrained|transformers\.(?:pipelines\.)?pipeline"
)
LOADS_MODEL = re.compile(r"(?:transformers|peft)\.[\w.]*(?:Auto(?:Peft)?Model\w*|For[A-Z]\w+)\.from_pretrained")
# What a model's from_pretrained takes no more; quantising is named elsewhere, and False asks for nothing.
LOAD_GONE = frozenset({"resume_download", "use_flash_attention_2"})
QUANTISES = frozenset({"load_in_8bit", "load_in_4bit"})
UPLOAD = frozenset(
    "repo_id commit_message commit_description private token revision create_pr max_shard_size tags".split()
)
# Of transformers' push_to_hub alone, whatever the object is called.
UPLOAD_GONE = frozenset({"use_temp_dir", "check_pr", "safe_serialization"})
# save_pretrained(push_to_hub=True) hands these on to the Hub.
SAVE_GONE = UPLOAD_GONE | {"save_function"}
# The parameters of transformers 4's push_to_hub in their order; today's has only the first without a name.
ORDER = ("repo_id", "use_temp_dir", "commit_message", "private", NEW, "max_shard_size", "create_pr")
FORMER_NAME = "repo_path_or_name"
ADDRESSES = frozenset({"organization", "repo_url"})
KEPT = ADDRESSES | {FORMER_NAME, OLD}
CONFIGS = re.compile(r"(?:transformers|peft)\.[\w.]*(?:Config|Processor)(?:\.\w+)?")
GIVES_BACK = frozenset("merge_and_unload unload eval cpu to half float bfloat16".split())
OWN_METHOD = re.compile(r"(?m)^\s+def push_to_hub\(\s*self\b")


@step(Phase.NAME, reads=("columns",), fills=("keywords of the Hub",), anywhere=True)
def rename_keywords(porting: Porting) -> None:
    """Gives calls that the port keeps the keywords that its libraries know."""
    module = porting.module
    for call in module.calls:
        if not call.args or porting.covered(module.span(call)[0]):
            continue
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if method == "push_to_hub":
            gone = _settle_upload(porting, call)
        elif method == "save_pretrained" and _asks(call, "push_to_hub"):
            gone = _named(call, SAVE_GONE)
        elif (name := module.qualified(call.func)) is None or LOADS.fullmatch(name) is None:
            continue
        else:
            gone = _settle_load(call) if LOADS_MODEL.fullmatch(name) is not None else []
        names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if NEW in names:
            gone += _named(call, {OLD})
        else:
            for arg in _named(call, {OLD}):
                porting.edit(*module.span(arg.keyword or arg), NEW, ID, "today's name of it")
        _drop(porting, call, gone)


def _settle_upload(porting: Porting, call: cst.Call) -> list[cst.Arg]:
    """What a `push_to_hub` takes no more; its arguments without a name get theirs, its former name today's."""
    module = porting.module
    assert isinstance(call.func, cst.Attribute)
    known = _is_transformers(porting, call.func.value)
    if not known and OWN_METHOD.search(module.text):
        return []
    for arg in _named(call, {FORMER_NAME}):
        porting.edit(*module.span(arg.keyword or arg), "repo_id", ID, "today's name of it")
    for arg in _named(call, ADDRESSES):
        message = f"{module.code(arg)}: push_to_hub of transformers 5 has no such argument, and ends here."
        porting.find(ID, "error", message, 'Name the repository whole: "organization/name".', *module.location(arg))
    _say_folder(porting, call)
    if not known:
        return _named(call, UPLOAD_GONE)
    gone = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value not in UPLOAD | KEPT]
    for name, arg in zip(ORDER, call.args, strict=False):
        if arg.keyword is not None or arg.star:
            break
        if name in UPLOAD_GONE:
            gone.append(arg)
        elif name != ORDER[0]:
            start = module.span(arg)[0]
            porting.edit(start, start, f"{name}=", ID, "it has to be named today")
    return gone


def _say_folder(porting: Porting, call: cst.Call) -> None:
    """An upload that isn't from a temporary folder leaves what it uploads, which a later line may load."""
    module = porting.module
    given = [*_named(call, {"use_temp_dir"}), *(arg for arg in call.args[1:2] if arg.keyword is None)]
    if asked := [arg for arg in given if module.code(arg.value) == "False"]:
        message = "use_temp_dir=False left what is uploaded in a folder, too: transformers 5 uploads it alone."
        saved = module.code(call.func).replace("push_to_hub", "save_pretrained")
        fix = f"{saved}(folder) leaves it; it had the repository's name, without its owner."
        porting.find(ID, "info", message, fix, *module.location(asked[0]))


def _settle_load(call: cst.Call) -> list[cst.Arg]:
    """What a model's `from_pretrained` takes no more."""
    return _named(call, LOAD_GONE | {name for name in QUANTISES if not _asks(call, name)})


def _named(call: cst.Call, names: Collection[str]) -> list[cst.Arg]:
    return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in names]


def _asks(call: cst.Call, name: str) -> bool:
    """Whether a keyword is there and may say more than False or None."""
    return any(
        not isinstance(arg.value, cst.Name) or arg.value.value not in ("False", "None") for arg in _named(call, {name})
    )


def _is_transformers(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a value is surely a tokenizer, or a model, config or processor that the libraries made in the port."""
    module = porting.module
    if is_tokenizer(module, node) or stays_torchs(porting, node):
        return True
    for made in origins(module, node):
        name = module.qualified(made.func) if isinstance(made, cst.Call) else None
        if name is not None and CONFIGS.fullmatch(name) is not None:
            return True
        if isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute) and made.func.attr.value in GIVES_BACK:
            return _is_transformers(porting, made.func.value)
    return False


def _drop(porting: Porting, call: cst.Call, gone: Collection[cst.Arg]) -> None:
    """These arguments go, each with the comma that parts it from what stays."""
    module, args = porting.module, call.args
    for at, arg in enumerate(args):
        if arg not in gone:
            continue
        start, end = module.span(arg)
        if any(each not in gone for each in args[:at]):
            start = module.span(args[at - 1])[1]
        elif at + 1 < len(args):
            end = module.span(args[at + 1])[0]
        else:
            end = module.span(call)[1] - 1
        porting.edit(start, end, "", ID, "transformers 5 takes no such argument")
