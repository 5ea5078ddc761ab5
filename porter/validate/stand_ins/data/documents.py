"""A made-up PDF: pages of text in one of the fonts that every reader knows, which need no library to write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDE, HIGH = 90, 50  # letters of a line, lines of a page
PAGE = (612, 792)  # points
CATALOG, PAGES, FONT = 1, 2, 3
FIRST = 4


def made_up_pdf(paragraphs: Iterable[str]) -> bytes:
    """A PDF of these texts, in ASCII, one after the other."""
    lines = [line for text in paragraphs for line in textwrap.wrap(text, WIDE)]
    pages = [lines[start : start + HIGH] for start in range(0, len(lines), HIGH)] or [[]]
    kids = " ".join(f"{FIRST + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        f"<< /Type /Catalog /Pages {PAGES} 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent {PAGES} 0 R /MediaBox [0 0 {PAGE[0]} {PAGE[1]}] "
            f"/Resources << /Font << /F1 {FONT} 0 R >> >> /Contents {FIRST + 2 * number + 1} 0 R >>"
        )
        shown = _shown(page)
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    return _file(objects)


def _shown(page: Sequence[str]) -> str:
    """The lines of a page below each other."""
    escaped = (line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in page)
    return "BT /F1 10 Tf 14 TL 40 750 Td\n" + "\n".join(f"({line}) Tj T*" for line in escaped) + "\nET"


def _file(objects: Sequence[str]) -> bytes:
    data, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode("ascii", "replace")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root {CATALOG} 0 R >>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()
