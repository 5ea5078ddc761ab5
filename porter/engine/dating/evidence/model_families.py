"""The first release that has the models which a script loads: it has run on no older one.

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")  # transformers 4.51

A command of a README that was forgotten, or a keyword of old, asks for what can't load them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....recipe import Value
from ....runtime.facts.families import find_family, first_release_of, read_family
from ....runtime.facts.field_tables import version_key
from ....source.launch.launched_with import given_by_launches
from ....source.project.usual.model_names import usual_values_in
from ...script.fill_from_tables import tables_of
from ...script.training import Training, families

PLACE = "model.id"
FIRST = ("the first release with the models that it loads",)
LOADED = ("the models that it loads",)


def first_with_its_models(porting: Training) -> tuple[str, str] | None:
    """The newest of the first releases of all models that the script loads, and the model: `4.51.0`, `Qwen/Qwen3-8B`.

    Of a model that its user chooses it is the one that is meant when nothing says another.
    """
    asked = (*FIRST, len(porting.sites))
    if asked not in porting.answers:
        extra = [read_family(path) for path in families(porting.packs)]
        known = ((find_family(hub_id=identifier, extra=extra), identifier) for identifier in models_loaded(porting))
        firsts = [(first_release_of(family, identifier), identifier) for family, identifier in known if family]
        first = max(firsts, key=lambda each: version_key(each[0] or "0"), default=("", ""))
        porting.answers[asked] = first if first[0] else None
    found: tuple[str, str] | None = porting.answers[asked]
    return found


def models_loaded(porting: Training) -> tuple[str, ...]:
    """The names of the models that the script loads, as far as they can be told, each once."""
    asked = (*LOADED, len(porting.sites))
    if asked not in porting.answers:
        porting.answers[asked] = (*dict.fromkeys(_loaded(porting)),)
    found: tuple[str, ...] = porting.answers[asked]
    return found


def _loaded(porting: Training) -> Iterator[str]:
    launched = None
    for value in _names(porting):
        if value.known:
            if isinstance(value.literal, str):
                yield value.literal
            continue
        launched = launched or given_by_launches(Path(porting.module.path))
        usual = {identifier for identifier, _ in usual_values_in(porting.module, value.code, launched)}
        if len(usual) == 1:
            yield from usual


def _names(porting: Training) -> Iterator[Value]:
    """What names a model where one is loaded, or where a trainer gets its name."""
    for site in porting.sites:
        rule = tables_of(porting).get(site.qualified)
        for argument in site.arguments:
            row = rule.table.row(argument.name) if rule is not None else None
            if row is not None and row.place == PLACE and argument.value.kind != "default":
                yield argument.value
        given = site.argument("model") if site.role == "trainer" else None
        if given is not None and given.value.known:
            yield given.value
