"""Collectives in the text of a compiled program."""

from __future__ import annotations

import pytest

from porter.tpu.tracing.hlo import collectives, out_of_memory

HLO = """
  %all-gather.3 = bf16[64,128]{1,0:T(8,128)(2,1)} all-gather(bf16[16,128]{1,0} %p), dimensions={0}
  %ag-start = (bf16[8,8]{1,0}, bf16[32,8]{1,0}) all-gather-start(bf16[8,8]{1,0} %q), dimensions={0}
  %ag-done = bf16[32,8]{1,0} all-gather-done((bf16[8,8]{1,0}, bf16[32,8]{1,0}) %ag-start)
  ROOT %all-reduce.1 = (f32[4]{0}, f32[2,2]{1,0}) all-reduce(f32[4]{0} %a, f32[2,2]{1,0} %b), to_apply=%add
  %fusion = f32[4]{0} fusion(f32[4]{0} %all-reduce-like), kind=kLoop
"""


def test_each_is_counted_once_with_the_bytes_of_its_result() -> None:
    assert collectives(HLO) == {
        "all-gather": {"count": 2, "bytes": 64 * 128 * 2 + 32 * 8 * 2},
        "all-reduce": {"count": 1, "bytes": 4 * 4 + 4 * 4},
    }


def test_a_program_without_them_has_none() -> None:
    assert collectives("%add = f32[4]{0} add(f32[4]{0} %a, f32[4]{0} %b)") == {}


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (196.24G) "
            "exceeds available HBM (15.75G).",
            (int(196.24 * 2**30), int(15.75 * 2**30)),
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
            "Used 101.50G of 95.74G hbm. Exceeded hbm capacity by 5.76G.",
            (int(101.5 * 2**30), int(95.74 * 2**30)),
        ),
        ("INTERNAL: Mosaic failed, Used 3G of 2G hbm", None),
        ("RESOURCE_EXHAUSTED: something else", None),
    ],
)
def test_what_a_refused_program_lacks(message: str, wanted: tuple[int, int] | None) -> None:
    assert out_of_memory(message) == wanted
