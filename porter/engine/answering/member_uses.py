"""What the script does with the trainer, the model and the arguments after it made them.

Every use of those variables is matched as text: `@trainer.train()` for a call, `@model.config.use_cache=` for an
assignment, `@trainer.hub_model_id` for a read. Site rules and rewrites of the packs answer; a use that no rule
knows is left alone and named to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import libcst as cst

from ...source.calls import parameter_of, set_by_name
from ...source.module import Module
from ...text.edits import Spans
from ..packs.pack import Rewrite, by_claim
from ..packs.python_rule import SiteRule
from ..script.flow import PLACEMENT, unprepared
from ..script.porting import Porting
from ..script.sites import shortened
from ..script.training import Training
from ..script.uses_of_training import Use, placed, role_uses
from ..script.where_values_go import unwraps
from ..settling.decisions import decide
from ..steps.step import Phase, step
from .generation_settings import answer_guard, is_setting, keep_setting, read_config, unused_setting
from .given_to_unknown_code import argument_with
from .held_uses import replace_held
from .python_rules import answer, in_turn
from .scoped_names import named_at

# Attributes of the model that Tunix's model has no counterpart for, or that print something harmless.
QUIET = frozenset({"config", "dtype", "device", "parameters", "named_parameters", "state_dict"})

# What is set to None behind the training.
LET_GO = frozenset({"@trainer.optimizer=", "@trainer.lr_scheduler=", "@trainer.model="})

QUOTES = "\"'"


def member_rules(porting: Training) -> dict[str, SiteRule | Rewrite]:
    """The packs' rules by what they match; a match has one rule."""
    found: dict[str, SiteRule | Rewrite] | None = porting.answers.get("members")
    if found is not None:
        return found
    found = porting.answers["members"] = by_claim(
        rule for pack in porting.packs for rule in pack.answering if porting.options.active(rule.id)
    )
    return found


# A table answers what no step of its own has claimed; what neither does is left to a person.
@step(Phase.ANSWER, of="trainer", reads=("claimed uses",), fills=("answered uses",))
def apply_members(porting: Porting) -> None:
    """Answer every use of the trainer and the model."""
    rules = member_rules(porting)
    covered = Spans((edit.start, edit.end) for edit in porting.edits if edit.end > edit.start)
    answered: set[cst.CSTNode] = set()
    for use in role_uses(porting):
        if use.kind == "bare" and not use.asker:
            continue  # what is only handed on
        start = porting.module.span(use.name)[0]
        on_the_spot = isinstance(use.name, cst.Call)
        repeated = porting.repeats(use.outer)
        gone = not repeated and ((not on_the_spot and start in covered) or _is_gone(porting, use))
        if gone or use.name in answered or _drop_asked(porting, use, rules):
            continue
        with porting.written_where_repeated() if repeated else nullcontext():
            if _answer_use(porting, use, rules):
                answered.add(use.name)


def _answer_use(porting: Porting, use: Use, rules: Mapping[str, SiteRule | Rewrite]) -> bool:
    """Answer one use; whether it is of no other trainer's."""
    if use.kind == "bare":
        _answer_asked(porting, use, rules)
        return False
    if replace_held(porting, use):
        return False
    match = use.match if use.match in rules else use.match.replace("@trainer.model.", "@model.")
    rule = rules.get(match) or unused_setting(rules, use)
    if rule is None and use.role == "model" and not isinstance(use.name, cst.Call) and not is_setting(use):
        _unknown(porting, use)  # whatever the names are where it stands
        return True
    with named_at(porting, use) as text:
        if keep_setting(porting, use, text):
            return True
        for turn in in_turn(porting, rule, match) if rule is not None else ():
            if isinstance(turn, Rewrite):
                apply_rewrite(porting, turn, use.outer, text, use.kind)
                break
            assert isinstance(use.outer, cst.Call)  # a Python rule's matches are calls
            if answer(porting, turn, use.outer, use.role, use.match, match):
                break
        else:
            if not read_config(porting, use, text):
                _unknown(porting, use)
    return True


def _answer_asked(porting: Porting, use: Use, rules: Mapping[str, SiteRule | Rewrite]) -> None:
    """What `hasattr`, `getattr` or `setattr` of the trainer or the model is in the port, where that is known."""
    if not (_asked_state(porting, use) or answer_guard(porting, use) or _asked_method(porting, use, rules)):
        _drop_set(porting, use, rules)


