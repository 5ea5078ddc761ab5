"""Names of single libraries in `porter/`: what is known of one stands in its pack; this list may only grow shorter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import porter

ROOT = Path(porter.__file__).resolve().parent
# Rooms that read and answer a source. The others are about libraries: what the port calls and is compared with, the
# releases of a day, the target.
ROOMS = ("engine", "source", "text", "packs", "front", "report", "safety")
LIBRARIES = """
    trl transformers peft accelerate bitsandbytes torch datasets unsloth deepspeed swanlab wandb vllm ray modal
    huggingface_hub
""".split()
OPTION = ("source_trl", "source-trl", "--source-trl")  # of the tool itself
OURS = re.compile(r"\brt\.\w+")  # the runtime's functions, which the port calls: `rt.apply_peft`
WORD = re.compile(rf"(?<![a-z0-9])({'|'.join(LIBRARIES)})(?![a-z0-9])", re.IGNORECASE)

# By file, the libraries that stand in its names and in its texts that are names, not sentences.
KNOWN: dict[str, str] = {
    "engine/dating/asked/together.py": "accelerate",
    "engine/dating/evidence/used.py": "peft transformers trl unsloth",
    "engine/dating/release.py": "transformers",
    "engine/dating/row_order.py": "accelerate transformers trl",
    "engine/dating/versions.py": "accelerate peft transformers trl",
    "engine/tokens/numpy_tokens.py": "torch",
    "engine/tokens/tokenizers.py": "transformers",
    "packs/launch.py": "accelerate deepspeed",
    "packs/runtime.py": "trl unsloth",
    "safety/masking.py": "wandb",
    "source/launch/deepspeed.py": "accelerate deepspeed",
    "source/launch/launch_config.py": "accelerate deepspeed",
    "source/launch/settings.py": "accelerate",
    "source/launch/usual_launch.py": "accelerate deepspeed",
    "source/launch/shell.py": "accelerate deepspeed torch",
    "source/notebooks/magics.py": "wandb",
    "source/project/modules.py": "accelerate bitsandbytes datasets deepspeed huggingface_hub peft ray swanlab "
    "torch transformers trl unsloth vllm wandb",
    "source/project/other_models.py": "unsloth",
}


def texts(tree: ast.Module) -> Iterator[str]:
    """Names of a file, also those that it imports under others, and its strings but for docstrings and sentences."""
    nodes = [*ast.walk(tree)]
    skipped: set[ast.AST] = set()
    lists: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            skipped.add(node.body[0].value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.JoinedStr) and any(re.search(r"\s", part) for part in pieces(node)):
            skipped.update(node.values)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            lists.add(node.func.value)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            if node in lists or not re.search(r"\s", re.sub(r"\[[^]]*\]", "", node.value)):  # `[ \t]` makes no sentence
                yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(alias.name for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def pieces(text: ast.JoinedStr) -> list[str]:
    """What stands between the values of an f-string."""
    return [str(part.value) for part in text.values if isinstance(part, ast.Constant)]


def found() -> dict[str, str]:
    names = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        known = {
            match[1].lower()
            for text in texts(tree)
            if text not in OPTION
            for match in WORD.finditer(OURS.sub("", text))
        }
        if known:
            names[path.relative_to(ROOT).as_posix()] = " ".join(sorted(known))
    return names


def test_no_file_learns_of_another_library() -> None:
    now = found()
    more = {file: names for file, names in now.items() if not {*names.split()} <= {*KNOWN.get(file, "").split()}}
    assert not more, f"what is known of a library is a rule, a table or a fact of its pack: {more}"
    fewer = {file: now.get(file, "") for file, names in KNOWN.items() if now.get(file, "") != names}
    assert not fewer, f"these know fewer libraries now: shorten KNOWN to {fewer}"
