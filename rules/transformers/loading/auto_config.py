"""`config=AutoConfig.from_pretrained(name)` at a model's loading, and a model made from a configuration alone.

`rt.load_model` reads the model's own config.json, so a configuration that is only loaded, or told what training has no
use for, goes. What a script changes in it by condition (FastChat's rotary scaling for rows beyond the context) can't be
done here: the port refuses where the condition holds. So it does for `from_config`, which trains from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from porter.packs.api import Argument, Field, Phase, Porting, Site, step
from porter.packs.script import dict_items, function_around, read_value, set_by_name, shown
from porter.packs.training import Training, bindings_of, is_from_scratch, short_name

PART_OF = "transformers"
RULE = "TP302"
TABLES = ("transformers.AutoModelForCausalLM.from_pretrained", "unsloth.FastLanguageModel.from_pretrained")

REASON = "rt.load_model reads the model's own config.json"
# Keywords of AutoConfig.from_pretrained that say where the file lies, or what training has no use for.
WHERE = frozenset(
    """pretrained_model_name_or_path trust_remote_code revision cache_dir use_auth_token token use_cache force_download
    local_files_only code_revision attn_implementation torch_dtype dtype""".split()
)
# Attributes that training has no use for; the weights' type is from_pretrained's.
UNUSED = frozenset(
    """use_cache pretraining_tp pad_token_id eos_token_id bos_token_id torch_dtype dtype _attn_implementation
    attn_implementation _flash_attn_2_enabled use_flash_attn use_flash_attention_2 return_dict use_return_dict
    output_hidden_states output_attentions model_parallel tensor_parallel is_parallelizable""".split()
)


@dataclass
class Verdict:
    """What a script does to the configuration that it loads a model with.

    `unused` are the assignments that go, `changes` those that change the model where a condition holds, `why` says what
    else keeps the port from reading the model's own; `read` is whether something else reads the configuration.
    """

    unused: list[cst.CSTNode] = field(default_factory=list)
    changes: list[cst.CSTNode] = field(default_factory=list)
    why: str = ""
    read: bool = False
    other_name: bool = False


def filled(site: Site, porting: Training) -> None:
    """The fate of a loading call's `config=`: one that changes nothing goes, one that does is named."""
    argument = site.argument("config")
    if argument is None or argument.node is None or argument.value.is_literal(None):
        return
    verdict = _judge(porting, site, argument)
    source, line, column = f"{short_name(site)}.config", argument.line, argument.column
    porting.withdraw(source)
    if verdict.why:
        message = f"{source}={argument.text}: {verdict.why}."
        fix = "rt.load_model reads the model's own config.json: save a changed one beside the weights."
        porting.find(site.rule, "error", message, fix, line, column)
        porting.fate(Field(source, shown(argument.text), "manual", "", verdict.why, site.rule, line, column))
    else:
        porting.fate(Field(source, shown(argument.text), "dropped", "", REASON, site.rule, line, column))
    for node in verdict.changes if not verdict.why else ():
        message = (
            f"{shown(porting.module.code(node))}: the port can't change the model's configuration, and stops here."
        )
        fix = "Where it is needed, save a config.json with it beside the weights."
        porting.find(site.rule, "warning", message, fix, *porting.module.location(node))
    if verdict.other_name and not verdict.why:
        message = f"{source}={argument.text}: the port reads the configuration of the model that it loads."
        porting.find(site.rule, "warning", message, "Give no other configuration's name.", line, column)


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def answer_configs(porting: Porting) -> None:
    """Take out what only told the configuration, and stop the port where a condition would change the model."""
    for site in porting.sites:
        argument = site.argument("config") if site.role == "model" else None
        if argument is None or argument.node is None or site.node not in _loads(porting):
            continue
        verdict = _judge(porting, site, argument)
        if verdict.why:
            continue
        for node in verdict.changes:
            stop = 'raise ValueError("this would change the model\'s configuration: save a config.json with it")'
            porting.edit(*porting.module.span(node), stop, RULE, "a configuration that the port can't change")
        for node in verdict.unused:
            porting.remove_statement(node, RULE, REASON)
        if not (verdict.read or verdict.changes):
            for binding in bindings_of(porting.module, argument.node):
                if binding.value is not None:
                    porting.remove_statement(binding.value, RULE, REASON)
    for call in from_scratch(porting):
        _stop(porting, call)


def from_scratch(porting: Porting) -> list[cst.Call]:
    """The `from_config` calls of which the trained model may come, beside others."""
    module, model = porting.module, porting.model
    if model is None or model.variable is None:
        return []
    bindings = model.home.bindings.get(model.variable, ())
    calls = [binding.value for binding in bindings if is_from_scratch(porting, binding.value)]
    return [call for call in calls if isinstance(call, cst.Call) and len(bindings) > 1 and module.parents.get(call)]


def _stop(porting: Porting, call: cst.Call) -> None:
    """The branch that trains from scratch ends the port; what stands behind the call in it goes."""
    module = porting.module
    line = module.statement(call)
    block = module.parents.get(line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock):
        return
    stop = 'raise ValueError("training from scratch is not ported: name a model to start from")'
    porting.edit(*module.span(line), stop, RULE, "Tunix's models start from a checkpoint's weights")
    for item in block.body[block.body.index(line) + 1 :]:
        porting.remove_statement(
            item.body[0] if isinstance(item, cst.SimpleStatementLine) else item, RULE, "not reached"
        )
    message = f"{shown(module.code(call))}: the port trains from a checkpoint's weights, and stops here."
    porting.find(RULE, "warning", message, "Save a model with random weights, and name it.", *module.location(call))