def _drop_set(porting: Porting, use: Use, rules: Mapping[str, SiteRule | Rewrite]) -> None:
    """`setattr(model, "model_parallel", True)`, which is the assignment that a rule takes out."""
    module = porting.module
    call = module.parents[module.parents[use.name]]
    if use.asker != "setattr" or not isinstance(call, cst.Call) or not (given := set_by_name(module, call)):
        return
    rule = rules.get(f"@{use.role}.{module.code(given[1]).strip(QUOTES)}=")
    if not isinstance(rule, Rewrite) or rule.action != "remove" or not _is_statement(porting, call):
        return
    porting.remove_statement(call, rule.id, rule.reason)


def _asked_state(porting: Porting, use: Use) -> bool:
    """`hasattr(trainer, "state")`, `getattr(trainer, "state", None)`: what has the state is the hooks."""
    module = porting.module
    argument = module.parents[use.name]
    call = module.parents[argument]
    if use.match != "@trainer" or not isinstance(call, cst.Call) or use.asker not in ("hasattr", "getattr"):
        return False
    if len(call.args) < 2 or module.code(call.args[1].value).strip(QUOTES) != "state":
        return False
    end = module.span(use.name)[1]
    porting.edit(end, end, ".training_hooks", "TP362", "the hooks keep what transformers' TrainerState has")
    return True


def _asked_method(porting: Porting, use: Use, rules: Mapping[str, SiteRule | Rewrite]) -> bool:
    """`hasattr(model, "save_pretrained")`: the port does it by another name, so that it is there."""
    asked = _has(porting, use)
    rule = rules.get(f"@{use.role}.{asked[1]}()") if asked is not None else None
    if asked is None or rule is None or (isinstance(rule, Rewrite) and rule.action == "remove"):
        return False
    reason = "the port does it by another name"
    start, end = porting.module.span(asked[0])
    both = porting.module.parents[asked[0]]
    if isinstance(both, cst.BooleanOperation) and isinstance(both.operator, cst.And):
        first = both.left is asked[0]
        other = porting.module.span(both.right if first else both.left)
        porting.edit(*((start, other[0]) if first else (other[1], end)), "", rule.id, reason)
    else:
        porting.edit(start, end, "True", rule.id, reason)
    return True


def _has(porting: Porting, use: Use) -> tuple[cst.Call, str] | None:
    """The call and the name in `hasattr(model, "save_pretrained")`."""
    module = porting.module
    argument = module.parents[use.name]
    call = module.parents[argument]
    if not isinstance(call, cst.Call) or use.asker != "hasattr" or len(call.args) != 2:
        return None
    return call, module.code(call.args[1].value).strip(QUOTES)


def _drop_asked(porting: Porting, use: Use, rules: Mapping[str, SiteRule | Rewrite]) -> bool:
    """`if hasattr(model, "enable_input_require_grads"): ... else: ...`, two ways to do what nobody needs here."""
    asked = _has(porting, use)
    holder = porting.module.parents[asked[0]] if asked is not None else None
    if asked is None or not isinstance(holder, cst.If) or holder.test is not asked[0] or holder.orelse is None:
        return False
    rule = rules.get(f"@{use.role}.{asked[1]}()")
    if not isinstance(rule, Rewrite) or rule.action != "remove":
        return False
    porting.remove_statement(holder, rule.id, rule.reason)
    return True


def _is_gone(porting: Porting, use: Use) -> bool:
    """Whether a rule has just taken out the statements in which a use stands."""
    return any(edit.removes for edit in porting.around(porting.module.span(use.name)[0]))


