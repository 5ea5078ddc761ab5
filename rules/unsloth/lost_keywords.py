"""Keywords of SFTTrainer that Unsloth loses: those of its config (`packing`, `max_seq_length`), given beside `args=`.

What it does: where the script or its project names Unsloth's release, what it loses has no effect in the port either,
which is said; where nothing names it, the port does what is written and says what those releases do.
Why: Unsloth moves what the trainer no longer takes into a config that it makes. From 2025.5.8 on it makes none where
`args` is a TrainingArguments or a config already, and loses it. From 2026.8.13 on it sets it on that one; of a plain
TrainingArguments TRL makes a config anew, without it, until 2026.10.8. (_backwards_compatible_trainer in
unsloth/trainer.py; https://github.com/unslothai/unsloth/issues/2904)
"""

from __future__ import annotations

from porter.packs.api import Origin, Phase, Severity, Site, Value, step
from porter.packs.script import history, plain_version, release_of, version_key
from porter.packs.training import Training, config_table, plain_versions, table_of

from ._release import is_patched, unsloth_version

ID = "TP704"

LOST_SINCE, SET_SINCE, KEPT_SINCE = (2025, 5, 8), (2026, 8, 13), (2026, 10, 8)
LENGTH = "data.max_length"
WITHOUT_EFFECT = ("dataset_num_proc", "dataset_batch_size")  # on the rows
LOSES = "as Unsloth loses the trainer's"  # the file that such a default's origin names


def loses_length(porting: Training) -> bool:
    """Whether the release that is named cuts rows at TRL's own length, whatever the trainer and the model say."""
    return is_followed(porting) and _is_plain(porting) and loses_keywords(porting)


def trls_length(porting: Training) -> Value:
    """What a config that TRL makes of a plain TrainingArguments cuts rows at."""
    rule = config_table(porting)
    row = rule.table.defaults(plain_versions(porting)).get(LENGTH) if rule is not None else None
    return _instead(row.default if row is not None else None, "1024")


def _instead(default: str | None, otherwise: str = "None") -> Value:
    return Value("default", default or otherwise, Origin(LOSES, 0, 0, ID))


def is_followed(porting: Training) -> bool:
    """Whether the port does as that release: the script or its project names it, and the arguments are read here."""
    return not porting.arguments_object and names_release(porting)


def names_release(porting: Training) -> bool:
    """Whether the script or its project names Unsloth's release."""
    return release_of(porting, "unsloth") is not None


def loses_keywords(porting: Training) -> bool:
    """Whether the release that the script is read as loses what SFTTrainer is given beside `args=`."""
    release = version_key(unsloth_version(porting))
    return arguments_call(porting) is not None and LOST_SINCE <= release < (
        KEPT_SINCE if _is_plain(porting) else SET_SINCE
    )


@step(
    Phase.READ,
    of="trainer",
    reads=("arguments", "arguments_object"),
    settles=("script values",),
    fills=("lost keywords", "data.packing", "data.text_field", "data.kwargs", "data.eval_packing", "model.init_kwargs"),
)
def settle_lost(porting: Training) -> None:
    """Fill what the named release acts on instead of SFTTrainer's own keywords."""
    if not _concerns(porting) or not is_followed(porting):
        return
    lost = _lost(porting)
    for name, _ in lost.values():
        reason = f"Unsloth {unsloth_version(porting)} loses it beside {_title(porting)}"
        porting.change_fate(f"SFTTrainer.{name}", fate="dropped", target="", reason=reason)
    porting.fill({place: held for place, (_, held) in lost.items() if place != LENGTH})


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "arguments", "arguments_object", "lost keywords", "model", "model.max_seq_length"),
)
def say_lost(porting: Training) -> None:
    """Tell what is lost, where the rows are other ones for it."""
    if not _concerns(porting):
        return
    lost = _lost(porting)
    effects = [_effect(place, held.code) for place, (_, held) in lost.items() if place != LENGTH]
    length = trls_length(porting).code if _is_plain(porting) else "the model's max_seq_length"
    cut = not _is_cut_so(porting)
    if cut:
        effects.append(f"rows are cut at {length}")
    if effects:
        _say(porting, [name for name, _ in lost.values()], ", ".join(effects), cut=cut)


