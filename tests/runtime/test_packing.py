"""Packing on lengths. Expected rows are those of trl.pack_dataset 1.16 (compared in tests/real/test_data_parts.py).

Those of older releases are what each of them gave: tests/fixtures/make_packing_fixtures.py.
"""

import json
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from porter.runtime.facts.releases import release
from porter.runtime.rows.packing import Row, lengths, pack
from tests import fixtures
from tests.fixtures import make_packing_fixtures as made


def spans(*sizes: int) -> list[tuple[int, int]]:
    return list(pairwise([0, *accumulate(sizes)]))


def sizes(rows: list[Row]) -> list[list[int]]:
    return [[stop - start for start, stop in row] for row in rows]


def test_documents_that_fit_together_share_a_row() -> None:
    assert pack(spans(5, 2, 3, 1), 4, "bfd") == [((0, 4),), ((7, 10), (10, 11)), ((5, 7),)]


def test_equal_documents_keep_their_order() -> None:
    assert pack(spans(2, 2, 2), 4, "bfd") == [((0, 2), (2, 4)), ((4, 6),)]


def test_the_fullest_row_that_still_holds_it_wins() -> None:
    assert sizes(pack(spans(6, 5, 3, 2), 8, "bfd")) == [[6, 2], [5, 3]]


def test_empty_documents_go() -> None:
    assert pack(spans(0, 3, 0), 4, "bfd") == [((0, 3),)]


def test_split_packs_what_is_cut_off() -> None:
    assert sizes(pack(spans(5, 2, 3, 1), 4, "bfd_split")) == [[4], [3, 1], [2, 1]]


def test_wrapped_cuts_every_max_length_tokens() -> None:
    assert pack(spans(5, 2, 3, 1), 4, "wrapped") == [((0, 4),), ((4, 8),), ((8, 11),)]


@pytest.mark.parametrize("strategy", ["bfd", "wrapped"])
def test_a_thousand_documents_are_packed_at_a_time(strategy: str) -> None:
    assert [len(rows) for rows in (pack(spans(*[1] * n), 7, strategy) for n in (1000, 1001))] == [143, 144]
    assert lengths(pack(spans(*[1] * 1001), 7, strategy))[-2:].tolist() == [6, 1]


def test_every_shard_of_dataset_num_proc_is_packed_alone() -> None:
    assert sizes(pack(spans(1, 1, 1), 3, "bfd", num_proc=2)) == [[1, 1], [1]]
    assert sizes(pack(spans(1), 3, "bfd", num_proc=2)) == [[1]]


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(ValueError, match="'first_fit'"):
        pack(spans(1), 4, "first_fit")


# Those that pack like the one before are left out of the fixture, but the last of them
RELEASES = json.loads((Path(fixtures.__file__).parent / "packing_releases.json").read_text())
LAST = {
    "0.19.1": "0.19.0",
    "0.21.0": "0.20.0",
    "0.26.2": "0.22.0",
    "0.28.0": "0.27.0",
    "0.29.1": "0.29.0",
    "1.16.0": "1.0.0",
}


@pytest.mark.parametrize("trl", [*RELEASES, *LAST])
def test_documents_are_packed_as_the_release_did(trl: str) -> None:
    for asked, by_length in RELEASES[LAST.get(trl, trl)].items():
        strategy = release(trl).packing_strategy(asked)
        for length, theirs in by_length.items():
            ours = pack(spans(*made.SIZES), int(length), strategy)
            tokens = [[token for span in row for token in range(*span)] for row in ours]
            assert [made.spans(row) for row in tokens] == theirs, (asked, length)


@pytest.mark.parametrize("trl", ["0.27.0", "0.28.0"])
def test_bfd_packed_what_it_cut_off_in_two_releases(trl: str) -> None:
    assert sizes(pack(spans(20, 3), 8, release(trl).packing_strategy("bfd"))) == [[8], [8], [4, 3]]
    assert sizes(pack(spans(20, 3), 8, release("0.26.2").packing_strategy("bfd"))) == [[8], [3]]


def test_which_packed_rows_a_batch_runs_together() -> None:
    releases = ("0.18.2", "0.19.0", "0.22.0", "0.27.0", "0.29.0", "1.0.0")
    assert [release(trl).runs_together("bfd") for trl in releases] == [False, True, True, True, True, True]
    assert [release(trl).runs_together("bfd-requeue") for trl in ("0.29.0", "1.0.0")] == [False, True]
    assert not release("1.16.0").runs_together("wrapped")