def apply_rewrite(porting: Porting, rule: Rewrite, node: cst.CSTNode, variable: str, kind: str) -> None:
    """Do what a rewrite says at `node` (an expression; for `remove` its whole statement goes)."""
    module = porting.module
    start, end = module.span(node)
    line, column = module.line_column(start)
    code = shortened(module.code(node))
    if rule.action == "refuse":
        porting.find(rule.id, "error", f"{code}: {rule.reason}.", rule.fix, line, column)
        return
    if rule.action in ("never", "always"):
        _decide(porting, rule, node)
        return
    if rule.action == "remove":
        if _is_statement(porting, node):
            porting.remove_statement(node, rule.id, rule.reason)
        elif (target := _one_of_targets(porting, node)) is not None:
            porting.edit(*target, "", rule.id, rule.reason)
        elif isinstance(node, cst.Call) and (given := unprepared(module, node)) is not node and given is not None:
            porting.edit(start, module.span(given)[0], "", rule.id, rule.reason)
            porting.edit(module.span(given)[1], end, "", rule.id, rule.reason)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in PLACEMENT:
            end = module.span(placed(module, node))[1]
            porting.edit(module.span(node.func.value)[1], end, "", rule.id, rule.reason)  # it gives back the model
        else:
            porting.find(rule.id, "error", f"{code}: {rule.reason}.", "Take it out of the expression.", line, column)
        return
    arguments = f"{porting.arguments_object or '{args}'}"
    new = rule.replacement.replace("{object}", variable).replace("{chain}", code.removeprefix(f"{variable}."))
    new = new.replace("{processes}", str(porting.known("mesh.processes", 1)))
    if "{argument}" in new and isinstance(node, cst.Call) and node.args:
        new = new.replace("{argument}", module.code(node.args[0].value))
    if "{args}" in new:
        if not porting.arguments_object:
            porting.find(rule.id, "error", f"{code}: {rule.reason}.", "Write the value here.", line, column)
            return
        new = new.replace("{args}", arguments)
    if kind == "call" and isinstance(node, cst.Call) and not stands_for_call(rule.replacement):
        start, end = module.span(node.func)
    if new.startswith("rt."):
        new = porting.rt(new.removeprefix("rt."))
    if new.startswith("(") and new.endswith(")") and stands_alone(module.parents[node]):
        new = new[1:-1]
    new, imports = _apart(porting, rule, new)
    porting.imports.update(imports)
    porting.edit(start, end, new, rule.id, rule.reason)
    if rule.fix:
        porting.find(rule.id, "warning", f"{code} is {new} now.", rule.fix, line, column)


def _apart(porting: Porting, rule: Rewrite, new: str) -> tuple[str, set[str]]:
    """A rewrite's code and imports, under another name (`python_logging`) where the file imports something else as
    `logging` and still uses it.
    """
    module, imports = porting.module, set(rule.imports)
    for text in rule.imports:
        name = text.removeprefix("import ")
        if name.isidentifier() and new.startswith(f"{name}.") and _is_anothers(module, name, rule):
            bound = porting.fresh(f"python_{name}")
            new = bound + new.removeprefix(name)
            imports ^= {text, f"{text} as {bound}"}
    return new, imports


def _is_anothers(module: Module, name: str, rule: Rewrite) -> bool:
    """Whether the file imports something else by that name and has a use of it that the rewrite doesn't answer."""
    return any(
        not isinstance(parent, cst.Attribute) or module.qualified(parent) not in rule.matches
        for scope in module.scopes.values()
        if any(b.kind == "import" and b.qualified != name for b in scope.bindings.get(name, ()))
        for parent in (module.parents[use] for use in module.references(name, scope))
    )


def _decide(porting: Porting, rule: Rewrite, node: cst.CSTNode) -> None:
    """`if trainer.is_fsdp_enabled: ...` goes, `if our.has_bf16(): ... else: ...` keeps the branch that runs; a longer
    condition loses that part, and what is no condition is `False` or `True`."""
    module = porting.module
    argument = module.parents[node]
    call = module.parents[argument]
    if (
        isinstance(argument, cst.Arg)
        and isinstance(call, cst.Call)
        and module.code(call.func) in ("getattr", "hasattr")
    ):
        node = call
    assert isinstance(node, cst.BaseExpression)
    code, answer = module.code(node), rule.action == "always"
    decide(porting, node, lambda part: answer if module.code(part) == code else None, rule.id, rule.reason)


def stands_alone(parent: cst.CSTNode) -> bool:
    """Whether an expression below `parent` needs no parentheses of its own."""
    return isinstance(parent, cst.If | cst.Assign | cst.AnnAssign | cst.Arg | cst.Return | cst.Expr)


def stands_for_call(replacement: str) -> bool:
    """Whether a replacement stands for a whole call (it is one, or a constant), not for the function's name."""
    return replacement.endswith(")") or replacement in ("True", "False", "None", "{processes}", "{argument}")


def _is_statement(porting: Training, node: cst.CSTNode) -> bool:
    parent = porting.module.parents[node]
    if isinstance(parent, cst.Subscript) and parent.value is node:  # `model.warnings_issued["estimate_tokens"] = True`
        return isinstance(porting.module.parents[parent], cst.AssignTarget) and _is_statement(porting, parent)
    if isinstance(parent, cst.AssignTarget):
        parent = porting.module.parents[parent]
        return isinstance(parent, cst.Assign) and len(parent.targets) == 1
    if isinstance(parent, cst.IfExp) and parent.test is not node:  # `model.x() if y else None`, for its effect
        other = parent.orelse if parent.body is node else parent.body
        alone = isinstance(porting.module.parents[parent], cst.Expr)
        return alone and isinstance(other, cst.Name) and other.value == "None"
    return isinstance(parent, cst.Expr) or _gives_back(node, parent)


