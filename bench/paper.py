"""The paper's recipe, Gemma 4 31B with LoRA r=64 on v5p-8: the port made by hand against ours, by XLA:TPU's own time.

    python bench/paper.py [--json] [--mesh fsdp=1,tp=4] [--shapes 2x3072,3x2048,...] [--formula] [--full]

One pass over 10,000 rows, their lengths drawn as CodeV-R1's are (mean 922, p99 2553, p99.5 2894). By hand: (1, 4),
remat, rows padded to 3072, Tunix's loss and step. Ours: the port that tpu-port writes, without remat, each step's rows
packed into micro-batches of the given shapes, as SFTBatches(step_packing=...) packs them, attending in blocks of
queries (rt.attend_in_blocks), all of it what `tpu-port plan --lengths --apply` writes. Each shape is compiled with
6 and 12 layers and extrapolated to 60 (--full: all 60 compiled), with XLA's least effort as `tpu-port plan` compiles
(--thorough: with all of it), one compile to a core; they are cached. --formula compiles nothing and takes tpu-port's
own estimate for both.
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
from dataclasses import replace
from pathlib import Path

from porter.runtime.batches.step_packing import Shape, fewest_micro_batches, packed
from porter.tpu.compile import CompileFailed, Request, compile_steps
from porter.tpu.memory import Candidate, estimate
from porter.tpu.plan import QUERY_BLOCK, extrapolate, layer_counts
from porter.tpu.results import Step
from porter.tpu.slices import GIB, mesh_of, slice_named

HERE = Path(__file__).parent / "paper"
ROWS, LONGEST, GROUP = 10_000, 3072, 16
# A lognormal through the mean and the 99th percentile; its 99.5th is 2885.
MU, SIGMA = 6.7068, 0.4894
SHAPES = "2x3072,1x2688,1x2304,2x2048,3x2048,2x1792,3x1664,2x1536"  # rows x tokens
TPU = slice_named("v5p-8")


def lengths(rows: int = ROWS, seed: int = 0) -> list[int]:
    """Tokens of each row."""
    draw = random.Random(seed)
    return [min(LONGEST, max(1, round(math.exp(draw.gauss(MU, SIGMA))))) for _ in range(rows)]


def micro_batches(row_lengths: list[int], shapes: list[Shape]) -> Counter[Shape]:
    """How many micro-batches of each shape one pass takes."""
    steps = [row_lengths[start : start + GROUP] for start in range(0, len(row_lengths), GROUP)]
    count = fewest_micro_batches(steps, shapes)
    return Counter(shape for step in steps for shape, _ in packed(step, shapes, count) or [])


def measured(requests: list[Request], how: str) -> list[tuple[int, float, Step]]:
    """Peak bytes and XLA's seconds of one micro-batch with all layers, for each. `how`: formula, extrapolated, full."""
    counts: list[int | None] = {"formula": [6], "extrapolated": [6, 12], "full": [None]}[how]  # type: ignore[assignment]
    asked = [replace(one, layers=count, compile=how != "formula") for one in requests for count in counts]
    steps = []
    for found in compile_steps(asked, say, timeout=7200):
        if isinstance(found, CompileFailed):
            raise SystemExit(f"{found}\n{found.output}")
        steps.append(found)
    return [_whole(steps[start : start + len(counts)], how) for start in range(0, len(steps), len(counts))]


def _whole(steps: list[Step], how: str) -> tuple[int, float, Step]:
    step = steps[0]
    if how == "formula":
        asked = Candidate(
            step.mesh["fsdp"], step.mesh["tp"], step.batch_rows, step.length, step.remat, step.query_block
        )
        found = estimate(step, asked, TPU)
        return found.peak, found.seconds, step
    if not all(each.layers in (*layer_counts(step), step.all_layers) for each in steps):
        raise SystemExit(f"the model's layers don't repeat every {step.layers}")
    peak, seconds = extrapolate(steps, step.all_layers)
    return peak, seconds, step


def say(number: int, line: str) -> None:
    if sys.stderr.isatty():
        print(f"{number}: {line}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")
    parser.add_argument("--mesh", default="fsdp=1,tp=4")
    parser.add_argument("--shapes", default=SHAPES, help="rows x tokens of a micro-batch over the whole mesh")
    parser.add_argument("--formula", action="store_true", help="compile nothing: both sides by formula")
    parser.add_argument("--full", action="store_true", help="compile all 60 layers instead of extrapolating")
    parser.add_argument("--thorough", action="store_true", help="compile as a TPU run does, several times slower")
    given = parser.parse_args()
    how = "formula" if given.formula else "full" if given.full else "extrapolated"
    shapes = [tuple(map(int, part.split("x"))) for part in given.shapes.split(",")]
    row_lengths = lengths()
    counts = micro_batches(row_lengths, shapes)  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "train_tunix.py"
        words = [sys.executable, "-c", "from porter.cli import main; main()", str(HERE / "train_trl.py")]
        subprocess.run([*words, "--processes", "2", "-o", str(port)], check=True, capture_output=True)
        text = port.read_text(encoding="utf-8")
        port.write_text(text.replace("    max_length=3072,\n", f"    max_length=3072,\n    step_packing={shapes},\n"))
        asked = Request(script=port, slice=TPU, mesh=mesh_of(given.mesh, TPU), remat="none", quick=not given.thorough)
        asked = replace(asked, query_block=QUERY_BLOCK)
        ours = [replace(asked, seq_len=length, batch=rows) for rows, length in sorted(counts)]
        tp4 = mesh_of("fsdp=1,tp=4", TPU)
        by_hand = Request(script=HERE / "train_by_hand.py", slice=TPU, mesh=tp4, quick=not given.thorough)
        (hand_peak, hand_seconds, hand_step), *found = measured([by_hand, *ours], how)
    peak, seconds, each = 0, 0.0, {}
    for shape, (high, time, _) in zip(sorted(counts), found, strict=True):
        each["x".join(map(str, shape))] = {"micro_batches": counts[shape], "seconds": time, "peak_gib": high / GIB}
        peak, seconds = max(peak, high), seconds + counts[shape] * time
    slots = sum(rows * length * count for (rows, length), count in counts.items())
    figures = {
        "hand_seconds_per_row": hand_seconds / hand_step.batch_rows,
        "ours_seconds_per_row": seconds / ROWS,
        "ratio": (seconds / ROWS) / (hand_seconds / hand_step.batch_rows),
        "hand_peak_gib": hand_peak / GIB,
        "peak_gib": peak / GIB,
        "hbm_gib": TPU.chip.hbm_gib,
        "hand_lora_tensors_of_6_layers": hand_step.lora_tensors,
        "lora_tensors_of_6_layers": found[0][2].lora_tensors,
        "padding": 1 - sum(row_lengths) / slots,
        "shapes": each,
        "by": how,
        "effort": "formula" if how == "formula" else "all" if given.thorough else "least",
    }
    if given.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
