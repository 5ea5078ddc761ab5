"""What a local folder has of a model or an adapter: all of it, its settings alone, or only the names of its files."""

from __future__ import annotations

import json
from pathlib import Path

from ..data.missing_files import MissingFiles

LARGEST_LOCAL_MODEL = 2 * 2**30  # bytes of weights that two runs on a CPU can bear
WEIGHTS = ("*.safetensors", "*.bin")
SAVED_AS = (*WEIGHTS, "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf", "*.ckpt*")
OF_ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")


def holds_model(folder: Path) -> bool:
    """Whether there is a model, tokenizer or adapter that two runs on a CPU can bear, with all of its weights."""
    if not folder.is_dir() or not any(folder.iterdir()) or _lacks_weights(folder) or _only_configured(folder):
        return False
    return sum(file.stat().st_size for pattern in WEIGHTS for file in folder.glob(pattern)) <= LARGEST_LOCAL_MODEL


def _only_configured(folder: Path) -> bool:
    """Whether a folder of the project has all of a model but its weights, which are fetched before the script runs."""
    return (folder / "config.json").is_file() and not any(file for form in SAVED_AS for file in folder.glob(form))


def _lacks_weights(folder: Path) -> bool:
    """Whether weights that the folder speaks of aren't there, as in a repository that keeps them elsewhere: files that
    an index names, or what Git LFS leaves in place of one."""
    named = {file for pattern in WEIGHTS for file in folder.glob(pattern)}
    for index in folder.glob("*.index.json"):
        try:
            named |= {folder / str(name) for name in json.loads(index.read_text("utf-8"))["weight_map"].values()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            continue
    # Weights may be there in one of two forms: an index of each, and files of one.
    forms = {suffix: [file for file in named if file.suffix == suffix] for suffix in {file.suffix for file in named}}
    return bool(forms) and not any(all(MissingFiles.there(str(file)) for file in files) for files in forms.values())


def lacks_adapter(folder: Path) -> bool:
    """Whether an adapter's settings are there without its weights, as in a repository that keeps them elsewhere."""
    if not (folder / "adapter_config.json").is_file() or (folder / "config.json").is_file():
        return False
    return not any(MissingFiles.there(str(folder / name)) for name in OF_ADAPTERS)
