"""LoRA: PEFT's config → Qwix rules on the family's module paths, and the check that they all took."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...engine.receipts.marking import mark, mark_of
from ...engine.script.porting import Porting
from ...engine.script.seeds import say_unread_seed, seed_given
from ...engine.script.sites import Site
from ...engine.script.training import in_reach
from ...runtime.facts.family import Family
from ...runtime.facts.lora_targets import Rule, port_rules
from ...runtime.facts.peft_targets import LoraSpec, beyond_text
from ...text.expressions import number, operand, python, times
from ...text.layout import Arg, Call, render
from .remarks import named_remarks, remarked

# Recipe place → LoraConfig keyword, for what decides which linears get which adapter.
KEYWORDS = {
    "lora.r": "r",
    "lora.alpha": "lora_alpha",
    "lora.targets": "target_modules",
    "lora.exclude": "exclude_modules",
    "lora.dropout": "lora_dropout",
    "lora.use_rslora": "use_rslora",
    "lora.init": "init_lora_weights",
    "lora.layers": "layers_to_transform",
    "lora.layers_pattern": "layers_pattern",
    "lora.rank_pattern": "rank_pattern",
    "lora.alpha_pattern": "alpha_pattern",
}
DEFAULTS = LoraSpec()
# A comment that says no more than the name that the rule has for it: `r=16,  # rank`.
SPELLS_OUT = re.compile(r"# (r|lora_alpha|lora_dropout): (lora )?(rank|alpha|dropout)\.?", re.IGNORECASE)


def literal_rules(porting: Porting, family: Family | None, sizes: Mapping[str, Any] | None) -> tuple[Rule, ...] | None:
    """The Qwix rules when family and config are known at port time; None when the script has to find them.

    Raises ValueError when PEFT's config can't be expressed: the message is for the user.
    """
    if family is None:
        return None
    known: dict[str, Any] = {}
    for place, keyword in KEYWORDS.items():
        value = porting.value(place)
        if value is None:
            continue
        if not value.known:
            return None
        known[keyword] = value.literal
    for keyword in (KEYWORDS["lora.r"], KEYWORDS["lora.alpha"]):
        if keyword in known and (isinstance(known[keyword], bool) or not isinstance(known[keyword], int | float)):
            raise ValueError(f"{keyword}={known[keyword]!r} is no number, and PEFT divides lora_alpha by r")
    if known.get("init_lora_weights", True) is False:
        return None  # PEFT draws B too, for which rt.lora_rules has the distribution
    spec = LoraSpec(**{name: value for name, value in known.items() if value is not None or name == "target_modules"})
    try:
        return port_rules(family, sizes, spec)
    except (TypeError, AttributeError) as error:  # a value of a type that PEFT doesn't take either
        raise ValueError(f"a value has a type that PEFT doesn't take ({error})") from None


def provider_code(
    porting: Porting, rules: tuple[Rule, ...] | None, family: Family | None, indent: str, before: int
) -> str:
    """The code that makes the LoRA provider: literal `qwix.LoraRule`s, or `rt.lora_rules` over the loaded model."""
    # PEFT trains adapters in float32 over any base.
    provider = mark(porting, "lora.disable_dropout") + porting.rt("LoraProvider")
    if rules is None:
        arguments = [Arg(porting.names.model)]
        for place, keyword in KEYWORDS.items():
            if _is_asked(porting, place):
                arguments.append(remarked(porting, Arg(porting.text(place), keyword), place))
        silent = mark(porting, *(place for place in KEYWORDS if not _is_asked(porting, place)))
        made = Call(silent + porting.rt("lora_rules"), arguments)
        return render(Call(provider, [Arg(made)]), indent, before=before)
    rows = [Arg(_rule(porting, rule), comment=_row_comment(porting, rule)) for rule in rules]
    said = named_remarks(porting, *(place for place in KEYWORDS if _is_asked(porting, place)))
    said = tuple(line for line in said if SPELLS_OUT.fullmatch(line) is None)
    rows[:1] = [replace(row, above=said) for row in rows[:1]]
    return render(Call(provider, [Arg(Call("", rows, brackets="[]", spread=len(rows) > 1))]), indent, before=before)


def _is_asked(porting: Porting, place: str) -> bool:
    """Whether the port says what `place` holds: the rank, its scale, and what isn't PEFT's default."""
    value = porting.value(place)
    default = getattr(DEFAULTS, KEYWORDS[place], None)
    defaults = (0, 0.0) if place == "lora.dropout" else (default,)
    return place in ("lora.r", "lora.alpha") or (value is not None and not value.is_literal(*defaults))


def _rule(porting: Porting, rule: Rule) -> Call:
    porting.imports.add("import qwix")
    rank = porting.known("lora.r")
    scale = porting.value("lora.alpha")
    if rank and scale is not None and rule.rank % rank == 0 and rule.alpha == scale.literal * (rule.rank // rank):
        factor = rule.rank // rank
        rank_text = times(porting.text("lora.r"), factor)
        alpha_text = number(scale, times(porting.text("lora.alpha"), factor))
    else:
        rank_text, alpha_text = str(rule.rank), repr(float(rule.alpha))
    chosen = [place for place in KEYWORDS if place not in ("lora.r", "lora.alpha", "lora.init")]
    if porting.known("lora.dropout") not in (0, 0.0):
        chosen.remove("lora.dropout")
    arguments = [
        Arg(mark(porting, *chosen) + python(rule.module_path), "module_path"),
        Arg(mark(porting, "lora.r") + rank_text, "rank"),
        Arg(mark(porting, "lora.alpha") + alpha_text, "alpha"),
    ]
    dropout = porting.value("lora.dropout")
    if dropout is not None and not dropout.is_literal(0, 0.0):
        arguments.append(Arg(mark(porting, "lora.dropout") + porting.text("lora.dropout"), "dropout"))
    if porting.known("lora.init", True) is True:
        arguments.append(Arg(mark(porting, "lora.init") + porting.rt("PEFT_INIT"), "lora_a_initializer"))
    elif porting.known("lora.init") == "gaussian":
        porting.imports.add("import jax")
        code = f"jax.nn.initializers.normal(1 / {rule.rank // len(_slots(rule) or '1')})"
        arguments.append(Arg(mark(porting, "lora.init") + code, "lora_a_initializer"))
    return Call("qwix.LoraRule", arguments, flat=True)


def _slots(rule: Rule) -> list[str]:
    """The parts of a fused layer that a rule adapts (`k_proj`, `v_proj`); none for a layer of its own."""
    kinds = [name for name in rule.hf if name in ("q_proj", "k_proj", "v_proj")]
    return kinds if rule.module_path.rsplit("/", 1)[-1] in ("kv_einsum", "qkv_einsum") else []


def _row_comment(porting: Porting, rule: Rule) -> str:
    """What a reader of the rule wants to know: which projections share it, and where an odd alpha comes from."""
    said = []
    letters = [kind[0].upper() for kind in _slots(rule)]
    if len(letters) > 1:
        said.append(f"{', '.join(letters[:-1])} and {letters[-1]}, {rule.rank // len(letters)} each")
    if porting.known("lora.use_rslora") is True:
        said.append("alpha times sqrt(rank) for rsLoRA")
    return f"# {'; '.join(said)}" if said else ""


SEEDS = ("run.seed", "lora.seed")


def _is_said(porting: Porting, place: str, code: str) -> bool:
    return porting.value(place) is not None and porting.text(place) == code


def apply_call(porting: Porting, provider: str, seed: str) -> Call:
    """`rt.apply_lora(...)`: injects the adapters and checks layer by layer that all of PEFT's targets have one."""
    given_model = porting.inject.argument("model") if porting.inject is not None else None
    arguments = [
        Arg(mark_of(porting, [given_model]) + porting.names.model),
        Arg(adapters_mark(porting) + provider),
        Arg(porting.names.mesh),
        Arg(mark(porting, *(place for place in SEEDS if _is_said(porting, place, seed))) + seed, "seed"),
    ]
    names = {"lora.targets": "targets", "lora.exclude": "exclude", "lora.layers": "layers"}
    for place, keyword in names.items():
        value = porting.value(place)
        if value is not None and (value.kind != "default" or place == "lora.targets") and not value.is_literal(None):
            arguments.append(Arg(mark(porting, place) + porting.text(place), keyword))
    return Call(porting.rt("apply_lora"), arguments)


