from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from porter.report.chart import Line, chart
from porter.report.html import relative, verdict_page
from porter.validate.comparing.verdict import Check, Verdict

SOURCE = tuple(3 * math.exp(-step / 15) for step in range(40))
PORT = tuple(loss * (1 + 1e-7 * (step % 3)) for step, loss in enumerate(SOURCE))
VERDICT = Verdict(
    source="train<trl>.py",
    port="train_tunix.py",
    checks=(
        Check("configuration", "equal", "21 values"),
        Check("loss of every step", "differs", "0.1 & more", 2e-5, 1e-5, 7, "clipping"),
    ),
    notes=("tiny Qwen3",),
    source_losses=SOURCE,
    port_losses=PORT,
    meshes=(("fsdp=1,tp=1", PORT),),
)


def figures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def points(figure: ElementTree.Element, style: str) -> list[int]:
    return [len(line.attrib["points"].split()) for line in figure.iter("polyline") if line.attrib["class"] == style]


def test_both_curves_and_their_difference_are_drawn() -> None:
    losses, differences = figures(verdict_page(VERDICT))
    assert points(losses, "source") == points(losses, "port") == [40]
    assert sum(points(differences, "port")) == 26, "steps that agree to the last bit leave a gap"
    assert len([line for line in differences.iter("line") if line.attrib["class"] == "limit"]) == 1


def test_the_page_needs_nothing_else() -> None:
    page = verdict_page(VERDICT)
    assert not re.search(r"<script|src=|href=|@import|url\(|https?://", page)


def test_the_verdict_and_the_first_divergence_are_said() -> None:
    page = verdict_page(VERDICT)
    assert "not equal" in page
    assert (
        "First divergence: <strong>loss of every step</strong> at step 7. 0.1 &amp; more. Likely cause: clipping."
        in page
    )
    assert "train&lt;trl&gt;.py" in page and "<trl>" not in page


def test_tags_are_balanced() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    tags = Tags()
    tags.feed(verdict_page(VERDICT))
    assert tags.open == []


def test_a_verdict_without_losses_still_makes_a_page() -> None:
    page = verdict_page(Verdict("a.py", "b.py", (Check("token ids", "differs", "row 3"),)))
    assert "nothing to draw" in page and "not equal" in page


def test_differences_of_zero_or_missing_losses_are_not_numbers() -> None:
    assert relative((2.0, 0.0, 1.0), (3.0, 1.0))[0] == 0.5
    assert math.isnan(relative((0.0,), (1.0,))[0])


def test_gaps_break_a_line_and_single_points_are_dots() -> None:
    figure = ElementTree.fromstring(chart([Line("a", [1, math.nan, 2, 3], "port")], title="t", label="l"))
    assert points(figure, "port") == [1, 2]
    assert len(list(figure.iter("circle"))) == 1


def test_a_constant_curve_has_a_scale() -> None:
    figure = ElementTree.fromstring(chart([Line("a", [2.0, 2.0], "port")], title="t", label="l"))
    heights = {point.split(",")[1] for line in figure.iter("polyline") for point in line.attrib["points"].split()}
    assert len(heights) == 1 and heights != {"nan"}


def test_the_page_of_a_port_that_crashed() -> None:
    check = Check("the port runs", "differs", "port.py:7: KeyError", cause="the port reads a", line=7)
    page = verdict_page(Verdict("a.py", "port.py", (check,), output="KeyError: <a>", not_compared=("dropout",)))

    assert "<pre>KeyError: &lt;a&gt;</pre>" in page
    assert "<tr><th>not compared</th><td>dropout</td></tr>" in page
    assert "<tr><th>compared</th><td>the port runs: differs</td></tr>" in page
