"""`tpu-port validate SOURCE PORT`: train both, compare, verdict."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from .say import say

PATH = click.Path(path_type=Path)
FAMILIES = ("gemma", "gemma2", "gemma3", "gemma4", "llama2", "llama3", "mistral", "qwen2", "qwen3")


@click.command("validate", context_settings={"ignore_unknown_options": False})
@click.argument("source", type=PATH)
@click.argument("port", type=PATH)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
@click.option("--model", type=PATH, metavar="PATH", help="Folder of a small model. Default: a tiny one of the family.")
@click.option(
    "--family",
    type=click.Choice(FAMILIES),
    help="Family of the tiny model where a script's name for it tells none. Default: by what else the script says.",
)
@click.option("--data", type=PATH, metavar="FILE", help="JSON, CSV or parquet rows in place of the script's dataset.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="NAME=FILE",
    help="A real file for the path or the name of one that the scripts read; may be repeated.",
)
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
    "--hosts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run the port in N JAX processes too, which share the devices as the hosts of a TPU slice do.",
)
@click.option(
    "--processes",
    "how",
    type=click.Choice(["fold", "real"]),
    default="fold",
    show_default=True,
    help="A source for N processes: in one with its batches together, or as N.",
)
@click.option("--launch-config", type=PATH, metavar="FILE", help="How the GPU run was launched: how many processes.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900,
    show_default=True,
    help="Seconds for each run; the port may take three times its source's besides.",
)
@click.option(
    "--source-python", type=PATH, metavar="PATH", help="Python that has the source's releases of TRL and torch."
)
@click.option("--no-environments", is_flag=True, help="Make no environment for the source's releases; use this one.")
@click.option(
    "--copy-limit",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    metavar="MB",
    help="Scripts run in a copy of their folder, unless it is larger.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--html", type=PATH, metavar="FILE", help="Write a page with both loss curves and their difference.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    source: Path,
    port: Path,
    arguments: tuple[str, ...],
    model: Path | None,
    family: str | None,
    data: Path | None,
    files: tuple[str, ...],
    steps: int,
    dtype: str,
    mesh: str | None,
    meshes: tuple[str, ...],
    quick: bool,
    devices: int,
    hosts: int,
    how: str,
    launch_config: Path | None,
    timeout: float,
    source_python: Path | None,
    no_environments: bool,
    copy_limit: int,
    as_json: bool,
    html: Path | None,
    no_color: bool,
) -> int:
    """Train the source under TRL and its port under Tunix, and compare them step by step.

    SOURCE and PORT are scripts or notebooks, whose cells run in their order as one program; what they install or start
    in a shell is not run.

    Both scripts run unmodified, each in its own process on the CPU, on a tiny model of the same family. Words after
    `--` are given to both scripts. Exit codes: 0 equal, 3 not (also when the port fails where the source doesn't),
    2 when there is no verdict because the source itself can't be run. --json prints an object in any case, whose
    "verdict" is equal, differs or none.
    """
    from ..errors import InputError
    from ..meshes import parse_mesh
    from ..source.notebooks.program import is_notebook, read_program
    from ..validate.comparing.verdict import NoVerdict
    from ..validate.helping import crash_of, help_for, last_error
    from ..validate.options import Options
    from ..validate.run import processes_of, validate
    from ..validate.running.processes import RunFailed

    started = time.monotonic()
    try:
        options = Options(
            model=model,
            family=family,
            data=data,
            files=tuple(named_file(text) for text in files),
            steps=steps,
            dtype="bf16" if dtype == "bf16" else "float32",
            mesh=parse_mesh(mesh) if mesh else None,
            meshes=tuple(parse_mesh(text) for text in meshes) if meshes or quick else None,
            devices=devices,
            hosts=hosts,
            processes=processes_of(port, launch_config),
            how="real" if how == "real" else "fold",
            timeout=timeout,
            arguments=arguments,
            source_python=source_python,
            environments=not no_environments,
            copy_limit=copy_limit * 1_000_000,
        )
        verdict = validate(source, port, options, say=lambda line: say(line, err=True))
    except InputError as error:
        if not as_json:
            raise
        say(f"tpu-port: {error}", err=True)
        reason = f"{error.place}: {error.message}" if error.place else error.message
        say(NoVerdict(str(source), str(port), reason, error.fix).to_json())
        return 2
    except RunFailed as failure:
        said, advice = failure.output.rstrip(), help_for(failure.output, failure.reason)
        reason = str(failure)
        if said and failure.reason.startswith("crashed"):
            crash = crash_of(said, source if failure.side == "source" else port)
            place = f"cell {crash.cell}, line {crash.line}: " if crash.cell else ""
            reason = f"{failure}: {place}{last_error(said)}"
        say(said, err=True)
        script = source if failure.side == "source" else port
        for line in read_program(script).left_out if is_notebook(script) else ():
            say(f"tpu-port: {line}", err=True)
        say(f"tpu-port: no verdict: {reason}{f'; {advice}' if advice else ''}", err=True)
        if as_json:
            nothing = NoVerdict(str(source), str(port), reason, advice, output=said)
            # Of a port that this machine can't run, the source's time is in it.
            spent = time.monotonic() - started
            say(replace(nothing, seconds_source=spent).to_json())
        return 2

    if html is not None:
        from ..front.output import replace_file
        from ..report.html import verdict_page

        html.parent.mkdir(parents=True, exist_ok=True)
        replace_file(html, verdict_page(verdict).encode())
    if as_json:
        say(verdict.to_json())
    else:
        from ..report.terminal import console
        from ..report.verdict import show_verdict

        show_verdict(verdict, console(no_color=no_color))
        if html is not None:
            say(f"Wrote {html}")
    return verdict.exit_code


def named_file(text: str) -> tuple[str, Path]:
    """The name and the file of `--file NAME=FILE`; InputError for anything else."""
    from ..errors import InputError

    name, sign, file = text.partition("=")
    if not (name and sign and file):
        raise InputError(f"--file {text!r}: no NAME=FILE", fix="for example --file data/train.jsonl=small.jsonl")
    return name, Path(file)
