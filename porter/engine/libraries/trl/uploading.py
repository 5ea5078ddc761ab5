"""Uploads to the Hub: what `push_to_hub` in the arguments and the trainer's and the model's own calls become."""

from __future__ import annotations

import libcst as cst

from ....text.layout import Arg, Call, render
from ...script.porting import Porting
from ...script.sites import Site
from ..transformers.collators import saved_tokenizer

KEPT = ("private", "revision", "token", "commit_message")
# What the arguments say where a call doesn't.
ARGUMENTS = {"private": "run.hub_private_repo", "revision": "run.hub_revision"}


def push_code(porting: Porting, site: Site, before: int = 0, *, of_trainer: bool = True) -> str:
    """`rt.push_to_hub(folder, repository, private=...)` at `site`; what a trainer's call leaves out its arguments say.

    `before`: columns that are taken before it.
    """
    repository = site.argument("repo_id")
    named = repository.text if repository is not None else ""
    asked = porting.value("run.hub_model_id")
    if repository is None and asked is not None and not asked.is_literal(None):
        named = porting.text("run.hub_model_id")
    arguments = [Arg(porting.output_dir()), *([Arg(named)] if named else [])]
    for name in KEPT:
        argument = site.argument(name)
        value = porting.value(ARGUMENTS[name]) if of_trainer and name in ARGUMENTS else None
        if argument is not None:
            arguments += [] if argument.value.is_literal(None) else [Arg(argument.text, name)]
        elif value is not None and not value.is_literal(None, False):
            arguments.append(Arg(porting.text(ARGUMENTS[name]), name))
    return render(Call(porting.rt("push_to_hub"), arguments), site.indent, porting.module.indent, before)


def save_code(porting: Porting, node: cst.CSTNode) -> str:
    """The trained weights saved to the output folder, from where they are uploaded, as code for the place of `node`."""
    save = porting.rt("save_adapter" if porting.saves_adapter else "save_model")
    tokenizer = saved_tokenizer(porting, node)
    beside = f", tokenizer={tokenizer}" if tokenizer else ""
    return f"{save}({porting.names.model}, {porting.output_dir()}{beside})"


def uploads_by_itself(porting: Porting) -> bool:
    """Whether transformers' Trainer uploads what it saves, and nothing in the script says so again.

    `hub_strategy="end"` uploads when `save_model` is called, the others whenever it saves.
    """
    if porting.known("run.push_to_hub") is not True:
        return False
    called = {call.func.attr.value for call in porting.module.calls if isinstance(call.func, cst.Attribute)}
    if "push_to_hub" in called:
        return False
    saved = str(porting.known("save.strategy", "steps")) not in ("no", "False")
    at_end = str(porting.known("run.hub_strategy", "every_save")).rsplit(".", 1)[-1].lower() == "end"
    uploads = "save_model" in called or (saved and not at_end)
    if not uploads:
        reason = "with these settings transformers uploads in save_model alone, which nothing here calls"
        porting.change_fate(".push_to_hub", fate="dropped", target="", reason=reason)
    return uploads
