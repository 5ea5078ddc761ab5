"""Collectives in the text of a compiled program."""

from __future__ import annotations

from porter.tpu.hlo import collectives

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
