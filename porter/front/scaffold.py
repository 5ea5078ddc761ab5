"""A new pack to start from: a table, a rewrite, a rule and their cases, which pass as they are.

The pack teaches tpu-port a company's wrapper of `LoraConfig` with other defaults, a function that has no use on a
TPU, and a callback. Everything in it is an example to be replaced.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from ..errors import InputError
from ..port import Options
from .port_file import port_file

MANIFEST = """\
name = "{name}"
version = "0.1.0"
rules = ["*.py"]  # the Python rules: what a call on the trainer or the model becomes, and the like

# The versions of your library that this pack was written for.
[reads]
{module} = ">=1.0"

# A class whose keywords a table reads. role: arguments, lora, model, inject, trainer.
[[table]]
id = "{id}101"
title = "{Name}LoraConfig: our LoraConfig with our defaults"
file = "tables/lora_config.toml"
role = "lora"

# A small idiom beside the recipe. action: remove, replace, import, refuse, never, always.
[[rewrite]]
id = "{id}301"
match = ["{module}.notify()"]
action = "remove"
reason = "the notifier runs on our GPU cluster only"
"""

TABLE = """\
class = "{module}.{Name}LoraConfig"
also = ["{module}.training.{Name}LoraConfig"]
extends = "peft.LoraConfig"  # every row that isn't given here
library = "{module}"
newest = "1.0"

# fate: exact, changed, dropped or manual, with a reason unless it is exact. `tpu-port rules show TP201` has all rows.
[fields.r]
place = "lora.r"
fate = "exact"
target = "rank of the Qwix rules, times the parts of a fused layer"
type = "int"
default = {{ "1.0" = "32" }}
help = "Rank of the adapters."

[fields.lora_alpha]
place = "lora.alpha"
fate = "exact"
target = "alpha of the Qwix rules"
type = "int"
default = {{ "1.0" = "64" }}
help = "Scale of the adapters."

[fields.team]
place = ""
fate = "dropped"
target = ""
reason = "It is a label for our accounting."
type = "str"
default = {{ "1.0" = "'none'" }}
help = "Who pays."
"""

RULE = '''\
"""trainer.add_callback({Name}Progress()) → gone.

What it does: takes out our progress bar.
Why: the port logs by itself, with rt.log_every.
Example: `trainer.add_callback({Name}Progress())`
Use instead: nothing
Safety: exact. Other callbacks are left to tpu-port's own rule, TP360.
"""

from porter.packs.api import made_by

ID = "{id}201"
MATCHES = ("@trainer.add_callback()",)
POSITIONAL = ("callback",)
INSTEAD_OF = ("TP360",)
PROGRESS = ("{module}.{Name}Progress", "{module}.training.{Name}Progress")


def apply(site, porting):
    callback = site.argument("callback")
    if callback is None or made_by(porting, callback.node) not in PROGRESS:
        return porting.NOT_MINE
    porting.remove_statement(site.node, ID, "the port logs by itself")
'''

BEFORE = '''\
"""Train with our own settings."""
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

from {module} import {Name}LoraConfig, {Name}Progress, notify

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", max_steps=100),
    train_dataset=dataset,
    peft_config={Name}LoraConfig(team="research"),
)
trainer.add_callback({Name}Progress())
trainer.train()
notify("done")
'''

SAME = '''\
"""Classes of the same name that aren't ours: nothing here may change."""


class {Name}LoraConfig:
    rank = 8


def notify(text):
    print(text)


config = {Name}LoraConfig()
notify("done")
'''

FILES = {
    "pack.toml": MANIFEST,
    "tables/lora_config.toml": TABLE,
    "progress.py": RULE,
    "cases/settings/before.py": BEFORE,
    "cases/same_names.py": SAME,
}


def new_pack(path: Path) -> list[Path]:
    """Write a pack into `path`, a folder that doesn't exist or is empty, and return its files.

    The case's `after.py` is what tpu-port makes of its `before.py` now: read it, it is what the test holds on to.
    InputError when the folder isn't empty or its name makes no Python name.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError("exists and is not empty", path, fix="name a new folder")
    names = _names(path)
    written = [path / name for name in FILES]
    try:
        for file, template in zip(written, FILES.values(), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(template.format(**names), encoding="utf-8")
        before = path / "cases" / "settings" / "before.py"
        after = before.with_name("after.py")
        after.write_bytes(port_file(before, Options(rules=(path,))).data)
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", path) from error
    return [*written, after]


def _names(path: Path) -> dict[str, str]:
    """The pack's name as it is written in each place: `our-rules` → `our_rules`, `OurRules`, `OURRULES`."""
    name = path.resolve().name
    module = re.sub(r"\W+", "_", name).strip("_").lower()
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise InputError("its name makes no Python name", path, fix="use letters, digits and hyphens: our-rules")
    camel = "".join(part.capitalize() for part in module.split("_"))
    return {"name": name, "module": module, "Name": camel, "id": module.replace("_", "").upper()}
