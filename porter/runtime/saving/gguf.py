"""The trained model as a GGUF file, which llama.cpp and Ollama read: what Unsloth's `save_pretrained_gguf` writes.

The merged model and its tokenizer are written first, then llama.cpp's own converter and `llama-quantize` make the file
of them, as Unsloth has them do. Unsloth fetches and builds llama.cpp by itself; here it has to be there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
from flax import nnx

from .merging import merge_and_unload
from .save_model import save_model

# Of llama-quantize; Unsloth's own names for three of them are in UNSLOTH_NAMES.
METHODS = frozenset(
    "f32 bf16 f16 q8_0 q4_k_m q5_k_m q2_k q3_k_l q3_k_m q3_k_s q4_0 q4_1 q4_k_s q4_k q5_k q5_0 q5_1 q5_k_s q6_k".split()
)
UNSLOTH_NAMES = {"fast_quantized": "q8_0", "quantized": "q4_k_m"}
OLDER = ("folder", "name")  # layouts of Unsloth before 2025.10.2, whose 16-bit file stays
CONVERTED = ("q8_0", "bf16", "f16", "f32")  # what the converter writes itself, the smallest first
BY_HAND = """\
git clone --depth 1 https://github.com/ggml-org/llama.cpp
cmake -S llama.cpp -B llama.cpp/build -DLLAMA_CURL=OFF && cmake --build llama.cpp/build --target llama-quantize -j
python -m venv llama.cpp/.venv
llama.cpp/.venv/bin/pip install -r llama.cpp/requirements/requirements-convert_hf_to_gguf.txt"""


class LlamaCpp(NamedTuple):
    """Where llama.cpp's two programs are, and the Python that has what the converter imports."""

    python: str
    converter: str
    quantizer: str


def save_gguf(
    model: nnx.Module,
    save_directory: str | Path,
    tokenizer: Any,
    quantization_method: str | Sequence[str] = "fast_quantized",
    *,
    unquantized: bool = False,
    layout: Literal["name", "folder", "working folder", "folder beside"] = "folder beside",
) -> list[str]:
    """Write the merged model and `tokenizer` to `save_directory`, and a GGUF file of it for each method.

    `unquantized`: as in `merge_and_unload`. `layout`: the files are `save_directory/unsloth.Q4_K_M.gguf`, beside the
    16-bit one that they are made of (Unsloth before 2025.10.2; before 20 June 2024 `save_directory` +
    `-unsloth.Q4_K_M.gguf`, "name"), `MODEL.Q4_K_M.gguf` in the working folder (before 2026.2), or that in the folder
    `save_directory` + "_gguf". No Modelfile is written. All processes call this; the first one converts. Returns the
    files' paths. ValueError for an unknown method, before anything is written; RuntimeError where llama.cpp isn't found
    or can't do it: the merged model is saved then.
    """
    methods = [quantization_method] if isinstance(quantization_method, str) else list(quantization_method)
    plain = "bf16" if layout in OLDER else "f16"
    methods = [UNSLOTH_NAMES.get(name.lower(), plain if name == "not_quantized" else name.lower()) for name in methods]
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"{unknown[0]!r} is no method of GGUF files here; there are {', '.join(sorted(METHODS))}")
    folder = Path(save_directory)
    if getattr(model, "lora", None) is None:
        save_model(model, folder)
    else:
        merge_and_unload(model, unquantized=unquantized).save_pretrained(folder)
    if jax.process_index() != 0:
        return []
    _save_tokenizer(tokenizer, folder)
    try:
        return _convert(find_llama_cpp(), folder, Path(model.porter.id).name, methods, layout)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"{error}\nThe merged model is saved in {folder}, no GGUF file is made of it.") from error


def find_llama_cpp() -> LlamaCpp:
    """llama.cpp in $UNSLOTH_LLAMA_CPP_PATH, else in the working folder or ~/.unsloth.

    FileNotFoundError where it isn't built.
    """
    named = os.environ.get("UNSLOTH_LLAMA_CPP_PATH")
    for home in [Path(named)] if named else [Path("llama.cpp"), Path.home() / ".unsloth" / "llama.cpp"]:
        home = home.absolute()
        converter = home / "convert_hf_to_gguf.py"
        quantizers = [home / "build" / "bin" / "llama-quantize", home / "llama-quantize"]
        built = next((str(path) for path in quantizers if os.access(path, os.X_OK)), shutil.which("llama-quantize"))
        if converter.is_file() and built is not None:
            own = home / ".venv" / "bin" / "python"
            return LlamaCpp(str(own) if own.exists() else sys.executable, str(converter), built)
    raise FileNotFoundError(f"GGUF files are made by llama.cpp, which isn't here. In the working folder:\n{BY_HAND}")


def _convert(tools: LlamaCpp, folder: Path, name: str, methods: list[str], layout: str) -> list[str]:
    """The 16-bit file, then each method's from it; the paths of what stays."""
    older = layout in OLDER
    target = {"name": folder.parent, "folder": folder, "working folder": Path()}.get(
        layout, folder.with_name(f"{folder.name}_gguf")
    )
    stem = {"name": f"{folder.name}-unsloth", "folder": "unsloth"}.get(layout, name)
    target.mkdir(parents=True, exist_ok=True)

    def path(method: str) -> Path:
        return (target / f"{stem}.{method.upper()}.gguf").absolute()

    first = "bf16"
    if older:  # the widest that is asked for; q8_0 alone is converted at once, but for the oldest
        first = (
            "q8_0"
            if methods == ["q8_0"] and layout != "name"
            else max([first, *(set(methods) & set(CONVERTED))], key=CONVERTED.index)
        )
    base = path(first)
    _run(tools.python, tools.converter, str(folder), "--outfile", str(base), "--outtype", first)
    made = [path(method) for method in methods if method != first]
    for method in methods:
        if method != first:
            _run(tools.quantizer, str(base), str(path(method)), method)
    if made and not older and first not in methods:
        base.unlink()
        return [str(file) for file in made]
    return [str(base), *map(str, made)]


def _run(*command: str) -> None:
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True)


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """The tokenizer, its chat template without a start token where the tokenizer adds one: llama.cpp adds it, too."""
    template = getattr(tokenizer, "chat_template", None)
    adds = tokenizer("A").input_ids[0] == getattr(tokenizer, "bos_token_id", None)
    if adds and isinstance(template, str) and _begins(template, tokenizer.bos_token):
        without = re.sub(r"\{\s*\{\s*bos_token\s*\}\s*\}", "", template)
        tokenizer.chat_template = re.sub(r"\{\s*\{\s*bos_token\s*\+\s*", "", without)
    try:
        tokenizer.save_pretrained(folder)
    finally:
        if template is not None:
            tokenizer.chat_template = template


def _begins(template: str, bos: str) -> bool:
    """Whether a chat template writes the start token, as Unsloth asks."""
    squeezed = template.replace(" ", "")
    return bos in template or "{bos_token}" in squeezed or "{bos_token+" in squeezed
