"""Hugging Face checkpoints and Tunix parameters: the same numbers under other names and in another shape."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..facts.family import Family, Tensor
from . import torch_files

# What Tunix's loader can read; integers are quantised weights.
READABLE = ("F32", "BF16", "F16")
_SHOWN = 8


@dataclass(frozen=True)
class Header:
    """A tensor as its file announces it, by safetensors' name of its type."""

    dtype: str
    shape: tuple[int, ...]
    file: str


def to_tunix(tensor: Tensor, array: Any) -> Any:
    """A checkpoint's array (numpy or JAX) in Tunix's shape: one slot of it when the Tunix parameter is fused."""
    return array.reshape(tensor.split).transpose(tensor.order)


def to_hf(tensor: Tensor, array: Any) -> Any:
    """The inverse of `to_tunix`: this tensor out of the whole Tunix parameter (numpy or JAX)."""
    part = array[tensor.slot] if tensor.slots > 1 else array
    return part.transpose(tuple(np.argsort(tensor.order))).reshape(tensor.shape_hf)


def read_headers(folder: Path) -> dict[str, Header]:
    """Name → header of every tensor in the folder's safetensors files, else in torch's; no weights are read.

    Raises FileNotFoundError without such files, ImportError where torch's are there and torch isn't, ValueError when
    two files hold the same tensor.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob(torch_files.PATTERN))
    if not files:
        raise FileNotFoundError(
            f"{folder} holds no *.safetensors, and no {torch_files.PATTERN} either, which is taken from the Hub where "
            f"torch is installed. {torch_files.WRITE_ANEW}"
        )
    found: dict[str, Header] = {}
    for file in files:
        for name, (dtype, shape) in _entries(file).items():
            if name in found:
                raise ValueError(
                    f"{folder}: {name} is in {found[name].file} and in {file.name}: remove one of the files"
                )
            found[name] = Header(dtype, shape, file.name)
    return found


def _entries(file: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name → dtype and shape of the tensors in a file."""
    if is_torchs(file):
        tensors = torch_files.tensors_in(file)
        return {name: (torch_files.dtype_name(tensor), tuple(tensor.shape)) for name, tensor in tensors.items()}
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        entries = json.loads(stream.read(length))
    entries.pop("__metadata__", None)
    return {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in entries.items()}


def is_torchs(file: str | Path) -> bool:
    """Whether a file of weights is torch's, else safetensors'."""
    return str(file).endswith(".bin")


@contextmanager
def opened(file: Path) -> Iterator[Callable[[str], np.ndarray]]:
    """What reads a tensor of a file by its name, in the type that it has there."""
    if is_torchs(file):
        tensors = torch_files.tensors_in(file)
        yield lambda name: torch_files.as_numpy(tensors[name])
        return
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as found:
        yield found.get_tensor


