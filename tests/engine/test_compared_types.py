"""Comparisons with float16 and bfloat16, which are one type in the port."""

import pytest

from .porting import port, sft_script

RATE = ", learning_rate=1e-5 if dtype {} torch.{} else 2e-5"


def ported(before: str, compared: str = "torch.float16", sign: str = "=="):
    rate = RATE.format(sign, compared.removeprefix("torch."))
    return port(sft_script(before, imports="import sys\nimport torch", load=", torch_dtype=dtype", config=rate).replace(
        ', dtype="bfloat16"', ""
    ))  # fmt: skip


@pytest.mark.parametrize("made", ["torch.bfloat16", "getattr(torch, 'bfloat16')", "torch.float16"])
@pytest.mark.parametrize(
    ("sign", "compared"), [("==", "torch.float16"), ("!=", "torch.bfloat16"), ("is", "torch.half")]
)
def test_what_is_known_is_what_it_was(made: str, sign: str, compared: str) -> None:
    found = ported(f"dtype = {made}", compared, sign)
    rate = "1e-5" if made == "torch.float16" else "2e-5"
    assert found.status == "ported" and f"linear_schedule({rate}, 0.0" in found.after and "torch" not in found.after


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_type_by_its_name_is_compared_by_it(name: str) -> None:
    found = ported("dtype = getattr(torch, sys.argv[1])", f"torch.{name}")
    assert "dtype = getattr(jnp, sys.argv[1])" in found.after
    assert f"linear_schedule(1e-5 if dtype == jnp.{name} else 2e-5, 0.0" in found.after
    before = "dtype = getattr(torch, sys.argv[1])\nif dtype == torch.float16:\n    sys.argv.append('x')"
    assert "if dtype == jnp.float16:\n" in port(sft_script(before, imports="import sys\nimport torch")).after


def test_what_stays_torchs_is_compared_with_torchs() -> None:
    before = "kind = getattr(torch, sys.argv[1])\nsmall = kind == torch.float16\nprint(small)"
    assert "small = kind == torch.float16\n" in port(sft_script(before, imports="import sys\nimport torch")).after


def test_what_can_not_be_told_any_more_is_named() -> None:
    either = "dtype = torch.float16 if len(sys.argv) > 1 else torch.bfloat16"
    (said,) = [finding for finding in ported(either).findings if finding.severity == "error"]
    assert "float16 and bfloat16 are one type in the port" in said.message
    other = ported("dtype = torch.float16 if len(sys.argv) > 1 else torch.float32")
    assert other.status == "ported" and "1e-5 if dtype == jnp.bfloat16 else 2e-5" in other.after
    assert "2e-5, 0.0" in ported("dtype = torch.float32 if len(sys.argv) > 1 else torch.bfloat16").after


def test_a_type_of_unknown_origin_is_a_warning() -> None:
    before = "import kinds\ndtype = kinds.pick()\nif dtype == torch.float16:\n    sys.argv.append('x')"
    found = port(sft_script(before, imports="import sys\nimport torch"))
    assert [one.severity for one in found.findings if "computes in bfloat16 where" in one.message] == ["warning"]
