"""The one entry point: what surrounds a script (trackers, logins, secrets, GPUs) stands in, in either process."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Literal

from . import ipython, platforms, trackers
from .databases import stand_in_tables
from .finder import StandInFinder, append, hide_from_libraries
from .hub import patch_hub
from .nltk_data import stand_in_nltk_data
from .permissive import Permissive, answer

TENSORBOARD = "tensorboard"


def special() -> dict[str, Callable[[], dict[str, Any]]]:
    """Module name → the names in it that answer more than nothing."""
    found: dict[str, Callable[[], dict[str, Any]]] = {
        name: functools.partial(trackers.wandb, name) for name in ("wandb", "swanlab", "trackio")
    }
    return found | {
        "dotenv": platforms.dotenv,
        "IPython": ipython.ipython,
        "IPython.display": ipython.ipython_display,
        "google.colab.userdata": platforms.secrets,
        "kagglehub": platforms.kagglehub,
        "kfp.dsl": platforms.kfp,
        "kfp.v2.dsl": platforms.kfp,
        "knockknock": platforms.knockknock,
        "modal": platforms.modal,
        "modelscope": platforms.modelscope,
        "torch.utils.tensorboard": lambda: {"SummaryWriter": lambda *a, **k: Permissive("SummaryWriter")},
    }


def stand_in_world(
    substitutes: Any, side: Literal["source", "port"], sources: Sequence[str], work: str | Path
) -> StandInFinder:
    """Stand in for what is not installed or reachable, in this process; what was used is noted in `substitutes`.

    Call it first. The `source` gets substitutes of its GPU libraries besides, and `cuda` that is the CPU. `sources`
    are the texts of the script and its project: what they don't name needs no stand-in. Files that are made up go into
    the folder `work`.
    """
    note: Callable[[str], None] = substitutes.note
    computing: Mapping[str, str] = {}
    names = special()
    unknown: Callable[[str], Any] = answer
    missing: set[str] = set()
    tensorboard = importlib.util.find_spec(TENSORBOARD) is not None  # asked before the finder, which would answer
    if side == "source":
        from ..torch_side.gpu_libraries import start as gpu_libraries
        from ..torch_side.gpu_libraries.unknown import Unknown

        # Asked before the finder stands there, which would answer.
        missing = {name for name in gpu_libraries.MODULES if importlib.util.find_spec(name) is None}
        computing = {name: text for name, text in gpu_libraries.MODULES.items() if name in missing}
        made = gpu_libraries.builders(note, substitutes.output)
        names |= {name: build for name, build in made.items() if name.partition(".")[0] in missing}
        unknown = Unknown
    finder = StandInFinder(note, names, computing, unknown)
    append(finder)
    hide_from_libraries(finder)
    patch_hub(note)
    stand_in_tables(sources, note)
    stand_in_nltk_data(Path(work) / "nltk_data", sources, note)
    if not tensorboard:
        _stand_in_tensorboard(finder, sources)
    if side == "source":
        from ..torch_side.cuda.cuda import patch_cuda

        gpu_libraries.stand_in_gpu_libraries(missing)
        patch_cuda(substitutes, sources)
    return finder


def _stand_in_tensorboard(finder: StandInFinder, sources: Sequence[str]) -> None:
    """torch has `torch.utils.tensorboard` without tensorboard, and fails when it is imported."""
    name = "torch.utils.tensorboard"
    if any(name in source for source in sources):
        sys.modules.setdefault(name, finder.create_module(ModuleSpec(name, finder, is_package=True)))
