"""How often `tpu-port compare` is right, on logs of small models that were trained for it.

    python bench/compare.py train FOLDER           # a transformer of 50,000 weights in JAX, all runs in minutes
    python bench/compare.py judge FOLDER [--json]  # every pair of these logs
    python bench/compare.py trl FOLDER --side gpu  # the scripts of bench/pairs under TRL, and --side tpu as ported

Runs that are there already are kept. GPU logs are of bf16; TPU logs of the same recipe with adapters and dropout of
their own chance, in bf16 and float32, logged every 1, 5 or 10 steps; and with each seeded mistake. Envelopes are
measured on one and on three further GPU runs, and on four runs half of which are in float32, as --source makes them.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAIRS = ROOT / "bench" / "pairs"

KINDS = ("lora", "full")
RIGHT = 10  # right runs of a kind and precision, each with a chance of its own
EVERY = (1, 5, 10)  # logging_steps
MISTAKES: dict[str, dict[str, Any]] = {
    "no clipping": {"clip": 0.0},
    "weight decay 1e-4": {"decay": 1e-4},
    "wrong mask": {"whole": True},
    "alpha x2": {"alpha": 16.0},
    "schedule off by one": {"early": 1},
    "unshuffled data": {"shuffled": False},
    "missing layer": {"layers": 1},
    "mean of means": {"means": True},
    "dropped end token": {"ends": False},
    "another order": {"order": 43},
    "warm-up off by one": {"warmup": 11},
}
ADAPTERS = ("alpha x2", "missing layer")  # mistakes of LoRA alone


def train(root: Path) -> None:
    """All runs of `tiny_runs`, a kind and precision at a time."""
    import tiny_runs

    for kind in KINDS:
        for bf16 in (True, False):
            recipes = [tiny_runs.Recipe(f"right_{seed}", kind, bf16, seed=seed, start=seed) for seed in range(RIGHT)]
            for name, wrong in MISTAKES.items():
                if kind == "full" and name in ADAPTERS:
                    continue
                for seed in (0, 11):  # 0: with the very adapters and masks of the GPU's log
                    made = tiny_runs.Recipe(f"{name.replace(' ', '_')}_{seed}", kind, bf16, seed=seed, start=seed)
                    recipes.append(replace(made, **wrong))
            folder = root / f"{kind}_{'bf16' if bf16 else 'float32'}"
            recipes = [each for each in recipes if not (folder / "gpu" / each.name / STATE).is_file()]
            if not recipes:
                continue
            started = time.monotonic()
            for each, run in zip(recipes, tiny_runs.train(recipes), strict=True):
                for settings in (True, False):
                    place = folder if settings else folder / "curves"
                    tiny_runs.leave(place / "tpu" / each.name, run, port=True, settings=settings)
                    tiny_runs.leave(place / "gpu" / each.name, run, port=False, settings=settings)
            print(f"{folder.name}: {len(recipes)} runs, {time.monotonic() - started:.0f} s", flush=True)


STATE = "trainer_state.json"


@dataclass(frozen=True)
class Pair:
    """Two logs, and what sets the second apart: "" for nothing but chance, precision and logging."""

    kind: str
    mistake: str
    gpu: Path
    tpu: Path
    envelope: str
    every: int


def pairs(root: Path, *, settings: bool) -> Iterator[Pair]:
    """GPU logs 0 and 1, every 1, 5 and 10 steps, with TPU logs 5-9 of both precisions; GPU log 0 with each mistake."""
    for kind in KINDS:
        gpu, single = root / f"{kind}_bf16", root / f"{kind}_float32"
        if not (gpu.is_dir() and single.is_dir()):
            continue  # not trained yet
        inside = "." if settings else "curves"
        lora = kind == "lora"  # without adapters and dropout right runs differ in their precision alone
        for envelope, every, place in itertools.product(ENVELOPES if lora else ENVELOPES[2:], EVERY, (gpu, single)):
            for first, other in itertools.product(range(2 if lora else 1), range(5, RIGHT if lora else 6)):
                ours = logged(gpu / inside / "gpu" / f"right_{first}" / STATE, every)
                yield Pair(kind, "", ours, place / inside / "tpu" / f"right_{other}" / STATE, envelope, every)
            for name, seed in itertools.product(MISTAKES, (0, 11)):
                tpu = place / inside / "tpu" / f"{name.replace(' ', '_')}_{seed}" / STATE
                if tpu.is_file():
                    ours = logged(gpu / inside / "gpu" / "right_0" / STATE, every)
                    yield Pair(kind, name, ours, tpu, envelope, every)


ENVELOPES = ("1 further GPU run", "3 further GPU runs", "4 runs, bf16 and float32")


def logged(path: Path, every: int) -> Path:
    """The log as the Trainer writes it with logging_steps=`every`: means of the losses, the rest of the last step."""
    if every == 1:
        return path
    target = path.parent / f"every_{every}" / path.name
    if not target.is_file():
        state = json.loads(path.read_text())
        history = state["log_history"]
        lines = []
        for end in range(every, len(history) + 1, every):
            window = history[end - every : end]
            lines.append({**window[-1], "loss": sum(line["loss"] for line in window) / every})
        target.parent.mkdir(exist_ok=True)
        for beside in path.parent.glob("*.json"):
            shutil.copy(beside, target.parent)
        target.write_text(json.dumps({**state, "log_history": lines}))
    return target


def judge(root: Path, as_json: bool) -> int:
    """How many pairs of each sort are called what; with the settings beside the logs, and by the curves alone."""
    from porter.compare.logs.read import read_logs
    from porter.compare.run import compare

    said: dict[tuple[str, str, str, int, bool], Counter[str]] = {}
    for settings in (True, False):
        for pair in pairs(root, settings=settings):
            gpu, single = (root / f"{pair.kind}_{dtype}" / "curves" / "gpu" for dtype in ("bf16", "float32"))
            second = [gpu / f"right_{n}" / STATE for n in (2, 3, 4)]
            if pair.envelope == ENVELOPES[2]:
                places = ((gpu, 2), (single, 2), (gpu, 3), (single, 4))
                logs = [replace(read_logs(*2 * [at / f"right_{n}" / STATE])[0], chance=n) for at, n in places]
                found = compare(pair.gpu, pair.tpu, stand_in=lambda steps, logs=logs: logs)  # type: ignore[misc]
            else:
                found = compare(pair.gpu, pair.tpu, second=second[: 1 if pair.envelope == ENVELOPES[0] else 3])
            key = (pair.kind, pair.envelope, pair.mistake or "right", pair.every, settings)
            said.setdefault(key, Counter())[found.word] += 1
            if found.word != "same" and not pair.mistake:
                print(f"{pair.kind} {pair.envelope} {pair.every} {pair.gpu} {pair.tpu}: {found.line}", file=sys.stderr)
    if as_json:
        names = ("kind", "envelope", "mistake", "logging_steps", "settings")
        print(json.dumps([{**dict(zip(names, key, strict=True)), **words} for key, words in said.items()]))
        return 0
    total = Counter[str]()
    for settings, kind in itertools.product((True, False), KINDS):
        print(f"\n{kind}, {'settings beside the logs' if settings else 'the curves alone'}: called different, of")
        for name in ("right", *MISTAKES):
            cells = []
            for envelope, steps in itertools.product(ENVELOPES, (EVERY[:1], EVERY[1:])):
                keys = [(kind, envelope, name, every, settings) for every in steps]
                words = sum((said.get(key, Counter()) for key in keys), Counter[str]())
                total += words
                cells.append(f"{sum(words.values()) - words['same']:3d} of {sum(words.values()):3d}")
            print(f"  {name:22s}" + "   ".join(cells))
    columns = "; ".join(f"{envelope}, logged every step | every 5 and 10" for envelope in ENVELOPES)
    print(f"\n{sum(total.values())} comparisons; columns: {columns}")
    return 0


MODELS = {
    "lora_qwen3": ("Qwen/Qwen3-0.6B", "qwen3"),
    "lora_gemma3": ("google/gemma-3-1b-it", "gemma3"),
    "full_llama3": ("meta-llama/Llama-3.2-1B-Instruct", "llama3"),
}
VARIABLES = {
    "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=1",
}  # fmt: skip
MADE = "import sys; from porter.validate.stand_ins.stand_in import make_stand_in; make_stand_in(*sys.argv[1:])"


def train_scripts(root: Path, recipes: Sequence[str], side: str, seeds: Sequence[int]) -> None:
    """The scripts of bench/pairs under TRL, or their ports under Tunix, on a stand-in; libraries are imported once."""
    os.environ.update(VARIABLES)
    names = ["datasets", "transformers"]
    names += ["torch", "peft", "trl"] if side == "gpu" else ["jax", "optax", "orbax.checkpoint", "qwix"]
    for name in names:
        importlib.import_module(name)
    for recipe in recipes:
        model_id, family = MODELS[recipe]
        model = root / "models" / family
        if not (model / "finished").is_file():
            subprocess.run([sys.executable, "-c", MADE, str(model), model_id, family], cwd=ROOT, check=True)
        for seed in seeds:
            folder = root / recipe / f"{side}-{seed}"
            if (folder / "seconds").is_file():
                continue
            text = (PAIRS / f"{recipe}.py").read_text() if side == "gpu" else ported(recipe, root)
            text = text.replace("    seed=42,\n)", f"    seed={seed},\n)").replace(
                "mesh, seed=42,", f"mesh, seed={seed},"
            )
            text = text.replace(model_id, str(model.resolve())).replace(
                'report_to="none",', 'report_to="none", use_cpu=True,'
            )
            for name in ("rows.jsonl", "texts.jsonl"):
                text = text.replace(f'"{name}"', repr(str((root / name).resolve())))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "train.py").write_text(text)
            started = time.monotonic()
            code = os.waitstatus_to_exitcode(os.waitpid(_forked(folder), 0)[1])
            print(f"{recipe} {side} {seed}: exit {code}, {time.monotonic() - started:.0f} s", flush=True)
            if code == 0:
                (folder / "seconds").write_text(f"{time.monotonic() - started:.1f}\n")


def ported(recipe: str, root: Path) -> str:
    """The port that tpu-port makes of the recipe's script."""
    target = root / recipe / "train_tunix.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    call = "import sys; from porter.cli import main; main(sys.argv[1:])"
    words = [str(PAIRS / f"{recipe}.py"), "-o", str(target), "--force", "--no-color"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", call, *words], env=variables, capture_output=True, check=False)
    return target.read_text(encoding="utf-8")


def _forked(folder: Path) -> int:
    """The process id of a fork of this one, libraries imported, that runs train.py there."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    out = os.open("printed.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    code = 1
    try:
        sys.argv = ["train.py"]
        runpy.run_path("train.py", run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def rows(root: Path) -> None:
    """Rows that something can be learnt from: words of a prompt, sorted or turned round."""
    import random

    if (root / "texts.jsonl").is_file():
        return
    chance = random.Random(0)
    words = "ships sail over deep water while the clock counts bits and wires carry each edge to the next gate".split()
    made = []
    for _ in range(1700):
        asked = [chance.choice(words) for _ in range(chance.randint(2, 12))]
        answer = " ".join(reversed(asked)) if len(asked) % 2 else " ".join(sorted(asked))
        made.append({"prompt": "order " + " ".join(asked), "answer": answer})
    texts = [{"text": f"{row['prompt']} -> {row['answer']}"} for row in made[:797]]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    (root / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "judge", "trl"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipes", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[42, 1])
    parser.add_argument("--side", default="gpu", choices=["gpu", "tpu"])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "judge":
        return judge(asked.folder, asked.json)
    if asked.what == "train":
        train(asked.folder)
    else:
        rows(asked.folder)
        train_scripts(asked.folder, asked.recipes, asked.side, asked.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
