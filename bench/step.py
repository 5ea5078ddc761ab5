"""One training step on simulated CPU devices: the port against hand-written Tunix against TRL, as ratios in one run.

    python bench/step.py [--steps 6] [--json]

A tiny random model, the same rows. Seconds say nothing about a TPU; a ratio that moves shows a regression. `ported` and
`chunked` are the runtime's loss whole and in eight parts, `buckets` deals rows by length; `by_hand` is Tunix's own loss
with every row padded to the longest, `trl` is SFTTrainer (left out where torch is not installed).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LENGTH = 512
LENGTHS = (40, 60, 90, 110, 128, 150, 240, 500)
LORA = {"r": 8, "lora_alpha": 8, "target_modules": "all-linear"}


def rows(count: int) -> list[dict[str, str]]:
    """Texts of mixed lengths, in bytes."""
    words = "the quick brown fox jumps over the lazy dog and then it rests a while "
    return [{"text": (words * 20)[: LENGTHS[i % len(LENGTHS)]]} for i in range(count)]


def median_seconds(marks: list[float]) -> float:
    """Of the steps after the first two, which compile."""
    steps = [after - before for before, after in itertools.pairwise(marks)]
    return statistics.median(steps[2:] or steps)


def tunix(folder: Path, steps: int, how: str) -> float:
    import jax
    import numpy as np
    import optax
    import qwix
    from transformers import AutoTokenizer
    from tunix.sft import utils
    from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

    from porter import runtime as rt

    mesh = jax.make_mesh((4, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(folder, mesh)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    buckets = (128, 256, LENGTH) if how == "buckets" else None
    batches = rt.SFTBatches(
        rows(8 * steps), tokenizer, mesh, epochs=1, batch_size=4, accumulation=2, max_length=LENGTH, buckets=buckets
    )
    if how == "by_hand":
        provider = qwix.LoraProvider(module_path=".*_proj", rank=8, alpha=8.0)
        with mesh:
            model = qwix.apply_lora_to_model(model, provider, **model.get_model_input())
    else:
        model = rt.apply_peft(model, LORA, mesh, seed=0)
    config = TrainingConfig(max_steps=steps, eval_every_n_steps=steps, gradient_accumulation_steps=2)
    trainer = PeftTrainer(model, optax.adamw(1e-4), config)
    if how == "by_hand":

        def inputs(batch: dict[str, Any]) -> dict[str, Any]:
            mask = batch["segment_ids"] != 0
            return {
                "input_tokens": batch["input_tokens"],
                "input_mask": mask,
                "positions": utils.build_positions_from_mask(mask),
                "attention_mask": utils.make_causal_attn_mask(mask),
            }

        trainer = trainer.with_gen_model_input_fn(inputs)
    else:
        loss = rt.chunked_token_loss(8) if how == "chunked" else rt.token_loss
        trainer = trainer.with_gen_model_input_fn(rt.model_inputs).with_loss_fn(loss)
    marks = []

    def timed() -> Any:
        for number, batch in enumerate(batches):
            if number % 2 == 0:
                marks.append(time.perf_counter())
            yield batch

    config.max_inflight_computations = 1
    with mesh:
        trainer.train(timed())
    marks.append(time.perf_counter())
    assert np.isfinite(marks).all()
    return median_seconds(marks[:-1])


def trl(folder: Path, steps: int, work: Path) -> float | None:
    try:
        from datasets import Dataset
        from peft import LoraConfig
        from transformers import TrainerCallback
        from trl import SFTConfig, SFTTrainer
    except ImportError:
        return None
    marks: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            marks.append(time.perf_counter())

    args = SFTConfig(
        output_dir=str(work),
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_length=LENGTH,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    peft = LoraConfig(r=8, lora_alpha=8, target_modules="all-linear")
    trainer = SFTTrainer(
        str(folder), args, train_dataset=Dataset.from_list(rows(8 * steps)), peft_config=peft, callbacks=[Clock()]
    )
    trainer.train()
    return median_seconds(marks)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    from tests.tiny import save

    with tempfile.TemporaryDirectory() as folder:
        model = save("qwen3", Path(folder) / "model", max_position_embeddings=1024)
        found: dict[str, float | None] = {}
        for how in ("ported", "chunked", "buckets", "by_hand"):
            found[how] = tunix(model, given.steps, how)
        found["trl"] = trl(model, given.steps, Path(folder) / "out")
    ported = found["ported"]
    assert ported is not None
    ratios = {f"{name}_to_ported": None if value is None else value / ported for name, value in found.items()}
    document = {"seconds_a_step": found, **ratios}
    print(json.dumps(document, indent=2) if given.json else "\n".join(f"{k}: {v}" for k, v in document.items()))


if __name__ == "__main__":
    main()
