"""In which type a source's weights count as loaded, by what its arguments ask for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from porter.validate.torch_side.gpu_libraries.deepspeed import HALF, weights_dtype


@pytest.mark.parametrize(
    ("asked", "loaded", "frozen", "counts"),
    [
        ({}, "float32", True, "float32"),
        ({"_porter_asked": {"half": True}}, "float32", True, None),  # autocast multiplies them in half
        ({"_porter_asked": {"half": True}}, "float32", False, "float32"),
        ({"_porter_asked": {"half": False}}, "float32", True, "float32"),
        ({HALF: True}, "float32", True, "half"),
        ({HALF: True}, "float16", False, None),
    ],
)
def test_what_a_frozen_base_is_held_in(asked: dict[str, object], loaded: str, frozen: bool, counts: str | None) -> None:
    assert weights_dtype(SimpleNamespace(**asked), loaded, frozen=frozen) == counts
