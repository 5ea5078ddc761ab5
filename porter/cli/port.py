"""`tpu-port SOURCE`: port one script, show the change, write it where -o says."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..files import is_folder
from ..safety.limits import BUDGET
from .say import say

if TYPE_CHECKING:
    from ..port import Options

COMMANDS = ("validate", "export", "rules", "doctor")
PATH = click.Path(path_type=Path)


@click.command("port")
@click.argument("source", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="OUT",
    help="Write the port here; beside it OUT.recipe.json, and modules of its project that change as NAME_tunix.py. A "
    "folder for a folder.",
)
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@click.option(
    "--launch-config",
    type=PATH,
    metavar="FILE",
    help="How the GPU run was launched: accelerate YAML, DeepSpeed JSON or shell script.",
)
@click.option("--processes", type=click.IntRange(min=1), metavar="N", help="GPU processes of the source's run.")
@click.option("--mesh", metavar="AXES", help="Device mesh, such as fsdp=2,tp=4. Default: all devices on fsdp.")
@click.option(
    "--source-trl", metavar="VERSION", help="The TRL that the source was written for. Default: what it pins or uses."
)
@click.option("--rules", type=PATH, multiple=True, metavar="PATH", help="A further pack of rules; may be repeated.")
@click.option("--select", multiple=True, metavar="RULE", help="Use these rules only; may be repeated.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave these rules out; may be repeated.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=BUDGET,
    show_default=True,
    metavar="SECONDS",
    help="Processor time for one script, after which it is refused; by the clock, ten times as much.",
)
@click.option("--vendor", is_flag=True, help="Copy the runtime beside the port, so that it doesn't need tpu-port.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(
    source: Path,
    output: Path | None,
    force: bool,
    launch_config: Path | None,
    processes: int | None,
    mesh: str | None,
    source_trl: str | None,
    rules: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    budget: float,
    vendor: bool,
    as_json: bool,
    no_color: bool,
) -> int:
    """Port a script, a notebook or a folder of them, and show the change (the default command).

    Without -o nothing is written. Defaults of the options come from [tool.tpu-port] in the nearest pyproject.toml.
    """
    from ..front.output import check_output, write_port
    from ..front.port_script import port_script
    from ..front.project import installed_packs, read_project
    from ..front.trust import allowed_packs
    from ..port import Options

    if not source.suffix and not os.path.exists(source) and (close := get_close_matches(source.name, COMMANDS, n=1)):
        raise click.UsageError(f"there is no file or command {source}; did you mean `tpu-port {close[0]}`?")
    if output is None and vendor:
        raise click.UsageError("--vendor copies the runtime beside the port: it needs -o OUT")
    project = read_project(source)
    if project.said:
        say(f"tpu-port: settings from {project.path}: {', '.join(project.said)}", err=True)
    options = Options(
        launch_config=launch_config or project.launch_config,
        mesh=mesh or project.mesh,
        source_trl=_version(source_trl or project.source_trl),
        rules=(*rules, *allowed_packs(project, rules), *installed_packs()),
        select=_names(select) or project.select,
        ignore=_names(ignore) or project.ignore,
        processes=processes or project.processes,
        vendor=vendor,
        budget=budget,
    )
    if is_folder(source):
        return _port_folder(source, output, options, force=force, as_json=as_json, no_color=no_color)
    if output is not None:
        check_output(source, output, force=force)
    port = port_script(source, options)
    written = write_port(port, output, force=force, vendor=vendor) if output is not None else ()

    if as_json:
        from ..report.json import port_document, to_text

        say(to_text(port_document(port, output)))
    else:
        from ..report.terminal import console, show_port

        show_port(port, output, written, console(no_color=no_color))
    return 0 if port.status in ("ported", "unchanged") else 1


def _port_folder(
    source: Path, output: Path | None, options: Options, *, force: bool, as_json: bool, no_color: bool
) -> int:
    from ..front.output_tree import check_tree_output, write_tree
    from ..front.tree import port_tree
    from ..report.tree import circle_lines, show_tree, tree_document

    if output is not None:
        check_tree_output(source, output, force=force)
    result = port_tree(source, options, leave_out=[output] if output is not None else [])
    written = write_tree(result, output, force=force, vendor=options.vendor) if output is not None else 0
    if as_json:
        from ..report.json import to_text

        say(to_text(tree_document(result, output)))
    else:
        from ..report.terminal import console

        show_tree(result, output, written, console(no_color=no_color))
    for line in (*(str(error) for _, error in sorted(result.errors.items())), *circle_lines(result)):
        say(f"tpu-port: {line}", err=True)
    return result.code


def _version(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"\d+(\.\d+)*([.-]?[a-z]+\d*)*", text):
        raise InputError(f"--source-trl {text!r} is no version", fix="write it as 0.12.1")
    return text


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """`--select TP101,TP102 --select TP103` → three names."""
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
