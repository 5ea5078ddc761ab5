"""A mesh as the command line gives it."""

from __future__ import annotations

import re

from .errors import InputError

AXES = ("fsdp", "tp")


def parse_mesh(text: str) -> tuple[int, int]:
    """`fsdp=2,tp=4` or `2,4` → (2, 4); a missing axis is 1. InputError for anything else."""
    sizes: dict[str, int] = {}
    for name, part in zip((*AXES, ""), text.split(","), strict=False):
        match = re.fullmatch(r"\s*(?:(fsdp|tp)\s*=)?\s*([1-9]\d*)\s*", part)
        axis = (match[1] or name) if match is not None else ""
        if match is None or axis in (*sizes, ""):
            raise InputError(f"--mesh {text!r}: {part.strip()!r} is no axis", fix="write it as fsdp=4,tp=1")
        sizes[axis] = int(match[2])
    return sizes.get("fsdp", 1), sizes.get("tp", 1)
