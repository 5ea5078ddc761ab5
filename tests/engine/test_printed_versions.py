"""Lines that print the releases of libraries that a port doesn't use."""

import pytest

from .porting import check_becomes, port, sft_script


@pytest.mark.parametrize(
    "line", ['print(f"TRL: {trl.__version__}")', 'print("TRL", trl.__version__)', "logging.info(trl.__version__)"]
)
def test_they_go(line: str) -> None:
    check_becomes(sft_script(line, imports="import logging\nimport trl"), gone=(line, "import trl"))


@pytest.mark.parametrize(
    "line",
    ["print(trl.__version__, len(rows))", "print(trl.__version__ + read())", "release = trl.__version__", "print(trl)"],
)
def test_a_line_that_does_more_stays(line: str) -> None:
    found = port(sft_script(line, imports="import trl\nfrom mine import read\nrows = []"))
    assert f"\n{line}\n" in found.after
    assert "TP001" in [each.rule for each in found.findings if each.severity == "error"]


def test_what_prints_something_else_of_torch_stays() -> None:
    assert "print(torch.__version__)" in port(sft_script("print(torch.__version__)", imports="import torch")).after


METADATA = "from importlib.metadata import PackageNotFoundError, version"


@pytest.mark.parametrize("line", ['print("TRL", version("trl"))', "print(f'{version(\"flash-attn\")}')"])
def test_lines_that_ask_what_is_installed_go(line: str) -> None:
    check_becomes(sft_script(line, imports=METADATA), gone=(line,))


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        (
            'for name in ["trl", "jax", "bitsandbytes", "torch"]:\n    print(name, version(name))',
            'for name in ["jax"]:\n    print(name, version(name))',
        ),
        ('held = {p: version(p) for p in ("peft", "numpy")}', 'held = {p: version(p) for p in ("numpy",)}'),
        ("held = [version(p) for p in ('torch',)]", "held = [version(p) for p in ()]"),
        ('for p in ["trl"]:\n    for q in ["trl"]:\n        print(version(p), q)', 'for q in ["trl"]:'),
    ],
)
def test_a_list_of_what_is_installed_has_what_a_port_has(line: str, becomes: str) -> None:
    check_becomes(sft_script(line, imports=METADATA), becomes)


@pytest.mark.parametrize(
    "line",
    [
        'for p in ["trl"]:\n    try:\n        print(version(p))\n    except PackageNotFoundError:\n        pass',
        'for p in ["jax", "numpy"]:\n    print(version(p))',
        'print(version("jax"), version("trl"))',
        'for p in ["trl"]:\n    print(p, version("jax"))',
    ],
)
def test_what_asks_for_others_or_takes_the_error_stays(line: str) -> None:
    assert line in port(sft_script(line, imports=METADATA)).after
