"""Uploads to the Hub: what `push_to_hub` in the arguments and the trainer's and the model's own calls become."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from porter.packs.api import Argument, Phase, Porting, Site, Value, saved_tokenizer, step
from porter.packs.script import Module, role_uses
from porter.packs.training import in_reach, plain_versions, tables_of
from porter.packs.writing import Arg, Call, keys_at, mark, mark_of, quoted, render, unread_unless

PART_OF = "trl"
PUSHED = ("private", "revision", "token", "commit_message")
OLD_TOKEN = "use_auth_token"  # the token's name of transformers 4; True is the one that is logged in
# What the arguments say where a call doesn't.
RULE = "TP111"
# What else a script uploads, by its name.
OTHERS = r"(?i)token|processor|data|rows|card"
PLACES = {"push_to_hub": "run.push_to_hub", "save_strategy": "save.strategy", "hub_strategy": "run.hub_strategy"}
ARGUMENTS = {"private": "run.hub_private_repo", "revision": "run.hub_revision"}


def push_code(porting: Porting, site: Site, before: int = 0, *, of_trainer: bool = True) -> str:
    """`rt.push_to_hub(folder, repository, private=...)` at `site`; what a trainer's call leaves out its arguments say.
    A model's own call uploads the files of the model alone: `rt.push_to_hub(model, repository)`.

    `before`: columns that are taken before it.
    """
    repository = site.argument("repo_id")
    named = repository.text if repository is not None else ""
    asked = porting.value("run.hub_model_id")
    if repository is None and asked is not None and not asked.is_literal(None):
        named = porting.text("run.hub_model_id")
    asking = mark(porting, "run.push_to_hub", "run.hub_strategy") if of_trainer else ""
    asking += mark_of(porting, site.arguments)
    named = mark(porting, "run.hub_model_id") + named if named and repository is None else named
    arguments = [Arg(porting.output_dir() if of_trainer else porting.names.model), *([Arg(named)] if named else [])]
    for name in PUSHED:
        argument = site.argument(name) or (_old_token(site) if name == "token" else None)
        value = porting.value(ARGUMENTS[name]) if of_trainer and name in ARGUMENTS else None
        if argument is not None:
            arguments += [] if argument.value.is_literal(None) else [Arg(argument.text, name)]
        elif value is not None and not value.is_literal(None, False):
            arguments.append(Arg(mark(porting, ARGUMENTS[name]) + porting.text(ARGUMENTS[name]), name))
        elif name == "token" and of_trainer and _is_read_when_run(porting):  # a literal one stays out of the port
            arguments.append(Arg(mark(porting, "run.hub_token") + porting.text("run.hub_token"), name))
            porting.change_fate(".hub_token", fate="exact", target="rt.push_to_hub(token=)", reason="")
    return render(Call(asking + porting.rt("push_to_hub"), arguments), site.indent, porting.module.indent, before)


def _old_token(site: Site) -> Argument | None:
    """The token under its old name; None where it says no more than that there is one."""
    given = site.argument(OLD_TOKEN)
    return None if given is None or given.value.is_literal(True, False) else given


def say_old_token(site: Site) -> dict[str, tuple[str, str, str]]:
    """The fate of the token's old name at a call that uploads."""
    if _old_token(site) is not None and site.argument("token") is None:
        return {OLD_TOKEN: ("exact", "rt.push_to_hub(token=)", "")}
    return {OLD_TOKEN: ("dropped", "", "the token is HF_TOKEN's or that of `hf auth login` unless the call has one")}


def _is_read_when_run(porting: Porting) -> bool:
    token = porting.value("run.hub_token")
    return token is not None and not token.known and "hub_token" in porting.module.text


def save_code(porting: Porting, node: cst.CSTNode) -> str:
    """The trained weights saved to the output folder, from where they are uploaded, as code for the place of `node`."""
    save = porting.rt("save_adapter" if porting.saves_adapter else "save_model")
    tokenizer = saved_tokenizer(porting, node)
    beside = f", tokenizer={tokenizer}" if tokenizer else ""
    return f"{save}({porting.names.model}, {porting.output_dir()}{beside})"


