"""`tpu-port export CHECKPOINT`: a trained checkpoint as a PEFT adapter or as merged weights."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import click

from ..errors import InputError
from .say import say

PATH = click.Path(path_type=Path)
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@click.command("export")
@click.argument("checkpoint")
@click.option(
    "--base", type=PATH, required=True, metavar="MODEL_DIR", help="Folder of the model that was trained (HF format)."
)
@click.option("-o", "--output", type=PATH, metavar="OUT", help="Folder to write.")
@click.option("--merged", is_flag=True, help="The whole model with the adapters merged in, sharded like the base.")
@click.option("--check", is_flag=True, help="Compare logits: PEFT, transformers and Tunix. Without -o: only that.")
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="The run's step to export. Default: the latest.")
@click.option("--rank", type=click.IntRange(min=1), help="LoRA rank, of a run without tpu_port.json.")
@click.option("--alpha", type=float, help="LoRA alpha, of a run without tpu_port.json.")
@click.option(
    "--targets", metavar="NAMES", help="LoRA target_modules (q_proj,v_proj, all-linear or a regex), to be checked."
)
@click.option("--dtype", type=click.Choice(list(DTYPES)), help="Store whole models in this. Default: as the base.")
@click.option("--max-shard-size", metavar="SIZE", help="Split whole models anew, such as 5GB. Default: as the base.")
@click.option("--force", is_flag=True, help="Write into a folder that isn't empty; take a base that looks different.")
@click.option("--allow-nan", is_flag=True, help="Export adapters that hold NaN or infinity.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    checkpoint: str,
    base: Path,
    output: Path | None,
    merged: bool,
    check: bool,
    step: int | None,
    rank: int | None,
    alpha: float | None,
    targets: str | None,
    dtype: str | None,
    max_shard_size: str | None,
    force: bool,
    allow_nan: bool,
    as_json: bool,
    no_color: bool,
) -> int:
    """Export a checkpoint of Tunix's PeftTrainer to what PEFT, transformers and vLLM load.

    The default is the PEFT adapter, which loses nothing. CHECKPOINT is the run's folder or one step in it. An
    interrupted --merged export goes on when the same command is run again. Exit codes: 0 done, 3 --check says no.
    """
    if output is None and not check:
        raise click.UsageError("give -o OUT, or --check to verify only")
    # Threads are ours, a block each: more of them inside a product of small matrices only wait for each other.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        from ..export.run import Options, export
        from ..export.trained import Told
    except ModuleNotFoundError as error:
        raise InputError(f"export needs {error.name}", fix="pip install 'tpu-port[tpu]'") from error
    from ..report.export import export_document, progress_bar, show_check, show_export
    from ..report.json import to_text
    from ..report.terminal import console

    options = Options(
        merged=merged,
        step=step,
        told=Told(rank, alpha, _targets(targets)),
        dtype=DTYPES[dtype] if dtype else None,
        max_shard_size=_bytes(max_shard_size) if max_shard_size else None,
        force=force,
        allow_nan=allow_nan,
    )
    with tempfile.TemporaryDirectory() as aside:
        with progress_bar("Exporting", quiet=as_json) as progress:
            exported = export(checkpoint, base, output or Path(aside) / "export", options, progress)
        checked = None
        if check:
            from ..export.check import check_export

            checked = check_export(checkpoint, base, exported, options)
    if as_json:
        say(to_text(export_document(exported, checked)))
    else:
        out = console(no_color=no_color)
        show_export(exported if output is not None else exported.unwritten(), out)
        if checked is not None:
            show_check(checked, out)
    return 0 if checked is None or checked.equal else 3


def _targets(text: str | None) -> tuple[str, ...] | str | None:
    """PEFT's two kinds of target_modules: names, or one regular expression (and its word for all of them)."""
    if text is None or text == "all-linear" or re.search(r"[\\^$*+?()|\[\]]", text):
        return text
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _bytes(text: str) -> int:
    """`5GB` → 5000000000, as transformers reads it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?B)?", text.strip().upper())
    if not found or float(found[1]) <= 0:
        raise click.UsageError(f"--max-shard-size {text!r} is no size; write it as 5GB")
    return int(float(found[1]) * SIZES[found[2] or ""])
