"""`tpu-port compare GPU_LOG TPU_LOG`: whether the TPU run was the GPU's run, by their logs."""

from __future__ import annotations

from pathlib import Path

import click

from .say import say

PATH = click.Path(path_type=Path)


@click.command("compare")
@click.argument("gpu_log", type=PATH)
@click.argument("tpu_log", type=PATH)
@click.option(
    "--second",
    type=PATH,
    multiple=True,
    metavar="LOG",
    help="Log of another GPU run of the same script, with another seed, to measure the envelope on; may be repeated.",
)
@click.option(
    "--source",
    type=PATH,
    metavar="FILE",
    help="The GPU run's script: the envelope is measured by training it on a tiny model, in bf16 and in float32.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2, max=16),
    default=4,
    show_default=True,
    help="How many runs of --source to measure on.",
)
@click.option("--launch-config", type=PATH, metavar="FILE", help="How the GPU run was launched: how many processes.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=3600, show_default=True, help="Seconds for each run of --source."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option(
    "--html", type=PATH, metavar="FILE", help="Write a page with both curves, their difference, the envelope."
)
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    gpu_log: Path,
    tpu_log: Path,
    second: tuple[Path, ...],
    source: Path | None,
    runs: int,
    launch_config: Path | None,
    timeout: float,
    as_json: bool,
    html: Path | None,
    no_color: bool,
) -> int:
    """Compare the logs of a GPU run and of its port's run on a TPU.

    A log is a trainer_state.json (or the folder that it lies in), TensorBoard's events, W&B's offline file or exported
    CSV, a run of MLflow's file store, or what the run printed. Settings, learning rates, epochs and tokens have to
    agree exactly; losses within an envelope that is measured on further GPU runs (--second) or on the script itself
    (--source). Exit codes: 0 the same, 3 not, 2 when the logs can't be compared or nothing was measured.
    """
    from ..compare.run import compare
    from ..compare.stand_in import stand_in_runs
    from ..errors import InputError

    if second and source:
        raise InputError("--second and --source both measure the envelope", fix="give one of them")
    stand_in = None
    if source is not None:
        stand_in = stand_in_runs(
            source, runs=runs, launch_config=launch_config, timeout=timeout, say=lambda line: say(line, err=True)
        )
    found = compare(gpu_log, tpu_log, second=second, stand_in=stand_in)
    if html is not None:
        from ..front.output import replace_file
        from ..report.comparison.page import comparison_page

        html.parent.mkdir(parents=True, exist_ok=True)
        replace_file(html, comparison_page(found).encode())
    if as_json:
        say(found.to_json())
    else:
        from ..report.comparison.terminal import show_comparison
        from ..report.terminal import console

        show_comparison(found, console(no_color=no_color))
        if html is not None:
            say(f"Wrote {html}")
    return found.exit_code
