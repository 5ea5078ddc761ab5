"""A quantised base: BitsAndBytesConfig and the older keywords → `rt.load_model(quantization=)`.

A config whose values are known and that nothing else uses becomes the name of its format (`"nf4"`); any other stays
what it is, an object of the runtime's class of the same name, which `rt.load_model` asks when the script runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from ...recipe import Origin, Value, literal_code
from ...runtime.facts.releases.habits import quantises_unasked
from ...source.scopes import inside
from ...text.expressions import atom, operand, parsed, quoted
from ..packs.said_by_packs import loader
from ..script.fill_from_tables import bindings_of, fill_site, follow, plain_version, table_of, tables_of
from ..script.flow import origins
from ..script.following.may_be_none import is_none_somewhere, may_be_none
from ..script.sites import Argument, Site, shown
from ..script.training import Training
from .checkpoints.stored_weights import OF_STORED, read_stored_weights

PLACE = "model.quantization"
FLAGS = ("load_in_4bit", "load_in_8bit")
FORMAT = ("bnb_4bit_quant_type", "llm_int8_skip_modules")  # which from_pretrained hands on where it gets a flag
CLASS = "BitsAndBytesConfig"
CONFIGS = "Config"  # GPTQConfig, AwqConfig, HqqConfig, ...
TYPES = ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage")
WHOLE = "Give no quantization_config, on both sides, for a base that isn't quantised."


def read_quantization(porting: Training, site: Site | None, versions: Mapping[str, str]) -> None:
    """Fill `model.quantization` from the keywords of `site` (a from_pretrained, or the trainer of a model's name)."""
    given = site.argument("quantization_config") if site is not None else None
    is_mirror = read_stored_weights(porting)
    if given is not None and not given.value.is_literal(None):
        _read_config(porting, given, versions)
        if site is not None and not is_mirror:
            _read_keywords_beside(porting, site, given)
    elif site is not None and not is_mirror:
        _read_keywords(porting, {name: site.argument(name) for name in (*FLAGS, *FORMAT)})
    if is_mirror:  # how its weights are held goes over what the call asks for
        porting.fill({PLACE: Value("literal", "'nf4'", porting.recipe.values["model.id"].origin)})
    value = porting.value(PLACE)
    dtype = porting.value("model.dtype")
    if value is None:
        return
    if dtype is not None and dtype.kind == "default" and dtype.is_literal("float32"):
        # transformers 4 loads what isn't quantised in float16 when nothing is said, which is bfloat16 here.
        porting.fill({"model.dtype": Value("default", "'bfloat16'", dtype.origin)})


def quantises_when_run(porting: Training, held: Value) -> str:
    """The condition under which the value of `model.quantization` quantises: `args.load_in_4bit`, `c is not None`,
    `c.load_in_4bit` of a config whose flag only the run knows, where transformers heeds that; "" where it always does.
    """
    given = porting.model.argument("quantization_config") if porting.model is not None else None
    anyway = _holds_anyway(porting)
    sites = [] if anyway else [site for site in _configs(porting, given) if not _asks(porting, site)]
    sure = given is not None and given.certain and not is_none_somewhere(porting.module, given.node)
    if not sites:
        always = given is not None and sure and _is_config(porting, given)
        return "" if always else _asks_when_run(held.code, anyway=anyway)
    flags = [flag for flag in FLAGS if any(site.unknown_keywords or site.argument(flag) is not None for site in sites)]
    return _asks_when_run(held.code, flags or FLAGS[:1], maybe_none=not sure)


def _configs(porting: Training, given: Argument | None) -> list[Site]:
    """The configs that an argument may hold; all of the script where none of them is seen to get there."""
    found = _calls(porting, given.node if given is not None else None)
    return [site for site in found if site is not None] or porting.of_role("quantization")


def _calls(porting: Training, node: cst.BaseExpression | None) -> list[Site | None]:
    """The calls that a value comes from, None for one that makes no config of bitsandbytes'."""
    made = {site.node: site for site in porting.of_role("quantization")}
    return [made.get(each) for each in origins(porting.module, node) if isinstance(each, cst.Call)]


def _is_config(porting: Training, given: Argument) -> bool:
    """Whether an argument is a config of bitsandbytes' wherever it isn't None."""
    return next(reversed(_calls(porting, given.node)), None) is not None


def _asks(porting: Training, config: Site) -> bool:
    """Whether a config surely asks for 4 or 8 bits: no line of the script changes that."""
    asked = any(flag is not None and flag.value.is_literal(True) for flag in map(config.argument, FLAGS))
    return asked and not _set_flags(porting)


def _set_flags(porting: Training) -> list[cst.Attribute]:
    """Where the script sets a flag of a config that it has made: `config.load_in_4bit = args.four`."""
    module = porting.module
    if not re.search(rf"\.({'|'.join(FLAGS)})\s*=[^=]", module.text):
        return []
    targets = (node.target for node in inside(module.tree) if isinstance(node, cst.AssignTarget))
    found = [target for target in targets if isinstance(target, cst.Attribute) and target.attr.value in FLAGS]
    return [target for target in found if any(_calls(porting, target.value))]


def _asks_when_run(code: str, flags: Sequence[str] = (), *, maybe_none: bool = True, anyway: bool = False) -> str:
    """`flags`: those of the config's attributes that say it; `anyway`: a config quantises whatever they are."""
    held = parsed(code)
    if isinstance(held, ast.BoolOp) and isinstance(held.values[-1], ast.Call | ast.Dict):
        parts = [ast.get_source_segment(f"({code})", value) or ast.unparse(value) for value in held.values]
        if isinstance(held.op, ast.Or):  # keywords beside a config
            return " or ".join(_asks_when_run(part, flags, anyway=anyway) for part in parts)
        asked = _asks_when_run(parts[-1], anyway=anyway)  # `args.quantize and BitsAndBytesConfig(...)`
        return " and ".join(operand(part) for part in (*parts[:-1], *([asked] if asked != "True" else ())))
    given = _flags_of(held)
    if given is not None and anyway and isinstance(held, ast.Call):
        return "True"
    if given is None:
        asked = " or ".join(f"{atom(code)}.{flag}" for flag in flags)
        there = f"{atom(code)} is not None"
        if not asked or not maybe_none:
            return asked or there
        return f"{there} and ({asked})" if len(flags) > 1 else f"{there} and {asked}"
    texts = [ast.get_source_segment(f"({code})", value) or ast.unparse(value) for value in given]
    return " or ".join(map(atom, texts))


def _flags_of(held: ast.expr) -> list[ast.expr] | None:
    """What a config that is made in place, or keywords, give for the flags; None for anything else."""
    if isinstance(held, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in held.keys]
        return [value for key, value in zip(keys, held.values, strict=True) if key in FLAGS]
    if isinstance(held, ast.Call) and ast.unparse(held.func) == CLASS:
        return [keyword.value for keyword in held.keywords if keyword.arg in FLAGS]
    return None


def when_quantised(training: Training) -> bool | None:
    """Whether the base that a trainer gets is quantised: in all branches that load it, in none, or, None, in some or as
    the run decides."""
    held, branches = training.value(PLACE), [branch.get(PLACE) for branch in training.loads.values()]
    if not branches and held is not None and not held.known:
        return True if not quantises_when_run(training, held) else None
    found = {None if value is not None and not value.known else not _is_plain(value) for value in branches or [held]}
    return found.pop() if len(found) == 1 else None


def _is_plain(value: Value | None) -> bool:
    return value is None or value.is_literal(None)


def quantization_value(porting: Training, name: str, value: Value, node: cst.BaseExpression | None) -> bool:
    """Fill `model.quantization` from one entry of `model_init_kwargs`; whether it was one of these keywords."""
    if name not in ("quantization_config", "load_in_4bit", "load_in_8bit"):
        return False
    origin = value.origin or Origin("", 1, 1)
    argument = Argument(name, value, origin.line, origin.column, node=node)
    versions: Mapping[str, str] = {}
    if name == "quantization_config":
        if not value.is_literal(None):
            _read_config(porting, argument, versions)
    else:
        _read_keywords(porting, {name: argument})
    return True


def _read_config(porting: Training, given: Argument, versions: Mapping[str, str]) -> None:
    other = _other_config(porting, given)
    if other is not None:
        reason = "only bitsandbytes' formats have a counterpart"
        porting.change_fate(".quantization_config", fate="manual", target="", reason=reason)
        message = f"quantization_config={other}: {reason}."
        porting.find("TP601", "error", message, OF_STORED, given.line, given.column)
        return
    config = follow(porting, given, "quantization")
    for site in porting.sites:
        if site.role == "quantization":  # keywords that only the run knows are the object's, which stays
            fill_site(porting, replace(site, unknown_keywords=""), table_of(porting, site), versions)
    certain = not may_be_none(porting.module, given.node)
    if config is not None and certain and not config.unknown_keywords and _only_use(porting, config, given):
        known = {argument.name: argument.value for argument in config.arguments}
        anyway = _switched_off(known) and _holds_anyway(porting)
        name = _format({**known, FLAGS[0]: Value("literal", "True")} if anyway else known)
        if name is not None:
            porting.fill({PLACE: Value("literal", repr(name), given.value.origin)})
            porting.quantization = config
            if anyway:
                message = f"{CLASS} with neither flag: transformers holds the base in 4 bits ({name}) all the same, as "
                message += "the port does."
                porting.find("TP601", "warning", message, WHOLE, given.line, given.column)
            return
        if _switched_off(known) and not anyway:
            return
    if given.value.known and isinstance(given.value.literal, dict):
        settings = {key: Value("literal", literal_code(inner)) for key, inner in given.value.literal.items()}
        name = _format(settings)
        if name is not None:
            porting.fill({PLACE: Value("literal", repr(name), given.value.origin)})
            return
    porting.fill({PLACE: Value("expression", given.text, given.value.origin)})
    _say_off(porting, given)


def _say_off(porting: Training, given: Argument) -> None:
    """Of a config whose flag only the run knows: what transformers does where it is off, and the port with it."""
    made = next((site for site in _configs(porting, given) if not _asks(porting, site)), None)
    held = [given.node, *origins(porting.module, given.node)][-1]
    if isinstance(held, cst.Dict) and "quant_method" not in porting.module.code(held):
        message = f"quantization_config={shown(given.text)}: where neither of its flags is True the GPU run raises, as "
        message += "a dictionary doesn't say quant_method; the port loads the base whole."
        porting.find("TP601", "info", message, WHOLE, given.line, given.column)
        return
    if made is None or not _holds_anyway(porting):
        return
    module, said = porting.module, []
    for target in _set_flags(porting):
        said.append((f"{module.code(target)} is set: where that is False", module.location(target)))
    for flag in filter(None, map(made.argument, FLAGS)):
        if not flag.value.is_literal(True):
            said.append((f"{flag.name}={flag.text}: where that is False", (flag.line, flag.column)))
    if not said and not made.unknown_keywords:
        said.append((f"{CLASS} with neither flag", (made.line, made.column)))
    for where, place in said:
        message = f"{where}, transformers holds the base in 4 bits all the same, and so does the port."
        porting.find("TP601", "info", message, WHOLE, *place)


def _holds_anyway(porting: Training) -> bool:
    """Whether the source's transformers takes a config that asks for neither 8 bits nor 4 for one of 4."""
    return quantises_unasked(plain_version(porting.versions.get(loader(porting.packs).library, "")) or None)


def _read_keywords(porting: Training, given: Mapping[str, Argument | None]) -> None:
    """`load_in_4bit=True`, as from_pretrained took it before transformers 5: a config of it and what else is given."""
    there = {name: argument for name, argument in given.items() if argument is not None}
    if not there.keys() & set(FLAGS):
        return
    known = {name: argument.value for name, argument in there.items()}
    name = _format(known)
    if name is None and _switched_off(known):
        return
    if name is None:
        origin = next(iter(there.values())).value.origin
        porting.fill({PLACE: Value("expression", _entries(there), origin)})
        return
    first = next(argument for argument in there.values() if argument.value.is_literal(True))
    porting.fill({PLACE: Value("literal", repr(name), first.value.origin)})
    if name == "fp4" and FORMAT[0] not in there:
        message = "load_in_4bit=True alone is bitsandbytes' default format, fp4, and so it is here."
        fix = 'nf4 is closer to the weights: quantization="nf4", on both sides.'
        porting.find("TP601", "info", message, fix, first.line, first.column)


def _read_keywords_beside(porting: Training, site: Site, given: Argument) -> None:
    """`load_in_4bit=True, **kwargs`, which may hold a config: the keywords are read where it holds none."""
    held, there = porting.value(PLACE), [(name, site.argument(name)) for name in (*FLAGS, *FORMAT)]
    if held is None or held.known or (given.certain and not is_none_somewhere(porting.module, given.node)):
        return
    keywords = {name: argument for name, argument in there if argument is not None}
    known = {name: argument.value for name, argument in keywords.items()}
    if _switched_off(known):
        return
    name = _format(known)
    config = atom(held.code)
    code = f"{config} or {quoted(name) if name is not None else _entries(keywords)}"
    porting.fill({PLACE: Value("expression", code, held.origin)})
    flag = next(keywords[name] for name in FLAGS if name in keywords)
    message = f"{flag.name}={flag.text} beside a quantization_config that the run may give: with both transformers 4.57"
    message += " raises, and the port quantises by the config; without one, by the keywords, as on the GPU."
    porting.find("TP601", "info", message, "Give one of them.", flag.line, flag.column)


def _entries(given: Mapping[str, Argument]) -> str:
    """Keywords of from_pretrained as `rt.load_model` takes them: these quantise by their flags alone."""
    return f"{{{', '.join(f'{quoted(name)}: {argument.text}' for name, argument in given.items())}}}"


def _format(known: Mapping[str, Value]) -> str | None:
    """`nf4`, `fp4` or `int8` for known keywords of a BitsAndBytesConfig; None when they need the object, or say no."""
    for name in ("load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type", "llm_int8_skip_modules"):
        if name in known and not known[name].known:
            return None
    skipped = known["llm_int8_skip_modules"].literal if "llm_int8_skip_modules" in known else None
    if skipped not in (None, [], ["lm_head"]):
        return None
    four, eight = (name in known and known[name].literal is True for name in ("load_in_4bit", "load_in_8bit"))
    if four and not eight:
        form = known["bnb_4bit_quant_type"].literal if "bnb_4bit_quant_type" in known else "fp4"
        return form if form in ("nf4", "fp4") else None
    return "int8" if eight and not four else None


def _switched_off(known: Mapping[str, Value]) -> bool:
    flags = [known.get("load_in_4bit"), known.get("load_in_8bit")]
    return all(flag is None or flag.is_literal(False) for flag in flags)


def _only_use(porting: Training, config: Site, given: Argument) -> bool:
    """Whether the config is made for this one model: written in place, or read by its name nowhere else."""
    if config.variable is None:
        return True
    if given.reference is None and not isinstance(given.node, cst.Name):
        return False
    return all(use is given.node for use in porting.module.references(config.variable, config.scope))


def _other_config(porting: Training, given: Argument) -> str | None:
    """The class of a quantisation that is not bitsandbytes', `GPTQConfig`."""
    read = [name for name, rule in tables_of(porting).items() if rule.role == "quantization"]
    homes, known = {name.partition(".")[0] for name in read}, {name.rpartition(".")[2] for name in read}
    nodes: list[cst.CSTNode | None] = [given.node]
    nodes += [binding.value for binding in bindings_of(porting.module, given.node)]
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, cst.IfExp):
            nodes += [node.body, node.orelse]
        if isinstance(node, cst.Call):
            name = porting.module.qualified(node.func) or ""
            short = name.rsplit(".", 1)[-1]
            if name.partition(".")[0] in homes and short.endswith(CONFIGS) and short not in known:
                return short
    return None
