"""The page of a validation: both loss curves, their difference, and the verdict; one file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .. import __version__
from ..safety.masking import masked
from ..safety.shown import visible
from ..validate.comparing.verdict import Check, Verdict
from .chart import Line, chart

# The comparison's name of the loss curve (porter.validate): its tolerance is the line in the difference chart.
LOSS = "loss of every step"
STYLE = """
:root { color-scheme: light dark; --fg: #1c2024; --bg: #fff; --dim: #687076; --line: #dfe3e6;
  --source: #b45309; --port: #1d4ed8; --bad: #b91c1c; --good: #15803d; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6e8ea; --bg: #16181a; --dim: #9ba1a6; --line: #33383d;
  --source: #f59e0b; --port: #7aa2f7; --bad: #f87171; --good: #4ade80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } code { font-size: .95em; }
pre { overflow-x: auto; font-size: .85em; border-left: 3px solid var(--bad); padding-left: .7rem; }
table { border-collapse: collapse; width: 100%; font-size: .93em; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.equal { color: var(--good); } .differs { color: var(--bad); font-weight: 600; } .skipped, .empty { color: var(--dim); }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--dim); }
svg .grid { stroke: var(--line); } svg .limit { stroke: var(--bad); stroke-dasharray: 6 4; }
svg polyline { fill: none; } svg .source { stroke: var(--source); stroke-width: 5; stroke-opacity: .45; }
svg .port { stroke: var(--port); stroke-width: 1.8; }
svg .mesh { stroke: var(--dim); stroke-width: 1.2; stroke-opacity: .7; }
svg circle.source { fill: var(--source); } svg circle.port, svg circle.mesh { fill: var(--port); }
.key::before { content: ""; display: inline-block; width: 1.4em; border-top: 3px solid; margin-right: .4em;
  vertical-align: middle; }
.key.s { color: var(--source); } .key.p { color: var(--port); } .key.m { color: var(--dim); }
.key.l { color: var(--bad); }
.keys { display: flex; gap: 1.5rem; flex-wrap: wrap; font-size: .9em; }
"""


def verdict_page(verdict: Verdict) -> str:
    """A whole HTML document, without scripts or links to other files."""
    tolerance = next((check.tolerance for check in verdict.checks if check.name == LOSS), None)
    differences = [Line("port", relative(verdict.source_losses, verdict.port_losses), "port")]
    differences += [Line(name, relative(verdict.source_losses, losses), "mesh") for name, losses in verdict.meshes]
    curves = [Line("source", verdict.source_losses, "source"), Line("port", verdict.port_losses, "port")]
    title = f"{verdict.source} and {verdict.port}"
    body = [
        f"<h1>{escape(title)}: {_word(verdict)}</h1>",
        _first(verdict),
        f"<pre>{escape(verdict.output)}</pre>" if verdict.output else "",
        "<h2>Loss</h2>",
        '<p class="keys"><span class="key s">source</span><span class="key p">port</span></p>',
        chart(curves, title="Loss of every step", label="loss"),
        "<h2>Relative difference of the losses</h2>",
        _difference_keys(verdict, tolerance),
        chart(differences, title="Relative difference", label="|port − source| / source", log=True, limit=tolerance),
        f'<p class="skipped">{_exact_steps(differences[0].values)}</p>',
        "<h2>What was compared, in this order</h2>",
        _check_table(verdict.checks),
        "<h2>On what</h2>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in verdict.notes) + "</ul>" if verdict.notes else "",
        "<h2>Compared, stood in, not compared</h2>",
        _told_table(verdict),
        f"<details><summary>Every step</summary>{_step_table(verdict)}</details>",
        f'<p class="skipped">tpu-port {__version__}, {verdict.seconds:.0f} s</p>',
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"
    return visible(masked(page))


def relative(source: tuple[float, ...], port: tuple[float, ...]) -> list[float]:
    """|port - source| / |source| of the steps that both have; NaN where it isn't defined."""
    return [abs(b - a) / abs(a) if a else math.nan for a, b in zip(source, port, strict=False)]


def _word(verdict: Verdict) -> str:
    return '<span class="equal">equal</span>' if verdict.equal else '<span class="differs">not equal</span>'


def _first(verdict: Verdict) -> str:
    first = verdict.first_divergence
    if first is None:
        return ""
    step = f" at step {first.step}" if first.step is not None else ""
    cause = f" Likely cause: {escape(first.cause)}." if first.cause else ""
    return f"<p>First divergence: <strong>{escape(first.name)}</strong>{step}. {escape(first.detail)}.{cause}</p>"


def _difference_keys(verdict: Verdict, tolerance: float | None) -> str:
    keys = ['<span class="key p">port against source</span>']
    if verdict.meshes:
        keys.append(
            f'<span class="key m">on other meshes: {escape(", ".join(name for name, _ in verdict.meshes))}</span>'
        )
    if tolerance is not None:
        keys.append(f'<span class="key l">tolerance {tolerance:g}</span>')
    return f'<p class="keys">{"".join(keys)}</p>'


def _exact_steps(differences: Sequence[float]) -> str:
    exact = sum(value == 0 for value in differences)
    return f"{exact} of {len(differences)} steps agree to the last bit and have no place on this axis." if exact else ""


def _check_table(checks: tuple[Check, ...]) -> str:
    rows = []
    for check in checks:
        step = "" if check.step is None else str(check.step)
        why = escape(check.detail) + (f"<br>Likely cause: {escape(check.cause)}" if check.cause else "")
        rows.append(
            f'<tr><td>{escape(check.name)}</td><td class="{check.status}">{check.status}</td>'
            f'<td class="number">{_number(check.measured)}</td><td class="number">{_number(check.tolerance)}</td>'
            f'<td class="number">{step}</td><td>{why}</td></tr>'
        )
    head = "<tr><th>quantity</th><th>verdict</th><th>measured</th><th>tolerance</th><th>step</th><th>found</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _told_table(verdict: Verdict) -> str:
    rows = (
        f"<tr><th>{kind}</th><td>{'<br>'.join(escape(line) for line in lines) or 'nothing'}</td></tr>"
        for kind, lines in verdict.table.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _step_table(verdict: Verdict) -> str:
    rows = []
    differences = relative(verdict.source_losses, verdict.port_losses)
    for step, (a, b, difference) in enumerate(
        zip(verdict.source_losses, verdict.port_losses, differences, strict=False), start=1
    ):
        cells = "".join(
            f'<td class="number">{text}</td>' for text in (step, f"{a:.8g}", f"{b:.8g}", f"{difference:.2e}")
        )
        rows.append(f"<tr>{cells}</tr>")
    head = "<tr><th>step</th><th>source</th><th>port</th><th>relative difference</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