def seed_of_adapters(porting: Porting, trainer: Site) -> str:
    """The code of the seed by which the trainer that puts the adapters in draws them."""
    own = porting.text("run.seed")
    if porting.known("lora.seeded_by") == "trainer":
        return own
    given = seed_given(porting, trainer, own)
    if given.unread:
        say_unread_seed(porting, trainer, given.unread, own)
    return given.code or own


def adapters_mark(porting: Porting) -> str:
    """Marks of the `peft_config` that puts the adapters in."""
    site = porting.inject or porting.trainer
    return mark_of(porting, [site.argument("peft_config")] if site is not None else [])


def saved_call(porting: Porting, site: Site, model: str, seed: str) -> Call:
    """`rt.apply_adapter(...)` for a saved adapter that is trained on."""
    folder = site.argument("model_id")
    asked = [folder, site.argument("is_trainable"), site.argument("autocast_adapter_dtype")]
    arguments = [
        Arg(mark_of(porting, [site.argument("model")]) + model),
        Arg(mark_of(porting, asked) + (folder.text if folder is not None else "None")),
        Arg(porting.names.mesh),
        Arg(seed, "seed"),
    ]
    for name in ("subfolder", "revision"):
        given = site.argument(name)
        if given is not None and not given.value.is_literal(None, ""):
            arguments.append(Arg(mark_of(porting, [given]) + given.text, name))
    return Call(porting.rt("apply_adapter"), [*arguments, *dropout_arguments(porting, site)])


