"""model.save_pretrained_gguf(folder, tokenizer) → `rt.save_gguf(model, folder, tokenizer)`.

What it does: the model with its adapters merged in and its tokenizer are written, and llama.cpp makes the GGUF file of
them, under the name and in the folder of Unsloth's release.
Why: Tunix's model has no such method.
Example: `model.save_pretrained_gguf("out", tokenizer, quantization_method="q4_k_m")`
Use instead: `rt.save_gguf(model, "out", tokenizer, "q4_k_m")`
Safety: exact up to the rounding of the merge. Of a base held in 4 bits Unsloth from 2025.10.2 on adds the adapters to
the 16-bit checkpoint (`unquantized=True`), earlier releases to the weights that they were trained on. Unsloth fetches
and builds llama.cpp by itself, the port needs it there; Ollama's Modelfile isn't written. A script that reads it, a
`first_conversion=` and uploads are findings.
"""

import datetime
import re

import libcst as cst

from porter.packs.script import last_day, release_of

from ._release import is_before
from .merged import is_quantized

ID = "TP722"
MATCHES = ("@model.save_pretrained_gguf()",)
POSITIONAL = ("save_directory", "tokenizer", "quantization_method")
INSTEAD_OF = ("TP714",)
BESIDE = "2025.10.2"  # from here on by unsloth_generic_save: files elsewhere, made of the 16-bit checkpoint
IN_FOLDER = ("2024.6", datetime.date(2024, 6, 20))  # from here on in the folder; before, its name began theirs
WITHOUT_EFFECT = frozenset({"maximum_memory_usage", "temporary_location", "max_shard_size", "safe_serialization"})
FIX = "Build llama.cpp beside the port or in ~/.unsloth; `rt.save_gguf` says the commands where it isn't there."


def apply(site, porting):
    folder, tokenizer = site.argument("save_directory"), site.argument("tokenizer")
    named = {argument.name for argument in site.arguments} - WITHOUT_EFFECT
    if folder is None or tokenizer is None or site.unknown_keywords or not named <= set(POSITIONAL):
        return porting.NOT_MINE
    if not isinstance(porting.module.parents[site.node], cst.Expr):
        return porting.NOT_MINE  # newer releases give back where the files are
    if re.search(r"""/Modelfile["']""", porting.module.text):
        message = "model.save_pretrained_gguf(...): the port writes no Modelfile for Ollama, and the script uses it."
        fix = "Write one by hand (`FROM ./FILE.gguf` and a template) behind rt.save_gguf(model, folder, tokenizer)."
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    method, layout = site.argument("quantization_method"), _layout(porting, folder)
    given = [porting.module.code(site.node.func.value), folder.text, tokenizer.text]
    given += [method.text] if method is not None else []
    older = is_before(porting, BESIDE) or (layout in ("folder", "name") and release_of(porting, "unsloth") is None)
    given += ["unquantized=True"] if is_quantized(porting) and not older else []
    given += [f'layout="{layout}"'] if layout is not None else []
    new = f"{porting.rt('save_gguf')}({', '.join(given)})"
    porting.edit(*porting.module.span(site.node), new, ID, "the same weights, converted by llama.cpp")
    message = (
        "rt.save_gguf needs llama.cpp on the TPU machine, which Unsloth builds by itself, and writes no Modelfile."
    )
    porting.find(ID, "warning", message, FIX, site.line, site.column)


def _layout(porting, folder):
    """Where Unsloth's release puts the files, and how it names them; None for the newest, the runtime's default.

    A script that looks for `unsloth.Q4_K_M.gguf`, or for such files in the folder itself, was written for an older one.
    """
    name, pinned, day = re.escape(folder.text.strip("\"'")), release_of(porting, "unsloth"), last_day(porting)
    if re.search(rf"{name}-unsloth\.\w+\.gguf", porting.module.text):
        return "name"
    own = rf"""unsloth\.\w+\.gguf|["']{name}/[^"'\n]*\.gguf|\b(?:listdir|scandir|walk|Path)\(["']{name}/?["']\)"""
    if re.search(own, porting.module.text) or is_before(porting, BESIDE):
        old = is_before(porting, IN_FOLDER[0]) if pinned is not None else day is not None and day < IN_FOLDER[1]
        return "name" if old and not re.search(own, porting.module.text) else "folder"
    return "working folder" if is_before(porting, "2026.2") else None
