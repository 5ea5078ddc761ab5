"""`logging_dir`, which transformers from 5.0 on takes no notice of, and the port does."""

from __future__ import annotations

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(("release", "fate"), [("0.25.1", "exact"), ("1.16.0", "changed")])
def test_where_the_files_lie_is_said(release: str, fate: str) -> None:
    text = sft_script(config=', logging_dir="logs"').replace('report_to="none"', 'report_to="tensorboard"')
    (row,) = [row for row in port(text, source_trl=release).recipe.fields if row.source.endswith(".logging_dir")]
    assert row.fate == fate and ("writes to output_dir/runs" in row.reason) is (fate == "changed")


def test_of_a_folder_that_no_tracker_writes_to_no_more_is_said() -> None:
    found = port(sft_script(config=', logging_dir="logs"'), source_trl="1.16.0")
    (row,) = [row for row in found.recipe.fields if row.source.endswith(".logging_dir")]
    assert (row.fate, row.reason) == ("dropped", "nothing is reported to a tracker")
    assert not [each for each in found.findings if "no line of the port" in each.message]
