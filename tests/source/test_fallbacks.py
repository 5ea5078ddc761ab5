"""`try: import x`, `except ImportError: x = None`: the run had the library."""

from __future__ import annotations

import pytest

from ..engine.porting import PLAIN, port

GUARDED = "try:\n    from trl import SFTConfig, SFTTrainer\nexcept {}:\n    {}\n"


@pytest.mark.parametrize(
    "caught", ["ImportError", "(ImportError, OSError)", "ModuleNotFoundError as error", "Exception"]
)
@pytest.mark.parametrize("fallback", ["SFTTrainer = None", "class SFTTrainer: ...", "SFTConfig = SFTTrainer = object"])
def test_what_stands_in_for_a_missing_library_is_not_meant(caught: str, fallback: str) -> None:
    text = PLAIN.replace("from trl import SFTConfig, SFTTrainer\n", GUARDED.format(caught, fallback))
    assert port(text).recipe.trainer == "trl.SFTTrainer"


@pytest.mark.parametrize("caught", ["ValueError", "KeyError"])
def test_another_handler_may_give_the_name_another_meaning(caught: str) -> None:
    text = PLAIN.replace("from trl import SFTConfig, SFTTrainer\n", GUARDED.format(caught, "SFTTrainer = make()"))
    assert port(text).recipe.trainer != "trl.SFTTrainer"
