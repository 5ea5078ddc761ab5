"""NLTK's data, which `nltk.download` fetches and no run here can: words to leave out, and what cuts text.

The lists are short and the cutter knows no abbreviations. What is installed for the whole machine is used as it is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

NAMED = re.compile(r"(?m)^\s*(?:from|import)\s+nltk\b")
LANGUAGES = (
    "arabic danish dutch english finnish french german greek hindi-hinglish hungarian indonesian italian norwegian "
    "portuguese romanian russian slovene spanish swedish turkish"
).split()
WORDS = "a an and are as at be by for from has he in is it its of on or that the to was were will with".split()
CUTTER = (
    "abbrev_types.txt",
    "collocations.tab",
    "ortho_context.tab",
    "sent_starters.txt",
)  # punkt_tab's, of NLTK 3.8.2
INSTALLED = tuple(Path(prefix, "nltk_data") for prefix in ("/usr/share", "/usr/local/share", "/usr/lib", sys.prefix))
NOTE = "nltk's data was made up: short lists of stopwords, and sentences cut without abbreviations"


def stand_in_nltk_data(folder: Path, sources: Sequence[str], note: Callable[[str], None]) -> None:
    """Put data into `folder` and tell NLTK of it, where a script or its project imports NLTK and none is installed."""
    if not any(NAMED.search(source) for source in sources) or any(path.is_dir() for path in INSTALLED):
        return
    for name in LANGUAGES:
        _write(folder / "corpora" / "stopwords" / name, "".join(f"{word}\n" for word in WORDS))
        for part in CUTTER:
            _write(folder / "tokenizers" / "punkt_tab" / name / part, "")
    os.environ["NLTK_DATA"] = os.pathsep.join(filter(None, (os.environ.get("NLTK_DATA"), str(folder))))
    note(NOTE)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
