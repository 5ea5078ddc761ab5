"""Requirements that can be met together, and those that can't."""

from __future__ import annotations

import pytest

from porter.releases.versions import can_meet, pins_of


@pytest.mark.parametrize(
    ("bounds", "possible"),
    [
        ("==0.8.6,>=0.19", False),
        ("==0.19.1,>=0.19", True),
        ("==0.8,>=0.8.2", True),  # pins are read without `.*`
        ("<0.9,>=0.9", False),
        ("<=0.9,>=0.9.0", True),
        (">0.9.1,<=0.9.1", False),
        ("~=0.8.1,>=0.9", False),
        ("~=0.8,>=0.9", True),
        ("!=0.9", True),
        ("", True),
    ],
)
def test_bounds_that_can_be_met(bounds: str, possible: bool) -> None:
    assert can_meet(pins_of(bounds)) is possible
