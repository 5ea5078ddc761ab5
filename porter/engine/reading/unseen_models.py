"""What a model's name leaves open until the port runs: whether it is of a family that Tunix has, and a whole model.

`AutoModelForCausalLM.from_pretrained` takes a folder of PEFT's adapters, too: it loads their base, and the adapters
frozen. rt.load_model ends there.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from ...errors import InputError
from ...files import is_file, read_text
from ...runtime.facts.families import families
from ...runtime.facts.family import Family
from ...source.project.folders import files_in, project_folders
from ..script.fill_from_tables import tables_of
from ..script.sites import facts_of
from ..script.training import Training

WHOLE = re.compile(r"merged|full|fused", re.IGNORECASE)
MERGES = re.compile(r"merge_and_unload|merged_16bit")
SAVES = r"(?i:(?:out|save|adapter)\w{0,30}(?:\s{0,9}=\s{0,9}|\(\s{0,9}))"  # in front of what it names
PORTS = re.compile(r"\bporter\.runtime\b|import runtime as rt")
MOST, LARGEST = 40, 1_000_000  # files of a project that are asked, and their characters

FIX = "Name its base model, and train the adapters on with PeftModel.from_pretrained(base, {name}, is_trainable=True)."

WITHDRAWN = "was taken from the Hub"
INSTEAD = "Give it the same weights, {}, whose tokenizer has the special tokens that those files leave empty."


def withdrawn(porting: Training, family: Family, name: str) -> str | None:
    """The Hub id of the same weights where `name` is one that is there no more, and no folder beside the script."""
    if (Path(porting.module.path).parent / name).is_dir():
        return None
    known: dict[str, str] = family.table.get("withdrawn", {})
    return next((instead for pattern, instead in known.items() if fnmatch(name.lower(), pattern)), None)


def say_torchs_files(porting: Training, family: Family, name: str) -> None:
    """A warning where a folder beside the script holds its weights as torch's files alone, which the port reads by
    torch, and of a Hub id from before safetensors were usual."""
    folder = Path(porting.module.path).parent / name
    if folder.is_dir():
        if not any(folder.glob("pytorch_model*.bin")) or any(folder.glob("*.safetensors")):
            return
        message = f"{name} holds its weights in torch's files (*.bin) alone, which rt.load_model reads by torch."
    elif any(fnmatch(name.lower(), pattern) for pattern in family.table.get("before_safetensors", ())):
        message = f"{name} is of before safetensors were usual: torch's files are read by torch."
    else:
        return
    value = porting.recipe.values["model.id"]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    load = f"AutoModelForCausalLM.from_pretrained({json.dumps(name)}, torch_dtype='auto')"
    fix = f"Install torch beside the port (for CPUs will do), or write them anew: {load}.save_pretrained(FOLDER)."
    porting.find("TP302", "warning", message, fix, line, column)


def holds_adapters(porting: Training, name: str) -> bool:
    """Whether a folder of the project has that name, and adapters in it without a model."""
    folders = [folder / name for folder in project_folders(Path(porting.module.path).resolve())]
    return any(is_file(each / "adapter_config.json") and not is_file(each / "config.json") for each in folders)


def say_adapters(porting: Training, name: str, where: str = "") -> bool:
    """An error where `name` is surely that of adapters, a warning where another script or its own words say so."""
    value = porting.recipe.values["model.id"]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    shown = f"{name}{f' ({where})' if where else ''}"
    frozen = not porting.loaded_by and porting.lora is None and porting.inject is None and not porting.lora_object
    idle = " On the GPU they are loaded frozen over their base, and nothing is trained." if frozen else ""
    fix = FIX.format(name=json.dumps(name))
    if holds_adapters(porting, name):
        message = f"{shown} holds adapters and no model (adapter_config.json): rt.load_model ends there.{idle}"
        porting.find("TP302", "error", message, fix, line, column)
        return True
    saver = "" if WHOLE.search(name) or porting.family is not None else _saved_by(porting, name)
    words = "|".join(facts_of(porting.module).adapter_words)
    called = re.search(rf"(?:^|[-_./])(?:{words})(?=$|[-_./\d])", name, re.IGNORECASE) if words else None
    if not saver and (WHOLE.search(name) or called is None):
        return False
    said = f"{saver}, which trains adapters, saves into this folder" if saver else "it is called adapters"
    message = f"{shown}: {said}. If it holds no whole model, rt.load_model ends there.{idle}"
    porting.find("TP302", "warning", message, fix, line, column)
    return True


def say_unknown(porting: Training, name: str, layers: str) -> None:
    """A line of the report where a name doesn't tell whether Tunix has the model's family.

    `layers`: names among the target_modules that no family has, which may be meant for other models: a warning.
    """
    value = porting.recipe.values["model.id"]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    known = ", ".join(sorted({family.name for family in families()}))
    message = f"{name}: the name doesn't tell whether Tunix has this model's family; rt.load_model ends if it hasn't."
    fix = f"Look at architectures in its config.json. Families that port: {known}."
    if layers:
        message += f" target_modules has {layers}, which are layers of none that Tunix has."
    porting.find("TP302", "warning" if layers else "info", message, fix, line, column)


def _saved_by(porting: Training, name: str) -> str:
    """Another script of the project that saves into a folder `name` and trains adapters which it doesn't merge."""
    script = Path(porting.module.path).resolve()
    trains = _words_of_adapters(porting)
    saves = re.compile(rf"""{SAVES}\\?["'](?:\./)?{re.escape(name.removeprefix("./").rstrip("/"))}/?\\?["']""")
    left = MOST
    for folder in project_folders(script):
        for files in files_in(folder, ("*.py", "*.ipynb")):
            for file in files[:left]:
                left -= 1
                try:
                    text = read_text(file, LARGEST) if file != script else ""
                except (OSError, UnicodeDecodeError, InputError):
                    continue
                other = MERGES.search(text) or PORTS.search(text)
                if saves.search(text) and trains.search(text) and not other:
                    return file.name
    return ""


def _words_of_adapters(porting: Training) -> re.Pattern[str]:
    """What a script says that trains adapters: a class of their settings, a call or a keyword that puts them in."""
    tables = tables_of(porting)
    words = {name.rpartition(".")[2] for name, rule in tables.items() if rule.role == "lora"}
    words |= {name.rpartition(".")[2] for name in facts_of(porting.module).puts_in_adapters}
    trainers = [rule.table for rule in tables.values() if rule.role in ("trainer", "inject")]
    words |= {row.name for table in trainers for row in table.own.values() if row.place == "lora.config"}
    return re.compile(rf"\b(?:{'|'.join(sorted(words))})\b")
