"""How long a merge takes and how much memory, beside a plain copy, PEFT, and the whole model in memory.

    python bench/export.py [--gb 8] [--rank 16] [--folder DIR] [--json]

A synthetic Qwen3 in bfloat16 of about `--gb` gigabytes, in shards of 2 GB, and adapters on its seven linears. Every way
starts with the base out of the page cache and ends with its output on the disk (fsync), in a process of its own.

- copy: the same files, by the kernel. math: the products and sums alone, by torch's bfloat16 addmm on all cores, in
  memory. `ours_over_copy` is our time over copy + math; `ours_over_copy_cpu` the same of CPU seconds, which other
  programs on the machine disturb less.
- PEFT: from_pretrained in bfloat16, merge_and_unload, save_pretrained. memory: every tensor read, merged by torch,
  saved by safetensors.
- `ours_peak_gb`: the largest resident memory of our process, less that of one that only imports the same.

This is a measurement, never a test: machines, disks and their load differ.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHAPE = {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8}
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **SHAPE, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": True, "dtype": "bfloat16", "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
}  # fmt: skip
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SHARD = 2_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gb", type=float, default=8.0, help="gigabytes of the base (default 8)")
    parser.add_argument("--rank", type=int, default=16, help="rank of the adapters (default 16)")
    parser.add_argument("--folder", type=Path, help="where to write; three times the base's size must fit")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--way", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        way, base, run, out = arguments.way
        began = time.perf_counter(), cpu_seconds()
        WAYS[way](Path(base), Path(run), Path(out))
        sync(Path(out))
        report(began)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bench-export-") as temporary:
        document = measure(Path(temporary), arguments.gb, arguments.rank)
    print(json.dumps(document, indent=2) if arguments.json else table(document))


def measure(folder: Path, gb: float, rank: int) -> dict[str, Any]:
    """Every way once, the base out of the page cache before each."""
    base, run = make_base(folder / "base", gb), folder / "run"
    make_run(run, base, rank)
    size = sum(file.stat().st_size for file in base.iterdir())
    found = {}
    for way in WAYS:
        out = folder / "out"
        forget(base)
        words = [sys.executable, __file__, "--way", way, str(base), str(run), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT.get(way, {})})
        if done.returncode:
            sys.exit(f"{way} fails: {done.stderr.strip()[-800:]}")
        found[way] = json.loads(done.stdout.splitlines()[-1])
        if way == "ours":
            agreement = furthest(base, run, out)
        shutil.rmtree(out, ignore_errors=True)
    seconds = {way: result["seconds"] for way, result in found.items()}
    cpu = {way: result["cpu"] for way, result in found.items()}
    return {
        "gigabytes": size / 1e9,
        "rank": rank,
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_gb": {way: result["peak"] / 1e9 for way, result in found.items()},
        "ours_over_copy": seconds["ours"] / (seconds["copy"] + seconds["math"]),
        "ours_over_plain_copy": seconds["ours"] / seconds["copy"],
        "ours_over_copy_cpu": cpu["ours"] / (cpu["copy"] + cpu["math"]),
        "ours_over_peft": seconds["ours"] / seconds["peft"],
        "ours_over_memory": seconds["ours"] / seconds["memory"],
        "ours_peak_gb": (found["ours"]["peak"] - found["imports"]["peak"]) / 1e9,
        "furthest_from_exact_ulp": agreement,
    }


def imports(base: Path, run: Path, out: Path) -> None:
    import tensorstore  # noqa: F401

    import porter.export.run  # noqa: F401

    out.mkdir()


def copy(base: Path, run: Path, out: Path) -> None:
    out.mkdir()
    for file in base.iterdir():
        with file.open("rb") as source, (out / file.name).open("wb") as target:
            at, size = 0, file.stat().st_size
            while at < size:
                at += os.copy_file_range(source.fileno(), target.fileno(), size - at)
            os.fsync(target.fileno())


def ours(base: Path, run: Path, out: Path) -> None:
    from porter.cli import run as tpu_port

    words = ["export", str(run), "--base", str(base), "-o", str(out), "--merged", "--json"]
    with open(os.devnull, "w") as nowhere:
        stdout, sys.stdout = sys.stdout, nowhere
        code = tpu_port(words)
        sys.stdout = stdout
    if code:
        sys.exit(f"exit code {code}")


def math(base: Path, run: Path, out: Path) -> None:
    import torch

    from porter.export.base import open_base

    out.mkdir()
    rank = json.loads((run / "tpu_port.json").read_text())["lora"]["r"]
    shapes = [t.shape for t in open_base(base).tensors.values() if t.name.split(".")[-2] in SEVEN]
    weights = {shape: torch.randn(shape, dtype=torch.bfloat16) for shape in set(shapes)}
    factors = {s: (torch.randn(s[0], rank).bfloat16(), torch.randn(rank, s[1]).bfloat16()) for s in weights}
    began = time.perf_counter(), cpu_seconds()
    for shape in shapes:
        torch.addmm(weights[shape], *factors[shape])
    report(began)
    os._exit(0)  # without the time that went into making the factors


def peft(base: Path, run: Path, out: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    model = PeftModel.from_pretrained(model, str(run.parent / "adapter")).merge_and_unload()
    model.save_pretrained(out, max_shard_size="2GB")


def memory(base: Path, run: Path, out: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    adapter = load_file(run.parent / "adapter" / "adapter_model.safetensors")
    shards = {file.name: load_file(file) for file in sorted(base.glob("*.safetensors"))}
    for tensors in shards.values():
        for name, weight in tensors.items():
            a = adapter.get(f"base_model.model.{name.removesuffix('.weight')}.lora_A.weight")
            if a is not None:
                b = adapter[f"base_model.model.{name.removesuffix('.weight')}.lora_B.weight"]
                tensors[name] = (weight.float() + 2.0 * (b @ a)).to(torch.bfloat16)
    out.mkdir()
    for name, tensors in shards.items():
        save_file(tensors, out / name, metadata={"format": "pt"})


WAYS = {"copy": copy, "imports": imports, "math": math, "ours": ours, "memory": memory, "peft": peft}
ENVIRONMENT = {"imports": {"OPENBLAS_NUM_THREADS": "1"}}


def make_base(folder: Path, gb: float) -> Path:
    """A Qwen3 with as many layers as come closest to `gb`, its weights normal with deviation 0.02."""
    import numpy as np

    from porter.runtime.facts.families import find_family

    family = find_family("Qwen3ForCausalLM")
    assert family is not None
    folder.mkdir()
    one = {**CONFIG, "num_hidden_layers": 1}
    sizes = {t.hf: 2 * int(np.prod(t.shape_hf)) for t in family.tensors(one)}
    layer = sum(size for name, size in sizes.items() if ".layers." in name)
    layers = max(1, round((gb * 1e9 - sum(sizes.values()) + layer) / layer))
    config = {**CONFIG, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config))
    normal = np.random.default_rng(0).normal(0, 0.02, 8 << 20).astype(np.float32).view(np.uint32)
    block = ((normal + 0x8000) >> 16).astype("<u2").tobytes()
    shards: list[list[Any]] = [[]]
    room = SHARD
    for tensor in family.tensors(config):
        size = 2 * int(np.prod(tensor.shape_hf))
        if size > room and shards[-1]:
            shards.append([])
            room = SHARD
        room -= size
        shards[-1].append(tensor)
    weight_map = {}
    for i, tensors in enumerate(shards, 1):
        name, header, at = f"model-{i:05d}-of-{len(shards):05d}.safetensors", {}, 0
        for tensor in tensors:
            size = 2 * int(np.prod(tensor.shape_hf))
            header[tensor.hf] = {"dtype": "BF16", "shape": list(tensor.shape_hf), "data_offsets": [at, at + size]}
            at += size
            weight_map[tensor.hf] = name
        text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
        text += b" " * (-len(text) % 8)
        with (folder / name).open("wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            while at:
                at -= stream.write(block[:at])
            os.fsync(stream.fileno())
    document = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))
    return folder


def make_run(folder: Path, base: Path, rank: int) -> None:
    """A checkpoint of adapters in Orbax's files, and the same as a PEFT adapter beside it."""
    import numpy as np
    import tensorstore

    from porter.export.run import export
    from porter.runtime.facts import sidecar
    from porter.runtime.facts.families import find_family
    from porter.runtime.facts.lora_targets import resolve
    from porter.runtime.facts.peft_targets import LoraSpec

    config = json.loads((base / "config.json").read_text())
    family = find_family("Qwen3ForCausalLM")
    assert family is not None
    spec = LoraSpec(r=rank, lora_alpha=2 * rank, target_modules=SEVEN)
    item = folder / "1" / "model_params"
    item.mkdir(parents=True)
    tree, draw = {}, np.random.default_rng(1)
    sites = resolve(family, config, spec)
    inner = {linear.tunix: linear for linear in family.linears(config)}
    for site in sites:
        split, (out, _) = inner[site.path].tensor.split, inner[site.path].shape_hf
        at = next(i for i in range(1, len(split)) if int(np.prod(split[:i])) == out)
        for half, shape in (("a", (*split[at:], rank)), ("b", (rank, *split[:at]))):
            keys = [*site.path.split("/"), f"{site.weight}_lora_{half}", "value"]
            store = {"driver": "ocdbt", "base": f"file://{item}/", "path": ".".join(keys)}
            opened = tensorstore.open(
                {"driver": "zarr", "kvstore": store}, create=True, dtype="float32", shape=shape
            ).result()
            opened.write((0.01 * draw.standard_normal(shape)).astype(np.float32)).result()
            tree[str(keys)] = {"key_metadata": [{"key": key, "key_type": 2} for key in keys]}
    (item / "_METADATA").write_text(json.dumps({"tree_metadata": tree, "use_ocdbt": True}))
    described = {
        "format": sidecar.FORMAT,
        "base": {"id": str(base), "config": config, "config_sha256": sidecar.config_hash(config)},
        "lora": {
            "r": rank, "lora_alpha": 2 * rank, "target_modules": SEVEN,
            "sites": [
                {"path": s.path, "weight": s.weight, "slots": s.slots, "alpha": s.alpha,
                 "blocks": [vars(block) for block in s.blocks]} for s in sites
            ],
        },
    }  # fmt: skip
    (folder / sidecar.NAME).write_text(json.dumps(described))
    export(folder, base, folder.parent / "adapter")


