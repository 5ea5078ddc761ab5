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
