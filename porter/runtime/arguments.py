"""TRL's argument classes and parser for ported scripts: same names, flags, defaults and YAML, without torch.

    from porter.runtime.arguments import ModelConfig, ScriptArguments, SFTConfig, TrlParser

The classes are dataclasses made from the field tables, so `transformers.HfArgumentParser` takes them too.
Settings that can't be ported are refused by name when an object is made or changed; those without effect on a TPU are
named in one line.
"""

from __future__ import annotations

import dataclasses
import sys
from ast import literal_eval
from functools import cache
from typing import Any, Literal

from .facts.argument_fields import CLASSES, of_its_day, versions_of
from .facts.field_tables import REQUIRED, FieldTable, Row, find_table, version_key
from .settings import post_init
from .settings.trl_parser import TrlParser as TrlParser  # a name of this module too
from .settings.unsloth_defaults import unsloth_defaults
from .settings.zero_config import take_deepspeed


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return argument_class(name, None)


def trl_arguments(version: str, *names: str, unsloth: str | None = None, transformers: str | None = None) -> Any:
    """The classes `names` as TRL `version` had them: its fields, names and defaults.

        SFTConfig, ModelConfig = trl_arguments("0.12", "SFTConfig", "ModelConfig")

    One class for one name. Objects answer to today's names as well, with what that release did. `unsloth`: with the
    defaults that this release of Unsloth gives TRL's classes when it is imported before them. `transformers`: the
    release that they extend the classes of, where it isn't the one of TRL's day.
    """
    unknown = sorted(set(names) - set(CLASSES))
    if unknown or not names:
        raise ValueError(f"no argument class {', '.join(unknown)}; known: {', '.join(CLASSES)}")
    classes = tuple(argument_class(name, version, unsloth, transformers) for name in names)
    return classes if len(classes) > 1 else classes[0]


def get_peft_config(model_args: Any) -> Any:
    """The LoraConfig that a ModelConfig asks for, or None without `use_peft`."""
    if not model_args.use_peft:
        return None
    return argument_class("LoraConfig", None)(
        task_type=getattr(model_args, "lora_task_type", "CAUSAL_LM"),  # alignment's own arguments have none
        r=model_args.lora_r,
        target_modules=model_args.lora_target_modules,
        lora_alpha=model_args.lora_alpha,
        lora_dropout=model_args.lora_dropout,
        bias="none",
        use_rslora=getattr(model_args, "use_rslora", False),
        use_dora=getattr(model_args, "use_dora", False),
        modules_to_save=model_args.lora_modules_to_save,
        target_parameters=getattr(model_args, "lora_target_parameters", None),
    )


def get_quantization_config(model_args: Any) -> Any:
    """The BitsAndBytesConfig that a ModelConfig asks for, or None: what rt.load_model(quantization=) takes."""
    if not model_args.load_in_4bit and not model_args.load_in_8bit:
        return None
    made = argument_class("BitsAndBytesConfig", None)
    if model_args.load_in_8bit:
        return made(load_in_8bit=True)
    return made(
        load_in_4bit=True,
        bnb_4bit_quant_type=model_args.bnb_4bit_quant_type,
        bnb_4bit_use_double_quant=model_args.use_bnb_nested_quant,
    )


def get_dataset(mixture: Any) -> Any:
    """The datasets of a DatasetMixtureConfig as one: see `porter.runtime.settings.mixtures.get_dataset`."""
    from .settings import mixtures

    return mixtures.get_dataset(mixture)


def get_kbit_device_map() -> None:
    """None: the mesh places the model."""


def strtobool(val: str) -> bool:
    """TRL's: what a variable of the environment says. ValueError for what is neither yes nor no."""
    said = {**dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True)}
    said |= dict.fromkeys(("n", "no", "f", "false", "off", "0"), False)
    if val.lower() not in said:
        raise ValueError(f"{val!r} is neither of {', '.join(said)}")
    return said[val.lower()]