@dataclass(frozen=True)
class Plan:
    """How a checkpoint fills a Tunix model: what `load_and_create_model` of Tunix's safetensors loader asks for.

    `tensors`: name in the checkpoint → Tensor. `absent`: parameters that Tunix has and never reads, which the
    checkpoint leaves out. `other`: names outside the text model (a vision tower, a tied head). `mixed`: files with
    more than one dtype, which the loader's fast mode would read wrongly.
    """

    tensors: Mapping[str, Tensor]
    absent: tuple[Tensor, ...]
    other: tuple[str, ...]
    mixed: bool

    def key_mapping(self, config: Any) -> dict[str, tuple[str, tuple[Any, tuple[int, ...]]]]:
        """Pattern of checkpoint names → (Tunix key, (permutation, shape)); permuting is left to `preprocess`.

        One pattern for the same tensor of all layers: the loader tries every pattern on every name.
        """
        layers: dict[tuple[str, str, tuple[int, ...]], list[str]] = {}
        for name, tensor in self.tensors.items():
            index = tensor.tunix.split("/")[1] if tensor.tunix.startswith("layers/") else ""
            hf, key = name, _key(tensor)
            if index:
                hf = name.replace(f"layers.{index}.", "layers.{i}.", 1)
                key = key.replace(f"layers.{index}.", r"layers.\1.", 1)
            layers.setdefault((hf, key, tensor.split), []).append(index)
        return {
            hf.replace(".", r"\.").replace("{i}", f"({'|'.join(indices)})") + "$": (key, (None, split))
            for (hf, key, split), indices in layers.items()
        }

    def preprocess(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """The loader's `preprocess_fn`: transposes, and stacks fused tensors, which may come from several files."""
        by_key = {_key(tensor): tensor for tensor in self.tensors.values()}
        waiting: dict[str, dict[int, Any]] = {}
        absent = list(self.absent)

        def preprocess(arrays: dict[str, Any]) -> dict[str, Any]:
            done: dict[str, Any] = {}
            for key, array in arrays.items():
                tensor = by_key[key]
                path, part = tensor.tunix.replace("/", "."), array.transpose(tensor.order)
                if tensor.slots == 1:
                    done[path] = part
                    continue
                slots = waiting.setdefault(path, {})
                slots[tensor.slot] = part
                if len(slots) == tensor.slots:
                    parts = [slots[i] for i in range(tensor.slots)]
                    done[path] = _stack(parts)
                    del waiting[path]
            while absent:
                tensor = absent.pop()
                done[tensor.tunix.replace("/", ".")] = np.zeros(tensor.shape_tunix, np.float32)
            return done

        return preprocess


def plan(family: Family, config: Mapping[str, Any], headers: Mapping[str, Header], where: str) -> Plan:
    """Which tensor of the checkpoint goes where. `where` names the checkpoint in the error.

    Raises ValueError that names every missing tensor, every tensor of the text model that has no place, every wrong
    shape and every dtype that cannot be read.
    """
    sizes = family.sizes(config)
    own = family.table.get("hf_model" + ("_multimodal" if sizes["multimodal"] else ""), "model") + "."
    prefixes = family.table.get("prefixes", [own])
    prefix = next((p for p in prefixes if f"{p}embed_tokens.weight" in headers), own)
    expected = {prefix + t.hf.removeprefix(own) if t.hf.startswith(own) else t.hf: t for t in family.tensors(sizes)}
    missing = [name for name, t in expected.items() if name not in headers and not t.unused]
    absent = {t.tunix: t for name, t in expected.items() if name not in headers and t.unused}
    there = {name: t for name, t in expected.items() if name in headers and t.tunix not in absent}
    rest = [name for name in headers if name not in expected and not name.endswith("rotary_emb.inv_freq")]
    homeless = [name for name in rest if name.startswith((prefix + "layers.", prefix + "embed", prefix + "norm"))]
    shapes = [
        f"{name} is {headers[name].shape}, not {t.shape_hf}"
        for name, t in there.items()
        if headers[name].shape != t.shape_hf
    ]
    dtypes = [f"{name} is {headers[name].dtype}" for name in there if headers[name].dtype not in READABLE]
    problems = [
        _listed("missing", missing),
        _listed(f"no place in Tunix's {family.model_class}", homeless),
        _listed("wrong shape", shapes),
        _listed("quantised or unreadable", dtypes),
    ]
    if any(problems):
        said = "\n  ".join(p for p in problems if p)
        raise ValueError(f"{where} does not fit its config.json ({family.name}):\n  {said}")
    by_file: dict[str, set[str]] = {}
    for header in headers.values():
        by_file.setdefault(header.file, set()).add(header.dtype)
    other = tuple(name for name in rest if name not in homeless)
    return Plan(there, tuple(absent.values()), other, any(len(dtypes) > 1 for dtypes in by_file.values()))


def _key(tensor: Tensor) -> str:
    return tensor.tunix.replace("/", ".") + (f"#{tensor.slot}" if tensor.slots > 1 else "")


def _stack(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.stack(parts)
    import jax.numpy as jnp

    return jnp.stack(parts)


def _listed(what: str, names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}: {', '.join(names[:_SHOWN])}{more}" if names else ""