def _loads(porting: Porting) -> Sequence[cst.CSTNode]:
    return [*porting.loads, *([porting.model.node] if porting.model is not None else [])]


def _judge(porting: Training, site: Site, argument: Argument) -> Verdict:
    module, verdict = porting.module, Verdict()
    if isinstance(argument.node, cst.Call):
        verdict.why = _of_loading(porting, site, argument.node, verdict)
        return verdict
    bindings = bindings_of(module, argument.node)
    loaded = [binding for binding in bindings if _is_loading(porting, binding.value)]
    if not isinstance(argument.node, cst.Name) or not loaded or any(b.kind != "assign" for b in bindings):
        verdict.why = "where this configuration comes from is not known at port time"
        return verdict
    others = [binding for binding in bindings if binding not in loaded]
    if any(not _in_condition(porting, binding.node) for binding in others):
        verdict.why = "it is made in another way as well"
        return verdict
    for binding in loaded:
        assert isinstance(binding.value, cst.Call)
        verdict.why = verdict.why or _of_loading(porting, site, binding.value, verdict)
    if len(loaded) == 1 and verdict.other_name:
        verdict.why = "it is another model's configuration"
    verdict.read = bool(others)
    blocks = [module.parents.get(module.statement(binding.node)) for binding in others]
    given = [own.node for site in porting.sites if (own := site.argument("config")) is not None]
    for name in module.references(argument.node.value, module.scope(argument.node)):
        inside = [*module.ancestors(name)]
        scratch = any(isinstance(node, cst.Call) and is_from_scratch(porting, node) for node in inside)
        if name not in given and not scratch and not any(block in inside for block in blocks):
            _judge_use(porting, name, verdict)
    return verdict


def _judge_use(porting: Training, name: cst.Name | cst.Attribute, verdict: Verdict) -> None:
    """One more use of the configuration: told something, changed, or read."""
    module = porting.module
    held = module.parents[name]
    around = module.parents[held]
    given = set_by_name(module, around)
    if given and given[0] is name and isinstance(module.parents[around], cst.Expr) and _word(given[1]) in UNUSED:
        verdict.unused.append(around)  # `setattr(config, "use_cache", False)`
        return
    if not isinstance(held, cst.Attribute) or held.value is not name:
        verdict.read = True
        if isinstance(held, cst.Arg) and not _only_reads(module.parents[held]):
            verdict.why = verdict.why or f"{shown(module.code(module.parents[held]))} may change it"
        return
    called = isinstance(around, cst.Call) and around.func is held
    assigned = isinstance(around, cst.AssignTarget) and around.target is held
    if assigned and held.attr.value in UNUSED:
        verdict.unused.append(held)
    elif assigned or (called and held.attr.value.startswith("update")):
        statement = module.parents[around] if assigned else around
        if _in_condition(porting, held):
            verdict.changes.append(statement)
        else:
            verdict.why = verdict.why or f"{shown(module.code(statement))} changes the model"
    else:
        verdict.read = True


def _word(node: cst.BaseExpression) -> object:
    """A string as it is written."""
    return node.evaluated_value if isinstance(node, cst.SimpleString) else None


def _only_reads(call: cst.CSTNode) -> bool:
    """Whether a call only looks at the configuration that it gets."""
    func = call.func if isinstance(call, cst.Call) else None
    name = func.value if isinstance(func, cst.Name) else func.attr.value if isinstance(func, cst.Attribute) else ""
    return name in ("getattr", "hasattr", "print", "info", "debug", "len", "str", "isinstance", "type", "warning")


def _is_loading(porting: Training, value: cst.BaseExpression | None) -> bool:
    name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
    return name is not None and name.startswith("transformers.") and name.endswith("Config.from_pretrained")


def _of_loading(porting: Training, site: Site, call: cst.Call, verdict: Verdict) -> str:
    """What keeps the loading of a configuration from being that of the model's own; empty when nothing does."""
    module = porting.module
    if not _is_loading(porting, call):
        return "where this configuration comes from is not known at port time"
    names = [name for name, _ in _keywords(porting, call)]
    further = [name for name in names if name not in WHERE]
    if further:
        return f"{further[0]} is set in it" if further[0] != "**" else "the keywords in it are not known at port time"
    model = site.argument("pretrained_model_name_or_path")
    named = next((value for name, value in _keywords(porting, call) if name == "pretrained_model_name_or_path"), None)
    own = named if named is not None else next((arg.value for arg in call.args if arg.keyword is None), None)
    if model is not None and own is not None and module.code(own) != model.text and not _same(porting, own, model):
        verdict.other_name = True
    return ""


def _same(porting: Training, own: cst.BaseExpression, model: Argument) -> bool:
    """Whether a configuration's name and the model's are the same string."""
    value = read_value(porting.module, own)
    return value.known and model.value.known and value.literal == model.value.literal


def _keywords(porting: Training, call: cst.Call) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Keyword and value, those of a `**` dict that is built in the file too; `**` for one that can't be read."""
    for argument in call.args:
        if argument.star == "**":
            pairs = dict_items(porting.module, argument.value)
            yield from pairs if pairs is not None else (("**", argument.value),)
        elif argument.keyword is not None:
            yield argument.keyword.value, argument.value


def _in_condition(porting: Training, node: cst.CSTNode) -> bool:
    """Whether a statement stands in a branch of its function."""
    module = porting.module
    function = function_around(module, node)
    for around in module.ancestors(node):
        if around is function:
            return False
        if isinstance(around, cst.If):
            return "__name__" not in module.code(around.test)
    return False