def furthest(base: Path, run: Path, out: Path) -> float:
    """The largest distance of sampled merged weights from the exact sums, in units of their last place."""
    import numpy as np
    from safetensors.numpy import load_file

    from porter.export.base import Stored, open_base

    adapter = load_file(run.parent / "adapter" / "adapter_model.safetensors")
    worst = 0.0

    def row(path: Path, tensor: Stored, index: int) -> Any:
        with path.open("rb") as stream:
            stream.seek(tensor.start + index * tensor.shape[1] * 2)
            raw = np.frombuffer(stream.read(tensor.shape[1] * 2), "<u2")
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    for shard in open_base(base).shards:
        for tensor in shard.tensors[:: max(1, len(shard.tensors) // 7)]:
            a = adapter.get(f"base_model.model.{tensor.name.removesuffix('.weight')}.lora_A.weight")
            if a is None:
                continue
            b = adapter[f"base_model.model.{tensor.name.removesuffix('.weight')}.lora_B.weight"]
            for index in (0, tensor.shape[0] // 2, tensor.shape[0] - 1):
                exact = row(shard.path, tensor, index) + 2.0 * b[index].astype(np.float64) @ a.astype(np.float64)
                unit = 2.0 ** (np.floor(np.log2(np.abs(exact) + 1e-30)) - 7)
                worst = max(worst, float((np.abs(row(out / shard.name, tensor, index) - exact) / unit).max()))
    return worst


def forget(folder: Path) -> None:
    """Takes a folder's files out of the page cache."""
    os.sync()
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync(folder: Path) -> None:
    for file in folder.glob("*"):
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())


def report(began: tuple[float, float]) -> None:
    """What one way took, as its last line."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cpu = cpu_seconds() - began[1]
    print(json.dumps({"seconds": time.perf_counter() - began[0], "cpu": cpu, "peak": peak}), flush=True)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def table(document: dict[str, Any]) -> str:
    """The measurement as text."""
    lines = [
        f"{document['gigabytes']:.2f} GB, rank {document['rank']}, {document['cores']} cores, "
        f"load {document['load_before']:.1f}"
    ]
    for way in ("copy", "math", "ours", "memory", "peft"):
        lines.append(
            f"{way:>7}: {document['seconds'][way]:7.1f} s, "
            f"{document['cpu_seconds'][way]:6.1f} s of CPU, peak {document['peak_gb'][way]:5.2f} GB"
        )
    lines.append(
        f"ours: {document['ours_over_copy']:.2f} × (copy + math), {document['ours_over_copy_cpu']:.2f} × their CPU, "
        f"{document['ours_over_plain_copy']:.2f} × copy, "
        f"{document['ours_over_memory']:.2f} × memory, {document['ours_over_peft']:.2f} × PEFT; "
        f"{document['ours_peak_gb']:.2f} GB beyond Python and libraries; at most "
        f"{document['furthest_from_exact_ulp']:.3f} ulp from the exact sum"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
