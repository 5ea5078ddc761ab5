"""Gemma 2's cap on attention scores, which sdpa leaves out."""

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("model", "load", "release", "said"),
    [
        ("google/gemma-2-2b-it", "", "1.16.0", True),
        ("google/gemma-2-2b-it", ', attn_implementation="sdpa"', "1.16.0", True),
        ("google/gemma-2-2b-it", ', attn_implementation="eager"', "1.16.0", False),
        ("google/gemma-2-2b-it", "", "0.12.2", False),  # beside transformers 4.46
        ("google/gemma-2-2b-it", ', attn_implementation="sdpa"', "0.12.2", True),
        ("google/gemma-2-2b-it", ", attn_implementation=None", "0.12.2", False),
        ("google/gemma-2-2b-it", "", "0.9.6", True),  # beside 4.42
        ("google/gemma-3-1b-it", "", "1.16.0", False),
    ],
)
def test_a_cap_that_the_source_has_not_is_named(model: str, load: str, release: str, said: bool) -> None:
    text = sft_script(load=load).replace("Qwen/Qwen3-0.6B", model).replace("dtype=", "torch_dtype=")
    found = port(text, source_trl=release)
    assert any("caps attention scores" in finding.message for finding in found.findings) is said
