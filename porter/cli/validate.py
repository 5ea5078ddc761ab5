"""`tpu-port validate SOURCE PORT`: train both, compare, verdict."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(path_type=Path)


@click.command("validate", context_settings={"ignore_unknown_options": False})
@click.argument("source", type=PATH)
@click.argument("port", type=PATH)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--model", type=PATH, metavar="PATH", help="Folder of a small model. Default: a tiny one of the family.")
@click.option("--data", type=PATH, metavar="FILE", help="JSON, CSV or parquet rows in place of the script's dataset.")
@click.option("--steps", type=click.IntRange(min=1), default=30, show_default=True, help="Optimizer steps to train.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bf16"]),
    default="float32",
    show_default=True,
    help="float32 whatever the source's precision, or the source's own (tolerances for bf16).",
)
@click.option("--mesh", metavar="AXES", help="The port's mesh, such as fsdp=2,tp=4. Default: as the port says.")
@click.option("--meshes", multiple=True, metavar="AXES", help="Compare the port on this mesh too; may be repeated.")
@click.option("--quick", is_flag=True, help="Leave out the runs on other numbers of devices.")
@click.option("--devices", type=click.IntRange(min=1), default=8, show_default=True, help="Simulated CPU devices.")
@click.option(
    "--processes",
    "how",
    type=click.Choice(["fold", "real"]),
    default="fold",
    show_default=True,
    help="A source for N processes: in one with its batches together, or as N.",
)
@click.option("--launch-config", type=PATH, metavar="FILE", help="How the GPU run was launched: how many processes.")
@click.option("--timeout", type=click.FloatRange(min=1), default=900, show_default=True, help="Seconds for each run.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--html", type=PATH, metavar="FILE", help="Write a page with both loss curves and their difference.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    source: Path,
    port: Path,
    arguments: tuple[str, ...],
    model: Path | None,
    data: Path | None,
    steps: int,
    dtype: str,
    mesh: str | None,
    meshes: tuple[str, ...],
    quick: bool,
    devices: int,
    how: str,
    launch_config: Path | None,
    timeout: float,
    as_json: bool,
    html: Path | None,
    no_color: bool,
) -> int:
    """Train the source under TRL and its port under Tunix, and compare them step by step.

    Both scripts run unmodified, each in its own process on the CPU, on a tiny model of the same family. Words after
    `--` are given to both scripts. Exit codes: 0 equal, 3 not, 2 when the source itself can't be run.
    """
    from ..meshes import parse_mesh
    from ..validate.processes import RunFailed
    from ..validate.run import Options, processes_of, validate

    options = Options(
        model=model,
        data=data,
        steps=steps,
        dtype="bf16" if dtype == "bf16" else "float32",
        mesh=parse_mesh(mesh) if mesh else None,
        meshes=tuple(parse_mesh(text) for text in meshes) if meshes or quick else None,
        devices=devices,
        processes=processes_of(port, launch_config),
        how="real" if how == "real" else "fold",
        timeout=timeout,
        arguments=arguments,
    )
    try:
        verdict = validate(source, port, options, say=lambda line: click.echo(line, err=True))
    except RunFailed as failure:
        click.echo(failure.output, err=True)
        click.echo(f"tpu-port: {failure}", err=True)
        return 2 if failure.side == "source" else 3

    if html is not None:
        from ..output import replace_file
        from ..report.html import verdict_page

        html.parent.mkdir(parents=True, exist_ok=True)
        replace_file(html, verdict_page(verdict).encode())
    if as_json:
        click.echo(verdict.to_json())
    else:
        from ..report.terminal import console
        from ..report.verdict import show_verdict

        show_verdict(verdict, console(no_color=no_color))
        if html is not None:
            click.echo(f"Wrote {html}")
    return verdict.exit_code
