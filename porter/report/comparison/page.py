"""The page of a comparison: both curves, their difference within the envelope, rates, windows; one file by itself."""

from __future__ import annotations

from html import escape

from ... import __version__
from ...compare.drift import differences
from ...compare.verdict import SAME, Comparison
from ...safety.masking import masked
from ...safety.shown import visible
from ..html import STYLE
from .band import Band, Curve, band_chart
from .terminal import number

WINDOWS = 2_000  # of the table


def comparison_page(found: Comparison) -> str:
    """A whole HTML document, without scripts or links to other files."""
    title = f"{found.gpu} and {found.tpu}"
    steps = [window.step for window in found.windows]
    losses = [
        Curve("source", tuple((w.step, w.gpu) for w in found.windows)),
        Curve("port", tuple((w.step, w.tpu) for w in found.windows)),
    ]
    apart = [Curve("port", tuple(zip(steps, differences(found.windows), strict=True)))]
    body = [
        f'<h1>{escape(title)}: <span class="{_style(found)}">{escape(found.word)}</span></h1>',
        _first(found),
        "<h2>Loss</h2>",
        f'<p class="keys"><span class="key s">GPU, {escape(found.kinds[0])}</span>'
        f'<span class="key p">TPU, {escape(found.kinds[1])}</span></p>',
        band_chart(losses, title="Loss of both runs", label="loss"),
        "<h2>Difference, and the envelope of right runs</h2>",
        f'<p class="keys"><span class="key p">(TPU − GPU) / GPU</span>{_envelope_key(found)}</p>',
        band_chart(apart, _bands(found), title="Relative difference of the losses", label="difference"),
        "<h2>What was compared, in this order</h2>",
        _checks(found),
        "<h2>Can't be told from these logs</h2>",
        _list(found.untold) or "<p>Nothing that a log of this kind could tell.</p>",
        "<h2>Noted while reading</h2>" + _list(found.notes) if found.notes else "",
        _rates(found),
        f"<details><summary>Every window</summary>{_windows(found)}</details>",
        f'<p class="skipped">tpu-port {__version__}</p>',
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}svg .band {{ fill: var(--dim); fill-opacity: .18; }}</style>"
    )
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"
    return visible(masked(page))


def _style(found: Comparison) -> str:
    return "equal" if found.word == SAME else "differs"


def _first(found: Comparison) -> str:
    first = found.first
    cause = f" Likely cause: {escape(first.cause)}." if first is not None and first.cause else ""
    return f"<p><strong>{escape(found.line)}</strong>.{cause}</p>"


def _bands(found: Comparison) -> list[Band]:
    """The envelope of the blocks' means."""
    if found.envelope is None:
        return []
    pairs = zip(found.envelope.blocks, found.envelope.drift, strict=True)
    return [
        Band(found.windows[block.first].start, found.windows[block.last].step, -limit, limit) for block, limit in pairs
    ]


def _envelope_key(found: Comparison) -> str:
    if found.envelope is None:
        return "<span>no envelope was measured</span>"
    measured = f"{found.envelope.pairs} pairs of {escape(found.envelope.source)}"
    return f'<span class="key m">envelope of the mean over a twelfth of the run, from {measured}</span>'


def _checks(found: Comparison) -> str:
    rows = []
    for check in found.checks:
        why = escape(check.detail) + (f"<br>Likely cause: {escape(check.cause)}" if check.cause else "")
        limit = "" if check.status == "skipped" else number(check.tolerance) or "exact"
        rows.append(
            f'<tr><td>{escape(check.name)}</td><td class="{check.status}">{check.status}</td>'
            f'<td class="number">{number(check.measured)}</td><td class="number">{limit}</td>'
            f'<td class="number">{"" if check.step is None else check.step}</td><td>{why}</td></tr>'
        )
    head = "<tr><th>quantity</th><th>verdict</th><th>found</th><th>limit</th><th>step</th><th>detail</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _rates(found: Comparison) -> str:
    """Both runs' learning rates."""
    ours, theirs = found.rates
    if not ours and not theirs:
        return ""
    curves = [Curve("source", ours), Curve("port", theirs)]
    return "<h2>Learning rate</h2>" + band_chart(curves, title="Learning rate of both runs", label="learning rate")


def _windows(found: Comparison) -> str:
    shares = differences(found.windows)
    rows = [
        "".join(f'<td class="number">{text}</td>' for text in (
            f"{window.start + 1}-{window.step}", f"{window.gpu:.6g}", f"{window.tpu:.6g}", f"{share:+.3%}"
        ))
        for window, share in list(zip(found.windows, shares, strict=True))[:WINDOWS]
    ]  # fmt: skip
    left = len(found.windows) - len(rows)
    more = f"<p>and {left} more: --json has them</p>" if left else ""
    head = "<tr><th>steps</th><th>GPU</th><th>TPU</th><th>difference</th></tr>"
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{more}"


def _list(lines: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
