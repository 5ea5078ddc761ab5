"""The runtime's names: `rt.remat` must stay the function, whatever has been imported."""

from __future__ import annotations

from pathlib import Path

from porter import runtime


def test_no_name_is_also_a_modules() -> None:
    modules = {path.stem for path in Path(runtime.__file__).parent.glob("*.py")}
    assert not modules & set(runtime.__all__)
