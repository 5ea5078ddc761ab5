"""`tpu-port doctor`: what works on this machine, what would fail and why."""

from __future__ import annotations

import click

from .say import say


@click.command("doctor")
@click.option("--timeout", type=click.FloatRange(min=1), default=60, show_default=True, help="Seconds to wait for JAX.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
@click.help_option("-h", "--help")
def command(timeout: float, as_json: bool, no_color: bool) -> int:
    """Versions, devices, memory, disk: what would fail here and why."""
    from ..front.doctor import diagnose

    diagnosis = diagnose(timeout)
    if as_json:
        from ..report.doctor import document
        from ..report.json import to_text

        say(to_text(document(diagnosis)))
    else:
        from ..report.doctor import show_diagnosis

        show_diagnosis(diagnosis, no_color=no_color)
    return diagnosis.exit_code