def init_zero_verbose() -> None:
    """TRL's: only errors are logged, by rich, which has to be installed, and warnings are lines of the log."""
    import logging
    import warnings

    from rich.logging import RichHandler

    def log_warning(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        logging.warning("%s:%s: %s: %s", filename, lineno, category.__name__, message)

    logging.basicConfig(format="%(message)s", datefmt="[%X]", handlers=[RichHandler()], level=logging.ERROR)
    warnings.showwarning = log_warning


@cache
def argument_class(
    name: str, version: str | None, unsloth: str | None = None, transformers: str | None = None
) -> type[Any]:
    """The dataclass `name`, as TRL `version` had it (the newest when None) on `transformers` (that of its day when
    None), with Unsloth's defaults where asked for."""
    table = find_table(CLASSES[name])
    day = transformers or of_its_day(version)
    versions = versions_of(name, version, transformers)
    rows = table.rows(versions)
    if not rows:
        raise ValueError(f"TRL {version} has no {name}")
    if unsloth is not None:
        rows |= {
            field: dataclasses.replace(rows[field], default=default)
            for field, default in unsloth_defaults(name, unsloth, day).items()
            if field in rows
        }

    former = table.former(versions)
    today = _names_of_today(table, rows)

    def __post_init__(self: Any) -> None:
        for older, row in former.items():
            if (value := getattr(self, older)) is not None:
                setattr(self, row.name, value)
        post_init.settle(self, name, rows, lambda other: argument_class(other, None))
        if name in post_init.TRAINING and self.deepspeed:
            take_deepspeed(self)
        _refuse(self, name, table, rows)
        _fill_in(self, table, rows, versions)
        self._made = True

    def __setattr__(self: Any, field: str, value: Any) -> None:
        if field in rows and "_made" in self.__dict__ and (said := _refusal(rows[field], value)):
            raise ValueError(f"{name} can't be ported with\n  {said}")
        object.__setattr__(self, field, value)
        if field in today and "_made" in self.__dict__:
            object.__setattr__(self, today[field], value)

    fields = [_field(row, version) for row in rows.values()]
    fields += [_former_field(older, row) for older, row in former.items()]
    members: dict[str, Any] = {"__post_init__": __post_init__, "__setattr__": __setattr__}
    members["of_unsloth"] = unsloth
    members["ignored_fields"] = frozenset(row.name for row in rows.values() if row.is_ignored)
    if name in post_init.TRAINING:
        members["of_trl"] = version  # None for the newest
        members["of_transformers"] = day  # None for the newest
        methods = (post_init.to_dict, post_init.get_warmup_steps, post_init.get_process_log_level)
        members |= {method.__name__: method for method in methods}
    elif name == "BitsAndBytesConfig":
        members["of_transformers"] = day
    elif name == "LoraConfig":
        members |= {"to_dict": post_init.to_dict, "save_pretrained": post_init.save_pretrained}
    made = dataclasses.make_dataclass(name, fields, namespace=members)
    made.__module__ = __name__
    made.__doc__ = f"{table.name} of {table.library} {table.version(versions)}, without torch."
    return made


def _field(row: Row, version: str | None) -> tuple[str, Any, Any]:
    metadata: dict[str, Any] = {"help": row.help.replace("%", "%%")}
    if row.choices:
        former = (literal_eval(default) for default in row.defaults.values())  # `adamw_hf`, which is no more
        metadata["choices"] = list(dict.fromkeys([*row.choices, *(one for one in former if isinstance(one, str))]))
    if row.bare is not None:
        metadata |= {"nargs": "?", "const": literal_eval(row.bare)}
    names = {"Any": Any, "Literal": Literal}
    if "DatasetConfig" in row.type:
        names["DatasetConfig"] = argument_class("DatasetConfig", version)
    kind = eval(row.type, names)  # an annotation from our own tables
    text = _default(row)
    if text == REQUIRED:
        return row.name, kind, dataclasses.field(metadata=metadata)
    default = literal_eval(text)
    if isinstance(default, list | dict):
        return row.name, kind, dataclasses.field(default_factory=lambda: literal_eval(text), metadata=metadata)
    return row.name, kind, dataclasses.field(default=default, metadata=metadata)


def _former_field(older: str, row: Row) -> tuple[str, Any, Any]:
    kind = eval(f"{row.type} | None".replace("| None | None", "| None"), {"Any": Any, "Literal": Literal})
    return older, kind, dataclasses.field(default=None, metadata={"help": f"The older name of {row.name}."})


def _refuse(args: Any, name: str, table: FieldTable, rows: dict[str, Row]) -> None:
    """ValueError for settings that can't be ported; one line for those without effect."""
    refused, idle = [], []
    for row in rows.values():
        value = getattr(args, row.name)
        if row.name == "deepspeed":
            continue  # judged by what it holds
        if said := _refusal(row, value):
            refused.append(said)
        elif not _is_default(row, value) and row.fate == "dropped" and row.name not in post_init.QUIET:
            idle.append(row.name)
    if refused:
        raise ValueError(f"{name} can't be ported with\n  " + "\n  ".join(refused))
    if idle:
        print(f"{name}: without effect on a TPU: {', '.join(idle)}", file=sys.stderr)


def _refusal(row: Row, value: Any) -> str:
    """Why a field can't be ported with this value; an empty string where it can."""
    fate, reason = row.verdict(getattr(value, "value", value))
    return f"{row.name}={value!r}: {reason}" if fate == "manual" and not _is_default(row, value) else ""


def _is_default(row: Row, value: Any) -> bool:
    """Whether a value changes nothing: the default, or as empty as the default is."""
    default = None if _default(row) == REQUIRED else literal_eval(_default(row))
    return bool(value == default) or not (value or default)


def _fill_in(args: Any, table: FieldTable, rows: dict[str, Row], versions: Any) -> None:
    """Give an older release's object the fields of today, with the values that it acted on."""
    newest = table.rows()
    acted_on = table.defaults(versions)
    former = {name: older for older, name in _names_of_today(table, rows).items()}
    for row in newest.values():
        if row.name in rows:
            continue
        older = former.get(row.name)
        implied = acted_on.get(row.place, row)
        value = getattr(args, older) if older else literal_eval(_default(implied if implied.name == row.name else row))
        setattr(args, row.name, value)


def _names_of_today(table: FieldTable, rows: dict[str, Row]) -> dict[str, str]:
    """The name that each field of an older release has today, where that release hasn't got it."""
    found: dict[str, str] = {}
    for row in table.rows().values():
        older = next((name for name in row.renamed_from if name in rows), None) if row.name not in rows else None
        if older is not None:
            found[older] = row.name
    return found


def _default(row: Row) -> str:
    """The default's literal text; the oldest known one for a release from before the tables."""
    return row.default or row.defaults[min(row.defaults, key=version_key)]
