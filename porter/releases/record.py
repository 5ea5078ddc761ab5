"""What one library's releases had, as its JSON file beside this module records it: spans of releases as masks."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .versions import key

HERE = Path(__file__).resolve().parent


class Record:
    """The data of one library."""

    def __init__(self, library: str) -> None:
        self.data: dict[str, Any] = json.loads((HERE / f"{library}.json").read_text("utf-8"))
        self.library = library
        self.releases: tuple[str, ...] = tuple(self.data["releases"])
        self.dates = tuple(datetime.date.fromisoformat(day) for day in self.data["dates"])
        self.all = (1 << len(self.releases)) - 1
        self.keys = tuple(key(release) for release in self.releases)
        self.places: dict[str, int] = {}
        self.days: dict[datetime.date, int] = {}
        self.spans: dict[str, int] = {}
        self.words: dict[int, dict[str, int]] = {}  # by the identity of a group, what it has by its releases

    def mask(self, span: str) -> int:
        """The releases of a span such as "0-12,15-"."""
        if span not in self.spans:
            found = 0
            for part in span.split(","):
                first, _, last = part.partition("-")
                end = int(last) if last else len(self.releases)
                found |= (1 << end) - (1 << int(first))
            self.spans[span] = found
        return self.spans[span]

    def group(self, group: Mapping[str, Any] | None) -> dict[str, int]:
        """The releases of each word of a group: `{"0-3": "a b"}`."""
        if group is None:
            return {}
        if id(group) not in self.words:
            found: dict[str, int] = {}
            for span, words in group.items():
                mask = self.mask(span)
                for word in words.split(" ") if isinstance(words, str) else words:
                    found[word] = found.get(word, 0) | mask
            self.words[id(group)] = found
        return self.words[id(group)]

    def place(self, version: str) -> int:
        """The newest recorded release that isn't after `version`: the first for an older one."""
        if version not in self.places:
            asked = key(version)
            places = [place for place, release in enumerate(self.keys) if release <= asked]
            self.places[version] = places[-1] if places else 0
        return self.places[version]

    def at_day(self, day: datetime.date) -> int:
        """The newest recorded release that was out on a day: the first before them all."""
        if day not in self.days:
            out = [place for place, released in enumerate(self.dates) if released <= day]
            self.days[day] = max(out, default=0)
        return self.days[day]
