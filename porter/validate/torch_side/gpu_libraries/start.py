"""Which GPU libraries have a substitute here, and how they are put in the place of those that are not installed."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Container
from typing import Any

from . import apex, bitsandbytes, deepspeed, flash_attention, generation, liger
from . import unsloth as unsloth

# Import name → what the verdict says of it; docs/stand-ins.md says what is not compared.
MODULES = {
    "apex": "apex: torch's own layers and optimizers computed what its fused ones compute",
    "bitsandbytes": "bitsandbytes: its layers were plain ones with the weights that it would compute with",
    "deepspeed": "DeepSpeed: one process without sharding, with torch's optimizer of the same formula",
    "flash_attn": "flash_attn: torch's scaled dot products computed what its kernels compute",
    "flash_attn_interface": "flash_attn: torch's scaled dot products computed what its kernels compute",
    "liger_kernel": "liger_kernel: the models' own layers computed what its kernels compute",
    "triton": "triton: kernels that the script writes itself can't be run here",
    "unsloth": "",  # it says more itself
    "unsloth_zoo": "",
    "vllm": "vllm: the trainer sampled its completions itself",
    "xformers": "xformers: torch's scaled dot products computed what its kernels compute",
}
# The versions that transformers and accelerate ask for.
VERSIONS = {"bitsandbytes": "0.46.1", "deepspeed": "0.17.0", "flash_attn": "2.8.3", "flash-attn": "2.8.3"}


def builders(note: Callable[[str], None], output: Callable[[Any], str]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Module name → what makes its names. Nothing is imported before a script imports the module."""
    return {
        **apex.modules(),
        **bitsandbytes.modules(),
        **deepspeed.modules(),
        **flash_attention.modules(),
        **generation.modules(),
        **liger.modules(),
        **unsloth.modules(note, output),
    }


def stand_in_gpu_libraries(missing: Container[str]) -> None:
    """What has to be in place before the script starts: versions, flags, what the trainer makes of DeepSpeed.

    `missing`: the libraries that are not installed.
    """
    _patch_versions()
    if "bitsandbytes" in missing:
        bitsandbytes.patch_availability()
        bitsandbytes.patch_flags()
    if "deepspeed" in missing:
        deepspeed.patch_config()
    deepspeed.patch_trainer()
    with contextlib.suppress(ImportError, AttributeError):
        # Cached, so that torch's compiler goes on believing it once a script has imported the stand-in.
        importlib.import_module("torch.utils._triton").has_triton_package()


def _patch_versions() -> None:
    """`importlib.metadata.version` knows a version of what stands in: old transformers ask before they quantise."""
    original = importlib.metadata.version

    @functools.wraps(original)
    def version(distribution_name: str) -> str:
        try:
            return original(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name in VERSIONS:
                return VERSIONS[distribution_name]
            raise

    importlib.metadata.version = version
