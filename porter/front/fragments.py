"""Cases of a few lines: what an idiom changes in the port of a standard script.

`cases/NAME.toml` says what the script has more, and which lines its port has more (`adds`) and lacks (`takes`) beside
the standard script's own port. Nothing else may differ. `rule` is the id that it shows, on whose page it stands.

    rule = "TP104"
    config = "neftune_noise_alpha=5.0"          # further keywords of SFTConfig(...)
    adds = '''
    neftune_noise_alpha=5.0,
    '''

    [[more]]                                    # the same with another trainer
    kind = "DPO"
    status = "partial"
    findings = ["TP104"]

Another case of the folder takes the standard script's place with `of`, and `swaps` says what stands in it instead:

    of = "loop_plain"                           # cases/loop_plain/before.py
    swaps = [["get_linear_schedule", "get_cosine_schedule"]]

With `notebook = true` the script is the one cell of a notebook, and may have shell lines.
"""

from __future__ import annotations

import difflib
import json
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..port import Options, Port
from .port_file import port_file

PARTS = ("imports", "setup", "model", "config", "trainer", "behind")
KINDS = ("SFT", "DPO", "ORPO", "CPO", "KTO", "GRPO", "RLOO")
KEYS = ("rule", "kind", "notebook", *PARTS, "of", "swaps", "adds", "takes")

SCRIPT = """\
{imports}from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import {kind}Config, {kind}Trainer

{setup}model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16"{model})
trainer = {kind}Trainer(
    model,
    args={kind}Config(output_dir="out", max_steps=5, report_to="none"{config}),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"){trainer},
)
trainer.train()
{behind}"""


def read_fragments(case: Path) -> list[dict[str, Any]]:
    """The cases of a file: what it says, and each `[[more]]` over that; `of` is that case's script itself.

    InputError for what is no fragment.
    """
    try:
        data = tomllib.loads(case.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is no TOML: {error}", case, fix="mend it") from None
    more = data.pop("more", [])
    kept = {name: value for name, value in data.items() if name in (*PARTS, "notebook")}
    found = [data, *({**kept, **further} for further in more)]
    for each in found:
        if each.get("kind", "SFT") not in KINDS:
            raise InputError(f"kind is {each['kind']!r}", case, fix=f"use one of {', '.join(KINDS)}")
        if "of" in each:
            each["of"] = _script(case, each)
        elif not any(part in each for part in PARTS):
            raise InputError("says nothing that the script has more", case, fix=f"give one of {', '.join(PARTS)}")
    return found


def _script(case: Path, data: Mapping[str, Any]) -> str:
    """The script of the case that another one is of. InputError where it is none, or lacks what is swapped."""
    file = case.parent / str(data["of"]) / "before.py"
    if not file.is_file():
        raise InputError(f"of is {data['of']!r}, and {file} isn't there", case, fix="name a folder of cases/")
    text, swaps = file.read_text("utf-8"), data.get("swaps", [])
    pairs = isinstance(swaps, list) and all(isinstance(swap, list) and len(swap) == 2 for swap in swaps)
    if not swaps or not pairs or any(not isinstance(word, str) for swap in swaps for word in swap):
        raise InputError("swaps is no list of pairs of texts", case, fix='write swaps = [["old", "new"]]')
    for old, _ in swaps:
        if old not in text:
            raise InputError(f"swaps {old!r}, which {file} doesn't have", case, fix="swap what stands in it")
    return text


def script_of(data: Mapping[str, Any]) -> str:
    """The standard script with the case's parts in it, or another case's with the swaps made."""
    if "of" in data:
        text = str(data["of"])
        for old, new in data.get("swaps", ()):
            text = text.replace(old, new)
        return text
    lines = {part: str(data.get(part, "")).strip("\n") for part in PARTS}
    whole = {name: f"{lines[name]}\n" if lines[name] else "" for name in ("imports", "setup", "behind")}
    inner = {name: f", {lines[name]}" if lines[name] else "" for name in ("model", "config", "trainer")}
    return SCRIPT.format(kind=data.get("kind", "SFT"), **whole, **inner)


def port_fragment(data: Mapping[str, Any], options: Options) -> tuple[Port, Port]:
    """The ports of the script with the case's parts, and without them but for a `trainer=` that its kind needs."""
    bare = {"of": data["of"]} if "of" in data else {"kind": data.get("kind", "SFT")}
    if bare.get("kind") in ("GRPO", "RLOO"):
        bare |= {name: data[name] for name in ("trainer",) if name in data}
    write = _notebook_of if data.get("notebook") else str
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.ipynb" if data.get("notebook") else "train.py")
        ports = []
        for parts in (data, bare):
            path.write_text(write(script_of(parts)), encoding="utf-8")
            ports.append(port_file(path, options))
        return ports[0], ports[1]


def _notebook_of(text: str) -> str:
    """The notebook whose one cell holds a script."""
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def differences(data: Mapping[str, Any], port: Port, base: Port) -> Iterator[str]:
    """Where the lines that the port has more, or lacks, are others than the case says."""
    adds: list[str] = []
    takes: list[str] = []
    for line in difflib.unified_diff(base.after.splitlines(), port.after.splitlines(), lineterm="", n=0):
        if line[:3] in ("---", "+++") or line[:2] == "@@" or not line[1:].strip():
            continue
        (adds if line[0] == "+" else takes).append(line[1:].strip())
    for name, found in (("adds", adds), ("takes", takes)):
        wanted = [line.strip() for line in str(data.get(name, "")).splitlines() if line.strip()]
        if wanted != found:
            yield "\n".join(difflib.unified_diff(wanted, found, f"{name}, expected", f"{name}, ported", lineterm=""))


def again(port: Port, options: Options) -> str:
    """What porting the port changes; empty where nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.ipynb" if port.notebook else "train.py")
        path.write_bytes(port.data)
        found = port_file(path, options).edits
    return f"porting the port changes it, first at line {found[0].line} by {found[0].rule}" if found else ""
