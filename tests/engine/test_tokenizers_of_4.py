"""add_eos_token=True of transformers 4, which its version 5 hears otherwise."""

from __future__ import annotations

import pytest

from .porting import PLAIN, check_noop, port, sft_script

LOAD = "tok = AutoTokenizer.from_pretrained({})\n"


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (
            "'m', add_eos_token=True",
            "tok = rt.as_transformers_4(AutoTokenizer.from_pretrained('m'), add_eos_token=True)",
        ),
        (
            "'m', add_eos_token=True, add_bos_token=no, legacy=0",
            "from_pretrained('m', legacy=0), add_eos_token=True, add_bos_token=no, legacy=0)",
        ),
        (
            "'m', add_bos_token=False,",
            "tok = rt.as_transformers_4(AutoTokenizer.from_pretrained('m',), add_bos_token=False)",
        ),
        (
            "add_eos_token=True, *names",
            "tok = rt.as_transformers_4(AutoTokenizer.from_pretrained(*names), add_eos_token=True)",
        ),
        ("'m'", "tok = rt.as_transformers_4(AutoTokenizer.from_pretrained('m'))"),
        ("'m', use_fast=False", "tok = rt.as_transformers_4(AutoTokenizer.from_pretrained('m'), use_fast=False)"),
        *(
            (f"'{name}'", f"tok = rt.as_transformers_4(AutoTokenizer.from_pretrained('{name}'))")
            for name in (
                "HuggingFaceTB/SmolLM2-135M",
                "HuggingFaceTB/SmolLM-1.7B-Instruct",
                "HuggingFaceTB/SmolLM-360M",
                "unsloth/phi-4",
            )
        ),
        ("'microsoft/phi-2'", "tok = AutoTokenizer.from_pretrained('microsoft/phi-2')"),
        ("'Qwen/Qwen2.5-7B'", "tok = AutoTokenizer.from_pretrained('Qwen/Qwen2.5-7B')"),
        (
            "'meta-llama/Llama-3.2-1B', use_fast=True",
            "AutoTokenizer.from_pretrained('meta-llama/Llama-3.2-1B', use_fast=True)",
        ),
    ],
)
def test_it_becomes_the_runtimes(given: str, becomes: str) -> None:
    text = "# pip install trl==0.12.2\n" + sft_script(LOAD.format(given))
    ported = port(text)
    assert becomes in ported.after, ported.after
    assert becomes in port(ported.after).after


def test_assigned_too() -> None:
    text = "# pip install trl==0.12.2\n" + sft_script(LOAD.format("'m'") + "tok.add_eos_token = True\n")
    assert "\nrt.bos_eos(tok, add_eos_token=True)\n" in port(text).after


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("self.add_eos_token = add_eos_token", True),
        ("config.add_eos_token = True", True),
        ("self.tokenizer.add_eos_token = 1", False),
    ],
)
def test_only_a_tokenizer_is_told(line: str, kept: bool) -> None:
    body = f"class Rows:\n    def __init__(self, config, add_eos_token):\n        {line}\nRows(x, 1)\n"
    after = port("# pip install trl==0.12.2\n" + sft_script(body)).after
    assert (f"        {line}\n" in after) == kept and ("rt.bos_eos(self.tokenizer, add_eos_token=1)" in after) != kept


def test_both_at_the_end_of_a_call() -> None:
    text = "# pip install trl==0.12.2\n" + sft_script(LOAD.format("'m', add_eos_token=True, add_bos_token=False"))
    assert (
        "rt.as_transformers_4(AutoTokenizer.from_pretrained('m'), add_eos_token=True, add_bos_token=False)\n"
        in port(text).after
    )


@pytest.mark.parametrize("pin", ["trl==1.16.0", "trl==0.29.1 transformers==5.4.0"])
def test_transformers_5_is_left_as_it_is(pin: str) -> None:
    text = f"# pip install {pin}\n" + sft_script(LOAD.format("'m', add_eos_token=True"))
    assert "bos_eos" not in port(text).after


def test_a_file_that_trains_nothing_keeps_its_tokenizer() -> None:
    check_noop("from transformers import AutoTokenizer\n" + LOAD.format("'m', add_eos_token=True"))


@pytest.mark.parametrize(
    ("release", "model", "wrapped"),
    [("5.1.0", "'m'", True), ("5.3.0", "'m'", False), ("5.1.0", "'Qwen/Qwen3-0.6B'", False)],
)
def test_files_are_read_as_transformers_5_0_to_5_2_did(release: str, model: str, wrapped: bool) -> None:
    after = port(f"# pip install trl==0.28.0 transformers=={release}\n" + sft_script(LOAD.format(model))).after
    assert (f"rt.as_transformers_5_0(AutoTokenizer.from_pretrained({model}))" in after) is wrapped


@pytest.mark.parametrize(
    ("pin", "model", "line", "wrapper"),
    [
        ("trl==0.12.2", "meta-llama/Llama-3.2-1B", "print(tok.decode([1]))", "as_transformers_4"),
        ("trl==0.12.2", "meta-llama/Llama-3.2-1B", "TextStreamer(tok)", "as_transformers_4"),
        ("trl==0.12.2", "Qwen/Qwen2.5-0.5B", "print(tok.decode([1]))", ""),
        (
            "trl==0.12.2",
            "Qwen/Qwen2.5-0.5B",
            "print(tok.batch_decode([[1]], clean_up_tokenization_spaces=True))",
            "as_transformers_4",
        ),
        (
            "trl==0.28.0 transformers==5.1.0",
            "meta-llama/Llama-3.2-1B",
            "print(tok.decode([1]))",
            "as_transformers_5_0",
        ),
        (
            "trl==0.28.0 transformers==5.3.0",
            "meta-llama/Llama-3.2-1B",
            "print(tok.decode([1]))",
            "as_transformers_5_3",
        ),
        ("trl==0.28.0 transformers==5.3.0", "meta-llama/Llama-3.2-1B", "", ""),
        ("trl==0.28.0 transformers==5.3.0", "mistralai/Mistral-7B-v0.1", "print(tok.decode([1]))", ""),
        ("trl==0.28.0 transformers==5.7.0", "meta-llama/Llama-3.2-1B", "print(tok.decode([1]))", ""),
    ],
)
def test_spaces_leave_decoded_texts_as_before_transformers_5_7(pin: str, model: str, line: str, wrapper: str) -> None:
    load = f"AutoTokenizer.from_pretrained('{model}')"
    after = port(f"# pip install {pin}\n" + sft_script(f"tok = {load}\n{line}\n")).after
    assert f"tok = rt.{wrapper}({load})\n" in after if wrapper else f"tok = {load}\n" in after, after


LOADED = f"""{PLAIN}import sys
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
pads, other = bool(sys.argv), sys.stdin
"""


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("tokenizer.batch_encode_plus(batch_text_or_text_pairs=['a'])", "tokenizer(text=['a'])"),
        ("tokenizer.encode_plus('a', pad_to_max_length=pads)", "tokenizer('a', pad_to_max_length=pads)"),
        ("other.encode_plus('a')", "other.encode_plus('a')"),
    ],
)
def test_methods_that_are_the_tokenizers_own_call(call: str, want: str) -> None:
    ported = port(f"{LOADED}print({call})\n")
    assert f"print({want})" in ported.after


def test_a_method_without_a_successor_is_an_error() -> None:
    ported = port(f"{LOADED}print(tokenizer.build_inputs_with_special_tokens([1]))\n")
    assert ported.status == "partial" and "has no tokenizer.build_inputs_with_special_tokens" in str(ported.findings)
