"""`tpu-port plan PORT --tpu v5p-8`: the mesh, remat and micro-batch to run it with, and what that costs."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from .say import say

PATH = click.Path(path_type=Path)


@click.command("plan")
@click.argument("port", type=PATH)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--tpu", required=True, metavar="SLICES", help="One slice or several: v5p-8,v6e-8.")
@click.option("--apply", is_flag=True, help="Write the best plan into the port: needs -o. SOURCE may be a TRL script.")
@click.option("-o", "--output", type=PATH, metavar="OUT", help="Where --apply writes the port.")
@click.option("--force", is_flag=True, help="Replace what OUT names.")
@click.option("--compare", is_flag=True, help="Show only each slice's best.")
@click.option("--seq-len", type=click.IntRange(min=1), help="Tokens of a row. Default: the script's max_length.")
@click.option("--prompt-len", type=click.IntRange(min=1), help="Tokens of the longest prompt that is sampled after.")
@click.option("--completion-len", type=click.IntRange(min=1), help="Tokens of a completion. Default: the script's.")
@click.option("--batch", type=click.IntRange(min=1), help="Rows of a micro-batch, whole mesh. Default: tried out.")
@click.option(
    "--remat",
    type=click.Choice(["any", "none", "decoder"]),
    default="any",
    show_default=True,
    help="Only plans with it.",
)
@click.option("--candidates", type=click.IntRange(min=0), default=3, show_default=True, help="How many to compile.")
@click.option("--full", is_flag=True, help="Compile the winner with all its layers.")
@click.option("--model", type=PATH, metavar="PATH", help="config.json (or its folder) in place of the script's model.")
@click.option(
    "--lengths", metavar="WHAT", help="Tokens of the rows: a file of numbers, a dataset on disk, or mean=922,p99=2553."
)
@click.option("--rows", type=click.IntRange(min=1), default=10_000, show_default=True, help="Assumed dataset rows.")
@click.option("--price", type=click.FloatRange(min=0), help="Your price, USD a chip-hour.")
@click.option("--timeout", type=click.FloatRange(min=1), default=3600, show_default=True, help="Seconds a compile.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    port: Path,
    arguments: tuple[str, ...],
    tpu: str,
    apply: bool,
    output: Path | None,
    force: bool,
    compare: bool,
    seq_len: int | None,
    prompt_len: int | None,
    completion_len: int | None,
    batch: int | None,
    remat: str,
    candidates: int,
    full: bool,
    model: Path | None,
    lengths: str | None,
    rows: int,
    price: float | None,
    timeout: float,
    as_json: bool,
    no_color: bool,
) -> int:
    """Find the mesh, remat and micro-batch for a TPU slice by compiling the step of the port, a script or a notebook.

    Nothing is written without --apply. Exit codes: 0 a plan was found, 1 nothing fits, 2 bad input, 3 the script can't
    be traced.
    """
    if apply != (output is not None) or (apply and "," in tpu):
        raise click.UsageError("--apply and -o OUT go together, with one slice")
    if lengths and seq_len:
        raise click.UsageError("--lengths says how long rows are: leave out --seq-len")
    from ..front.output import check_output, replace_file
    from ..tpu.apply import applied_to, port_of, unwritten
    from ..tpu.compile import CompileFailed, Request
    from ..tpu.lengths import read_lengths
    from ..tpu.plan import longest_row, plan
    from ..tpu.slices import slice_named

    say(f"tpu-port: runs {port} up to its first training step", err=True)
    plans = []
    ported = None
    if apply and output is not None:
        check_output(port, output, force=force)
        ported = port_of(port)
        # Beside the source, whose modules it may import; gone again when the command ends.
        port = port.with_name(f".{port.stem}.{os.getpid()}{'.py' if ported.notebook is None else '.ipynb'}")
        port.write_bytes(ported.data)
        click.get_current_context().call_on_close(lambda: port.unlink(missing_ok=True))
    for name in tpu.split(","):
        request = Request(
            script=port,
            slice=slice_named(name),
            seq_len=seq_len,
            batch=batch,
            remat="script" if remat == "any" else remat,
            model=model,
            rows=rows,
            prompt_len=prompt_len,
            completion_len=completion_len,
            arguments=arguments,
        )
        tell = partial(say, err=True)
        try:
            known = read_lengths(lengths, longest_row(request)) if lengths else ()
            found = plan(request, compiled=candidates, full=full, lengths=known, price=price, say=tell, timeout=timeout)
            plans.append(found)
        except CompileFailed as failure:
            say(failure.output, err=True)
            say(f"tpu-port: {failure}", err=True)
            return 3
    if model is not None and len(plans[0].step.models) > 1:
        say(f"tpu-port: --model {model} stands for {' and '.join(plans[0].step.models)}", err=True)
    if as_json:
        from ..report.json import to_text
        from ..report.tpu import plan_document

        say(to_text(plan_document(plans)))
    else:
        from ..report.tpu import show_comparison, show_plan

        if not compare:
            for found in plans:
                show_plan(found, no_color=no_color)
        if compare or len(plans) > 1:
            show_comparison(plans, no_color=no_color)
    if ported is not None and output is not None and plans[0].best is not None:
        replace_file(output, applied_to(ported, plans[0]))
        say(f"Wrote {output}", err=as_json)
        if left := unwritten(plans[0]):
            say(left, err=as_json)
    return 0 if all(found.best is not None for found in plans) else 1