def _one_of_targets(porting: Training, node: cst.CSTNode) -> tuple[int, int] | None:
    """The span of `model.config.pad_token_id = ` in `model.config.pad_token_id = tokenizer.pad_token_id = 0`."""
    target = porting.module.parents[node]
    assign = porting.module.parents.get(target)
    if not isinstance(target, cst.AssignTarget) or not isinstance(assign, cst.Assign):
        return None
    places = [*(item.target for item in assign.targets), assign.value]
    following = places[places.index(target.target) + 1]
    return porting.module.span(target.target)[0], porting.module.span(following)[0]


def _gives_back(node: cst.CSTNode, parent: cst.CSTNode) -> bool:
    """`model = wrap(model)`, `self.x = self.x.to(device)`: without the call the target keeps what it has.

    `model, rows = wrap(model, rows)` as well.
    """
    if not isinstance(node, cst.Call) or not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return False
    given = node.func.value if isinstance(node.func, cst.Attribute) else None
    target = parent.targets[0].target
    if isinstance(target, cst.Tuple):
        pairs = zip(target.elements, node.args, strict=False)
        return len(target.elements) == len(node.args) and all(one.value.deep_equals(arg.value) for one, arg in pairs)
    values = (given, *(argument.value for argument in node.args[:1]))
    return isinstance(target, cst.Name | cst.Attribute) and any(
        value is not None and value.deep_equals(target) for value in values
    )


def _is_elsewhere_read(module: Module, node: cst.CSTNode) -> bool:
    """Whether `trainer.model`, which Tunix's trainer has too, goes where it is not followed."""
    argument = argument_with(module, module.parents[node])
    call = module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if parameter_of(module, argument, call) is not None or unwraps(call):
        return False
    return module.code(call.func) not in ("print", "type", "hasattr", "isinstance", "len", "str", "repr")


def _is_taken(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether an object is an argument of a library's call that a rule answers, which comes later."""
    module = porting.module
    call = module.parents[module.parents[node]]
    name = module.qualified(call.func) if isinstance(call, cst.Call) else None
    rule = member_rules(porting).get(f"{name}()")
    return isinstance(rule, SiteRule) or (rule is not None and rule.action == "remove")


def _is_let_go(porting: Training, use: Use) -> bool:
    """`trainer.optimizer = None` behind the training, for memory: Tunix's trainer holds its optimizer by that name."""
    module = porting.module
    line = module.parents[module.parents[use.outer]]
    if use.match not in LET_GO or not isinstance(line, cst.Assign) or module.code(line.value) != "None":
        return False
    trains = [module.span(one.name)[0] for one in role_uses(porting, "trainer") if one.match == "@trainer.train()"]
    return bool(trains) and not module.loops(use.name) and max(trains) < module.span(use.name)[0]


def _unknown(porting: Porting, use: Use) -> None:
    """Name a use that no rule knows; reading a model's config is harmless, everything else needs a person."""
    module = porting.module
    line, column = module.location(use.name)
    around = porting.around(module.span(use.outer)[0])
    if not all(porting.repeats(use.outer, edits=[edit]) for edit in around):
        return  # an argument of a call whose rule left it out
    code = shortened(module.code(use.outer))
    if "__class__" in use.chain.split("."):
        return  # every object has one
    if use.match == "@trainer.model" and not _is_elsewhere_read(module, use.outer):
        return
    if use.role == "trainer" and _is_let_go(porting, use):
        return
    if use.match == "@trainer.model" and _is_taken(porting, use.outer):
        return
    if use.role == "model" and use.chain.split(".")[0] in QUIET and use.kind == "read":
        message = f"{code}: this is Tunix's model now; its attributes differ from transformers'."
        porting.find("TP190", "warning", message, "Check this line.", line, column, todo=True)
        return
    if use.match.startswith("@trainer.args.") and use.kind == "assign":
        message = (
            f"{code}: train() reads it on the GPU; the port's trainer has its steps, schedule and batches by then."
        )
        fix = "Set it above the trainer. For a training of its own, make batches, optimizer and trainer anew."
        porting.find("TP190", "error", message, fix, line, column)
        return
    what = "Tunix's PeftTrainer" if use.role == "trainer" else "Tunix's model"
    porting.find("TP190", "error", f"{code}: {what} has no counterpart.", "Replace this line by hand.", line, column)
