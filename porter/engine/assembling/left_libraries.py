"""Libraries of the GPU side that the port still needs: what it imports, and what transformers loads models with."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Sequence

from ...text.edit import Edit
from ...text.edits import apply_edits
from ...text.import_lines import STRING

# Classes and functions of transformers that are nothing without torch.
WITH_TORCH = re.compile(
    r"\b(?P<name>AutoModel\w*|AutoPeftModel\w*|\w+For(?:CausalLM|ConditionalGeneration|SequenceClassification|"
    r"TokenClassification)|PeftModel|pipeline)(?P<method>\.from_pretrained|\.from_config)?\("
)
# Keywords of such calls, and the libraries without which transformers raises.
KEYWORDS = {
    r"device_map|low_cpu_mem_usage|tp_plan|offload_folder|max_memory": ("accelerate",),
    r"load_in_4bit|load_in_8bit": ("accelerate", "bitsandbytes"),
    r"quantization_config": ("accelerate",),
}
QUANTISES = re.compile(r"\bBitsAndBytesConfig\(")
FLASH = re.compile(r"""attn_implementation["']?\s*[=:]\s*["']flash_attention_2["']""")
ADAPTS = re.compile(r"\.(?:load_adapter|add_adapter)\(")
SAVES_ADAPTERS = re.compile(r"\brt\.(?:apply_lora|apply_peft|save_adapter)\(")
TRAINS = re.compile(r"(?<![\w.])(?:transformers\.)?(?:Seq2Seq)?Trainer\(")
# A file of Python that the script names, which it may write and run.
PYTHON_FILE = re.compile(r"""[\w-]\.py["']""")


def libraries_left(text: str, edits: Sequence[Edit], known: Collection[str]) -> frozenset[str]:
    """The packages among `known` that a text needs once its edits are made."""
    after = apply_edits(text, edits)
    code = _without_texts(after)
    modules = {name: name.replace("-", "_") for name in known}
    said = {name: module for name, module in modules.items() if module in code}
    others = r"(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*"  # `import torch, trl as t, accelerate`
    imports = rf"(?m)^\s*(?:import[ \t]+{others}|from[ \t]+)"
    found = {name for name, module in said.items() if re.search(rf"{imports}{module}\b", code)}
    if re.search(r"(?m)^\s*(?:import|from)\s+(?:transformers|peft)\b", code) is None:
        return frozenset(found)
    for call in WITH_TORCH.finditer(code):
        if call["method"] is None and call["name"] != "pipeline":
            continue
        given = _inside(code, call.end())
        found.add("torch")
        if call["method"] != ".from_config" and SAVES_ADAPTERS.search(code):
            found.add("peft")  # with which transformers loads a folder or repository that holds adapters alone
        for keywords, libraries in KEYWORDS.items():
            if re.search(rf"\b(?:{keywords})\s*=", given):
                found.update(libraries)
        if "quantization_config" in given and QUANTISES.search(code):
            found.add("bitsandbytes")
        if FLASH.search(given):
            found.add("flash-attn")
    if "torch" in found and ADAPTS.search(code):
        found.add("peft")
    if TRAINS.search(code) and re.search(r"(?m)^\s*from\s+transformers\s+import\b[^#]*\bTrainer\b", code):
        found |= {"torch", "accelerate"}
    return frozenset(found & set(known))


def _without_texts(code: str) -> str:
    """Code without its texts of several lines, such as a model card with an example; a program that stands in one stays
    where the code names files of Python, since it may write and run it.
    """
    writes = PYTHON_FILE.search(code) is not None

    def kept(match: re.Match[str]) -> str:
        return match[0] if "\n" not in match[0] or (writes and _is_program(match[2])) else match["prefix"] + '""'

    return STRING.sub(kept, code)


def _is_program(quoted: str) -> bool:
    try:
        ast.parse(textwrap.dedent(quoted.strip("\"'")))
    except (SyntaxError, ValueError):
        return False
    return True


def _inside(text: str, start: int) -> str:
    """What stands between the parentheses of a call, the first of which ends at `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]
