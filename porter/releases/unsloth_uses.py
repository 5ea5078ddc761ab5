"""What Unsloth makes of the uses of TRL: which keywords its own classes take, and which classes stay TRL's."""

from __future__ import annotations

import ast
from collections.abc import Iterable

# What Unsloth adds to the configs that it writes anew; what else a script gives them has to be TRL's.
OF_UNSLOTH_S_CONFIGS = ("max_seq_length", "dataset_num_proc", "dataset_text_field", "packing", "vllm_sampling_params")


def before_unsloth(tree: ast.Module) -> frozenset[str]:
    """Names that a script takes from TRL in front of the first import of Unsloth: they stay TRL's own."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {node: _roots_of(node) for node in imports}
    first = min((node.lineno for node in imports if "unsloth" in roots[node]), default=0)
    taken = [node for node in imports if isinstance(node, ast.ImportFrom) and roots[node] == {"trl"}]
    return frozenset(alias.name for node in taken if node.lineno < first for alias in node.names)


def _roots_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def taken_by_unsloth(name: str, keywords: Iterable[str]) -> bool:
    """Whether Unsloth makes every release of TRL take these keywords of `name`: a trainer's all, a config's few."""
    return not name.endswith("Config") or all(keyword in OF_UNSLOTH_S_CONFIGS for keyword in keywords)