def upload_code(porting: Porting, site: Site) -> str:
    """What stands behind `trainer.train()` at `site` where transformers' Trainer uploads what it saves, and nothing in
    the script says so again: the saving and the upload, behind a condition where the run decides it; else nothing.

    `hub_strategy="end"` uploads when `save_model` is called, the others whenever it saves. A `save_model` below in the
    same block uploads what it wrote as well (`out/final`): the upload stands behind it.
    """
    conditions = _conditions(porting, site)
    later = _save_behind(porting, site.node) if conditions is not None else None
    if conditions is None or (later is not None and _saves_there(porting, later)):
        return ""
    indent = site.indent + porting.module.indent if conditions else site.indent
    lines = [_asking(porting, conditions, site), f"{indent}{save_code(porting, site.node)}"]
    lines += [f"{indent}{push_code(porting, replace(site, indent=indent))}"] if later is None else []
    return "".join(f"\n{line}" for line in lines if line)


def upload_behind(porting: Porting, site: Site) -> str:
    """The upload behind the `trainer.save_model()` at `site`, where that is the last in the block of a training."""
    trained = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    if not any(_save_behind(porting, each) is site.node for each in trained):
        return ""
    conditions = _conditions(porting, site)
    if conditions is None:
        return ""
    indent = site.indent + porting.module.indent if conditions else site.indent
    lines = [
        _asking(porting, conditions, site),
        indent + push_code(porting, replace(site, indent=indent, arguments=())),
    ]
    return "".join(f"\n{line}" for line in lines if line)


def _save_behind(porting: Porting, trained: cst.CSTNode) -> cst.Call | None:
    """The last `trainer.save_model()`, a statement of its own, below a training in its block."""
    module, block = porting.module, _block(porting.module, trained)
    saves = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.save_model()"]
    below = [
        save
        for save in saves
        if isinstance(save, cst.Call)
        and isinstance(module.parents[save], cst.Expr)
        and _block(module, save) is block
        and module.span(save)[0] > module.span(trained)[1]
    ]
    return max(below, key=lambda save: module.span(save)[0], default=None)


