"""Weights of the script's own modules that aren't here: `scorer.load_state_dict(torch.load("best.pth"))`.

The module gets random ones, by the names of its parameters, so that it computes the same on both sides.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.missing_files import handled
from ..data.plan import users_frame

if TYPE_CHECKING:
    from ..substitutes import Substitutes

OF_TORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")
LOADS = re.compile(r"\btorch\.load\(")
SPREAD = 0.02


class MissingWeights(dict[str, Any]):
    """What `torch.load` gives for a file that isn't there: nothing, by whatever name it is asked."""

    def __missing__(self, key: str) -> MissingWeights:
        return self


def stand_in_weights(substitutes: Substitutes) -> None:
    """Let the script's modules load weights that aren't here, in this process, where its project loads such files."""
    texts = substitutes.settings.sources
    if not any(LOADS.search(text) and "load_state_dict(" in text for text in texts):
        return
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    load, set_state = torch.load, torch.nn.Module.load_state_dict
    missing: list[str] = []

    @functools.wraps(load)
    def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, str | os.PathLike) and Path(f).suffix in OF_TORCH and not os.path.exists(f):
            given = substitutes.missing.given_for(str(f)) if substitutes.missing.given else None
            frame = users_frame(("torch",))
            weights = frame is not None and "load_state_dict" in frame.f_code.co_names  # else they are data, or a state
            if given is None and frame is not None and weights and not handled(frame):
                missing.append(substitutes.missing.name_of(str(f)))
                return MissingWeights()
            f = given or f
        return load(f, *args, **kwargs)

    @functools.wraps(set_state)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if not missing or state_dict:  # an empty one is what the script makes of one that isn't there
            return set_state(self, state_dict, *args, **kwargs)
        fill(self)
        substitutes.note(f"random weights stood in for {missing[-1]}, which is not there, in {type(self).__name__}")
        return torch.nn.modules.module._IncompatibleKeys([], [])

    torch.load, torch.nn.Module.load_state_dict = loaded, load_state_dict


def fill(module: Any) -> None:
    """Give a module's parameters random values that follow from their names."""
    import torch

    for name, weight in module.named_parameters():
        if weight.is_floating_point():
            draw = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            weight.data.copy_(torch.randn(weight.shape, generator=draw) * SPREAD)
