"""The paper's recipe, Gemma 4 31B with LoRA r=64 on v5p-8: the port made by hand against ours, by XLA:TPU's own time.

    python bench/paper.py [--json] [--mesh fsdp=1,tp=4] [--batch 2] [--buckets 512,1024,...] [--full]

One pass over 10,000 rows, their lengths drawn as CodeV-R1's are (mean 922, p99 2553, p99.5 2894). By hand: (1, 4),
remat, rows padded to 3072, Tunix's loss. Ours: the port that tpu-port writes, without remat, with length buckets:
a step's rows dealt by length, as SFTBatches(buckets=...) does. Each shape is compiled with few layers and extrapolated;
the compiles are cached, and take minutes each the first time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from porter.tpu.compile import Request, Step, compile_step
from porter.tpu.plan import extrapolate, layer_counts
from porter.tpu.slices import GIB, parse_mesh, slice_named

HERE = Path(__file__).parent / "paper"
ROWS, LONGEST, GROUP = 10_000, 3072, 16
# A lognormal through the mean and the 99th percentile; its 99.5th is 2885.
MU, SIGMA = 6.7068, 0.4894
TPU = slice_named("v5p-8")


def lengths(rows: int = ROWS, seed: int = 0) -> list[int]:
    """Tokens of each row."""
    draw = random.Random(seed)
    return [min(LONGEST, max(1, round(math.exp(draw.gauss(MU, SIGMA))))) for _ in range(rows)]


def micro_batches(row_lengths: list[int], batch: int, buckets: list[int]) -> Counter[int]:
    """How many micro-batches of each length: the rows of a step dealt by length, the longest first."""
    counts: Counter[int] = Counter()
    for start in range(0, len(row_lengths), GROUP):
        group = sorted(row_lengths[start : start + GROUP], reverse=True)
        for first in range(0, len(group), batch):
            counts[next(bucket for bucket in buckets if bucket >= group[first])] += 1
    return counts


def measured(request: Request, *, full: bool) -> tuple[int, float, Step]:
    """Peak bytes and XLA's seconds of one micro-batch with all layers."""
    say = print if sys.stderr.isatty() else lambda line: None
    if full:
        whole = compile_step(request, say, timeout=7200)
        assert whole.memory is not None
        return whole.memory.peak, whole.seconds, whole
    found = []
    for layers in (6, 12):
        found.append(compile_step(Request(**{**vars(request), "layers": layers}), say, timeout=7200))
        if found[0].all_layers and layers not in layer_counts(found[0]):
            raise SystemExit(f"the model's layers don't repeat every {layers}")
    peak, seconds = extrapolate(found, found[0].all_layers)
    return peak, seconds, found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")
    parser.add_argument("--mesh", default="fsdp=1,tp=4")
    parser.add_argument("--batch", type=int, default=2, help="rows of a micro-batch over the whole mesh")
    parser.add_argument("--buckets", default="1024,2048,3072", help="lengths of a micro-batch")
    parser.add_argument("--full", action="store_true", help="compile all 60 layers instead of extrapolating")
    given = parser.parse_args()
    buckets = sorted(int(part) for part in given.buckets.split(","))
    counts = micro_batches(lengths(), given.batch, buckets)

    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "train_tunix.py"
        words = [sys.executable, "-c", "from porter.cli import main; main()", str(HERE / "train_trl.py")]
        subprocess.run([*words, "--processes", "2", "-o", str(port)], check=True, capture_output=True)
        peak, seconds, row_step = 0, 0.0, None
        shapes = {}
        for length, count in sorted(counts.items()):
            asked = Request(
                script=port,
                slice=TPU,
                mesh=parse_mesh(given.mesh, TPU),
                seq_len=length,
                batch=given.batch,
                remat="none",
            )
            high, each, row_step = measured(asked, full=given.full)
            shapes[length] = {"micro_batches": count, "seconds": each, "peak_gib": high / GIB}
            peak, seconds = max(peak, high), seconds + count * each
        hand_peak, hand_seconds, hand_step = measured(
            Request(script=HERE / "train_by_hand.py", slice=TPU, mesh=parse_mesh("fsdp=1,tp=4", TPU)), full=given.full
        )
    assert row_step is not None
    figures = {
        "hand_seconds_per_row": hand_seconds / hand_step.batch_rows,
        "ours_seconds_per_row": seconds / ROWS,
        "ratio": (seconds / ROWS) / (hand_seconds / hand_step.batch_rows),
        "hand_peak_gib": hand_peak / GIB,
        "peak_gib": peak / GIB,
        "hbm_gib": TPU.chip.hbm_gib,
        "hand_lora_tensors_of_6_layers": hand_step.lora_tensors,
        "lora_tensors_of_6_layers": row_step.lora_tensors,
        "shapes": shapes,
        "extrapolated": not given.full,
    }
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