def dropout_arguments(porting: Porting, site: Site | None = None) -> list[Arg]:
    """`dropout=False` of `rt.apply_peft` for a trainer that switches dropout off (`disable_dropout`).

    `site`: where the adapters are put in, which may be before the config is made, or in another function.
    """
    asked = porting.value("lora.disable_dropout")
    if asked is None or asked.is_literal(False):
        return []
    if not asked.known and site is not None and not _is_made_before(porting, site):
        given = porting.config.argument("disable_dropout") if porting.config is not None else None
        if given is None or not given.value.known:
            return [Arg("False", "dropout")]  # what these trainers do unless they are told otherwise
        return [] if given.value.is_literal(False) else [Arg("False", "dropout")]
    if asked.known:
        return [Arg(mark(porting, "lora.disable_dropout") + "False", "dropout")]
    return [Arg(f"{mark(porting, 'lora.disable_dropout')}not {operand(asked.text or asked.code)}", "dropout")]


def _is_made_before(porting: Porting, site: Site) -> bool:
    """Whether the training config is there where the adapters are put in."""
    config = porting.config
    if config is None:
        trainer = porting.trainer
        return trainer is not None and in_reach(trainer.scope, site.scope)
    return in_reach(config.scope, site.scope) and config.start < site.start


def vision_note(porting: Porting, family: Family | None, sizes: Mapping[str, Any] | None) -> str:
    """A note when PEFT would also adapt the vision tower, which text training never reaches; else an empty string."""
    if family is None or sizes is None or not porting.value("lora.targets"):
        return ""
    targets = porting.known("lora.targets", fallback="?")
    if targets == "?":
        return ""
    try:
        beyond = beyond_text(family, sizes, LoraSpec(target_modules=targets))
    except ValueError:
        return ""
    return (
        "PEFT also puts adapters on the vision tower; text never reaches them, so they stay at zero there"
        if beyond
        else ""
    )