def _concerns(porting: Training) -> bool:
    site = porting.trainer
    if site is None or porting.loop is not None or table_of(porting, site).kind != "sft":
        return False
    return is_patched(porting, site) and loses_keywords(porting)


def _say(porting: Training, names: list[str], effects: str, *, cut: bool) -> None:
    followed, site = is_followed(porting), porting.trainer
    assert site is not None
    known = names_release(porting)
    which = f"Unsloth {unsloth_version(porting)}" if known else "Unsloth from 2025.5.8 to 2026.10.7"
    given = f"SFTTrainer's {', '.join(f'{name}=' for name in names)}" if names else "the model's max_seq_length"
    does = ", as in the port" if followed else "; the port does what is written"
    message = f"{which} loses {given} beside {_title(porting)}: {effects}{does}."
    pin = "Pin its release (pip install unsloth==VERSION), so that it is known."
    meant = "Give them to SFTConfig if they are meant"
    fix = f"{meant}." if followed else f"{meant}, or the port what the GPU run had." if known else pin
    severity: Severity = "warning" if "packing" in names or (cut and not followed) else "info"
    porting.find(ID, severity, message, fix, site.line, site.column)


def _effect(place: str, code: str) -> str:
    if place == "data.packing" and code == "False":
        return "rows aren't packed"
    return f"the column {code} is read" if place == "data.text_field" else f"{place.split('.')[1]} is {code}"


def _lost(porting: Training) -> dict[str, tuple[str, Value]]:
    """By place: a keyword of the trainer that has no effect, and what holds instead; none that says the same."""
    rule, config, site = config_table(porting), arguments_call(porting), porting.trainer
    version = version_key(plain_version(porting.versions.get("trl", "99")))
    found: dict[str, tuple[str, Value]] = {}
    if rule is None or config is None or site is None:
        return found
    defaults = rule.table.defaults(plain_versions(porting))
    for argument in site.arguments:
        row = rule.table.row(argument.name) if argument.name else None
        gone = history().lifetime("trl", "trl.SFTTrainer", argument.name)[1] if row is not None else None
        if row is None or gone is None or version < version_key(gone) or argument.name in WITHOUT_EFFECT:
            continue
        own = None if _is_plain(porting) else config.argument(argument.name, row.name)
        default = defaults[row.place].default if row.place in defaults else None
        held = own.value if own is not None else _instead(default)
        same = argument.value.known and held.known and argument.value.literal == held.literal
        if row.place == LENGTH or not same:
            found[row.place] = (argument.name, held)
    return found


def _is_cut_so(porting: Training) -> bool:
    """Whether rows are cut as if nothing were lost."""
    of_model = porting.value("model.max_seq_length")
    given = porting.trainer.argument("max_seq_length", "max_length") if porting.trainer is not None else None
    value = given.value if given is not None else of_model
    held = trls_length(porting) if _is_plain(porting) else of_model
    if given is not None and given.value.known and of_model is not None and of_model.known:
        # Unsloth reduces what the trainer is given to the model's.
        numbers = [each for each in (given.value.literal, of_model.literal) if isinstance(each, int)]
        return held is None or (str(min(numbers)) if numbers else given.value.code) == held.code
    return value is None or held is None or value.code == held.code


def arguments_call(porting: Training) -> Site | None:
    """The call that makes the trainer's arguments, whether they stay an object or not."""
    return porting.arguments or porting.config


def _is_plain(porting: Training) -> bool:
    """Whether the trainer is given transformers' own arguments, of which TRL makes its config."""
    made = arguments_call(porting)
    return made is not None and made.qualified.startswith("transformers.")


def _title(porting: Training) -> str:
    return "a TrainingArguments" if _is_plain(porting) else "an SFTConfig"
