"""A mesh on the command line."""

from __future__ import annotations

import pytest

from porter.errors import InputError
from porter.meshes import parse_mesh


@pytest.mark.parametrize(
    ("text", "mesh"),
    [("fsdp=2,tp=4", (2, 4)), ("tp=2, fsdp=4", (4, 2)), ("tp=2", (1, 2)), ("8,1", (8, 1)), ("4", (4, 1))],
)
def test_a_mesh(text: str, mesh: tuple[int, int]) -> None:
    assert parse_mesh(text) == mesh


@pytest.mark.parametrize(
    "text", ["", "data=8", "fsdp=two", "2,2,2", "fsdp=0", "fsdp=2,fsdp=4", "tp=2,4", "fsdp=-1", "4x1"]
)
def test_what_is_no_mesh(text: str) -> None:
    with pytest.raises(InputError, match="is no axis; write it as fsdp=4,tp=1"):
        parse_mesh(text)