def _block(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next(each for each in module.ancestors(node) if isinstance(each, cst.BaseSuite | cst.Module))


def _saves_there(porting: Porting, save: cst.Call) -> bool:
    """Whether it saves to the folder that is uploaded itself."""
    if not save.args:
        return True
    given = porting.module.code(save.args[0].value)
    return given == porting.output_dir() or re.fullmatch(r"(?:\w+\.)+output_dir", given) is not None


def _asking(porting: Porting, conditions: list[str], site: Site) -> str:
    """The line that asks whether anything is uploaded."""
    if not conditions:
        return ""
    tests = map(_operand, conditions) if len(conditions) > 1 else conditions
    asking = mark(porting, "run.push_to_hub", "save.strategy", "run.hub_strategy")
    return f"{site.indent}{asking}if {' and '.join(tests)}:"


def _conditions(porting: Porting, site: Site) -> list[str] | None:
    """What has to hold for an upload when the port runs; None where the trainer uploads nothing."""
    asked = _setting(porting, "push_to_hub")
    if asked is None or (asked.known and asked.literal is not True) or not names_uploads(porting):
        return None
    called = {call.func.attr.value for call in porting.module.calls if isinstance(call.func, cst.Attribute)}
    if _uploads_itself(porting):
        return None
    conditions = [] if asked.known else [asked.text or asked.code]
    saved, strategy = _setting(porting, "save_strategy"), _setting(porting, "hub_strategy")
    at_end = strategy is not None and strategy.known and str(strategy.literal).rsplit(".", 1)[-1].lower() == "end"
    never = saved is not None and saved.is_literal("no", False)
    if "save_model" not in called:
        if never or at_end:
            reason = "with these settings transformers uploads in save_model alone, which nothing here calls"
            porting.change_fate(".push_to_hub", fate="dropped", target="", reason=reason)
            return None
        for value, off in ((saved, "no"), (strategy, "end")):
            if value is not None and not value.known:
                conditions.append(f"{value.text or value.code} != {quoted(off)}")
    if conditions and not _in_reach(porting, site, conditions):
        message = f"push_to_hub={conditions[0]}: transformers uploads where this is set; the port writes no upload,"
        message += " since the value can't be read where it trains."
        fix = f"Write `{porting.names.runtime}.push_to_hub(...)` there, behind its condition."
        porting.find(RULE, "error", message, fix, site.line, site.column)
        porting.change_fate(".push_to_hub", fate="manual", target="", reason="it can't be read where the port trains")
        return None
    return conditions


def _uploads_itself(porting: Porting) -> bool:
    """Whether the script calls push_to_hub of something that isn't a tokenizer or rows: what it trained, to where the
    trainer uploads it, or to anywhere if the arguments name no repository.
    """
    for call in porting.module.calls:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "push_to_hub":
            continue
        of = porting.module.code(call.func.value)
        trained = of != porting.names.tokenizer and re.search(OTHERS, of) is None
        if trained and not _goes_elsewhere(porting, call, of):
            return True
    return False


def _goes_elsewhere(porting: Porting, call: cst.Call, of: str) -> bool:
    """Whether an upload of `of`, a model, goes to another repository than `hub_model_id`, as far as can be read."""
    module, trainer = porting.module, porting.trainer
    asked = porting.config.argument("hub_model_id") if porting.config is not None else None
    named = [argument.value for argument in call.args if argument.keyword and argument.keyword.value == "repo_id"]
    named += [argument.value for argument in call.args[:1] if argument.keyword is None]
    own = trainer is not None and of == trainer.variable
    if own or not named or asked is None or asked.value.is_literal(None):
        return False
    text = module.code(named[0])
    if isinstance(named[0], cst.Name) and (made := module.single_binding(named[0])) is not None and made.value:
        text = module.code(made.value)
    return text not in (asked.text, asked.value.code, repr(asked.value.literal) if asked.value.known else "")


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_unread(porting: Porting) -> None:
    """What the arguments say of an upload that the port doesn't write is read by nobody."""
    asked = _setting(porting, "push_to_hub")
    never = asked is None or asked.is_literal(None, False)
    reason = "the trainer uploads nothing here" if never else "no upload reads it here"
    places = (*ARGUMENTS.values(), "run.hub_model_id", "run.hub_strategy")
    unread_unless(porting, reason, keys_at(porting, *places))
    if _uploads_itself(porting):
        own = "the script's own push_to_hub uploads what was trained, once"
        unread_unless(porting, own, keys_at(porting, "run.push_to_hub"))
    token = "the login of `hf auth login` or HF_TOKEN takes its place: a token doesn't belong in a training script"
    unread_unless(porting, token, keys_at(porting, "run.hub_token"))


def names_uploads(porting: Porting) -> bool:
    """Whether the script speaks of uploading; arguments that are parsed may ask for it in any other."""
    return "push_to_hub" in porting.module.text


def _operand(condition: str) -> str:
    return condition if re.fullmatch(r"[^\s]+( != [^\s]+)?|[\w.]+\([^()]*\)", condition) else f"({condition})"


def _setting(porting: Porting, name: str) -> Value | None:
    """What the run's arguments hold in a field: what the call that makes them says, unless something else sets it."""
    site, held = porting.config, porting.arguments_object
    table = tables_of(porting).get(site.qualified) if site is not None else None
    row = table.table.rows(plain_versions(porting)).get(name) if table is not None else None
    value = porting.value(PLACES[name])
    if not held or site is None or site.unknown_keywords or row is None or row.default is None:
        return value
    if re.search(rf"\.{name}\s*=[^=]|setattr\(|vars\(|__dict__|set_push_to_hub|set_save\(", porting.module.text):
        return value
    argument = site.argument(name)
    if argument is None:
        return Value("default", row.default)
    return argument.value if argument.value.known and argument.certain else value


def _in_reach(porting: Porting, site: Site, conditions: list[str]) -> bool:
    of_self = all(condition.startswith("self.") for condition in conditions)
    return of_self or porting.trainer is None or in_reach(porting.trainer.scope, site.scope)
