"""Gemma 4's layers without keys of their own, which one release doesn't share where nothing is cached."""

from __future__ import annotations

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("model", "release", "said"),
    [
        ("google/gemma-4-E4B-it", "5.5.0", True),
        ("google/gemma-4-E2B", "5.5.1", True),
        ("google/gemma-4-E4B-it", "5.5.2", False),
        ("google/gemma-4-31B-it", "5.5.0", False),
        ("google/gemma-3-4b-it", "5.5.0", False),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_keys_that_the_source_does_not_share_are_named(model: str, release: str, said: bool, named: bool) -> None:
    text = sft_script("" if named else f'NAME = "{model}"', imports=f"# pip install transformers=={release} trl==1.4.0")
    text = text.replace('"Qwen/Qwen3-0.6B"', f'"{model}"' if named else "NAME")
    found = port(text)
    assert any("shares keys and values between" in finding.message for finding in found.findings) is said
