"""`tpu-port compile PORT --tpu v5p-8`: the ported step under the real TPU compiler, without a TPU."""

from __future__ import annotations

from pathlib import Path

import click

from .say import say

PATH = click.Path(path_type=Path)


@click.command("compile")
@click.argument("port", type=PATH)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--tpu", required=True, metavar="SLICE", help="The slice, such as v5p-8.")
@click.option("--mesh", metavar="AXES", help="Such as fsdp=4,tp=1. Default: as the port says.")
@click.option("--seq-len", type=click.IntRange(min=1), help="Tokens of a row. Default: the script's max_length.")
@click.option("--prompt-len", type=click.IntRange(min=1), help="Tokens of the longest prompt that is sampled after.")
@click.option("--completion-len", type=click.IntRange(min=1), help="Tokens of a completion. Default: the script's.")
@click.option("--batch", type=click.IntRange(min=1), help="Rows of a micro-batch, whole mesh. Default: the script's.")
@click.option(
    "--remat",
    type=click.Choice(["script", "none", "decoder"]),
    default="script",
    show_default=True,
    help="Recompute activations, whatever the script says.",
)
@click.option("--query-block", type=click.IntRange(min=1), help="Queries that attend at a time: rt.attend_in_blocks.")
@click.option("--layers", type=click.IntRange(min=1), help="Compile only the first N decoder layers.")
@click.option("--model", type=PATH, metavar="PATH", help="config.json (or its folder) in place of the script's model.")
@click.option("--rows", type=click.IntRange(min=1), default=10_000, show_default=True, help="Assumed dataset rows.")
@click.option(
    "--quick", is_flag=True, help="Let XLA optimise less: several times faster, figures within a few per cent."
)
@click.option("--timeout", type=click.FloatRange(min=1), default=3600, show_default=True, help="Seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    port: Path,
    arguments: tuple[str, ...],
    tpu: str,
    mesh: str | None,
    seq_len: int | None,
    prompt_len: int | None,
    completion_len: int | None,
    batch: int | None,
    remat: str,
    query_block: int | None,
    layers: int | None,
    model: Path | None,
    rows: int,
    quick: bool,
    timeout: float,
    as_json: bool,
    no_color: bool,
) -> int:
    """Compile the training step of a port (script or notebook) for a TPU slice: memory, FLOPs, collectives, time.

    And what its run computes beside it: a reference's or a teacher's pass, sampling, log-probabilities. No weights and
    no data are loaded. Exit codes: 0 it fits, 1 out of memory, 2 bad input, 3 it doesn't compile.
    """
    from ..tpu.compile import CompileFailed, Request
    from ..tpu.slices import mesh_of, slice_named
    from ..tpu.step import compile_or_estimate

    where = slice_named(tpu)
    say(f"tpu-port: runs {port} up to its first training step", err=True)
    request = Request(
        script=port,
        slice=where,
        mesh=mesh_of(mesh, where) if mesh else None,
        seq_len=seq_len,
        batch=batch,
        remat=remat,
        query_block=query_block,
        layers=layers,
        model=model,
        rows=rows,
        prompt_len=prompt_len,
        completion_len=completion_len,
        arguments=arguments,
        quick=quick,
    )
    try:
        found = compile_or_estimate(request, say=lambda line: say(line, err=True), timeout=timeout)
    except CompileFailed as failure:
        say(failure.output, err=True)
        say(f"tpu-port: {failure}", err=True)
        return 3
    if model is not None and len(found.step.models) > 1:
        say(f"tpu-port: --model {model} stands for {' and '.join(found.step.models)}", err=True)
    if as_json:
        from ..report.json import to_text
        from ..report.tpu import step_document

        say(to_text(step_document(found, where)))
    else:
        from ..report.tpu import show_step

        show_step(found, where, no_color=no_color)
        if found.advice:
            say(found.advice)
    return 1 if found.lacking[1] else 0
