"""Which stand-ins are for a model of a multimodal class: they are of its text part alone, and asked as that class."""

from __future__ import annotations

from pathlib import Path

from ...runtime.facts.releases.mistral_means import MULTIMODAL


def multimodal_name(folder: str) -> str:
    """The Hub id of the multimodal model that a stand-in's folder is called after; empty for any other folder."""
    name = Path(folder).name.replace("--", "/", 1)
    return name if MULTIMODAL.match(name) is not None else ""
