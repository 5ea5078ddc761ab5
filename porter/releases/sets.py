"""The set of releases that a script was written for: trl, transformers, peft and accelerate, as they went together.

Fewest contradictions with what the script uses come first, then what TRL's own metadata asks of the others, then
releases in which every keyword still does something, then releases of one day, then the newest. Pins are kept always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from .history import LIBRARIES, Claim, History, history
from .uses import Use, uses_of
from .versions import Pin, fits, key, pins_of

MARGIN = timedelta(days=30)
"""How long after a release of TRL, at most, a script for it was written; not beyond the next one's day."""


@dataclass(frozen=True)
class Chosen:
    """A release, why it is that one, and what the script uses that it doesn't have: `SFTTrainer(x=) (gone in 0.13)`."""

    version: str
    why: str
    contradictions: tuple[str, ...] = ()


def release_set(text: str, pins: Mapping[str, str | Sequence[Pin]] | None = None) -> dict[str, Chosen]:
    """The newest consistent set for a script's text, by library, with the reason of each.

    `pins` are requirements by library, as text (`">=4.31,<5"`, `"==0.8.6"`) or pairs. SyntaxError for text that
    isn't Python, ValueError for a pin that no recorded release satisfies.
    """
    return choose(uses_of(text), pins)


def choose(uses: Sequence[Use], pins: Mapping[str, str | Sequence[Pin]] | None = None) -> dict[str, Chosen]:
    """As `release_set`, of uses that were read already (those of several files together)."""
    asked = {
        library: pins_of(pin) if isinstance(pin, str) else list(pin) for library, pin in (pins or {}).items() if pin
    }
    return _Choice(history(), uses, asked).made()


class _Choice:
    def __init__(self, known: History, uses: Sequence[Use], pins: dict[str, list[Pin]]) -> None:
        self.known, self.pins = known, pins
        self.ends: dict[tuple[str, int], date] = {}
        self.lasts: dict[tuple[tuple[Pin, ...], int], date] = {}
        self.claims = known.claims(uses)
        self.used = {use.name.partition(".")[0] for use in uses}
        self.leads = "trl" if "trl" in self.used or "trl" in pins or "transformers" not in self.used else "transformers"

    def made(self) -> dict[str, Chosen]:
        one, other = self._pair()
        places = {"trl": one, "transformers": other}
        day = self._day(places)
        for library in ("accelerate", "peft"):
            places[library] = self._beside(library, places, day)
            if library == "accelerate" and self._is_held("accelerate"):  # newer ones of peft import what it lacks
                day = min(day, self._until("accelerate", places["accelerate"]))
        return {library: self._explained(library, places) for library in LIBRARIES}

    def _pair(self) -> tuple[int, int]:
        """TRL's and transformers' places: with the fewest faults, then of one day, then the newest."""
        claims = [claim for claim in self.claims if claim.library in ("trl", "transformers") and claim.ever]
        theirs = [claim for claim in claims if claim.library == "transformers"]
        transformers = self._allowed("transformers")
        alone = {place: sum(not claim.holds(place, {}) for claim in theirs) for place in transformers}
        every = self.known.record("transformers").all
        faults: dict[tuple[int, int], tuple[int, bool, int]] = {}
        for one in self._allowed("trl"):
            lacking = [claim for claim in claims if claim.library == "trl" and not claim.own >> one & 1]
            lost = [~self._where(claim, one) & every for claim in lacking]
            partly = [mask for mask in lost if mask and mask != every]
            idle = sum(claim.idle >> one & 1 for claim in claims if claim.library == "trl")
            bounds = self._bounds("trl", one, "transformers")
            for other, wrong in alone.items():
                wrong += sum(mask == every for mask in lost) + sum(mask >> other & 1 for mask in partly)
                release = self.known.releases("transformers")[other]
                faults[one, other] = (wrong, not all(fits(release, *bound) for bound in bounds), idle)
        fewest = min(faults.values())
        pairs = [pair for pair, found in faults.items() if found == fewest]
        pairs.sort(key=lambda pair: pair if self.leads == "trl" else pair[::-1], reverse=True)
        best, least = pairs[0], timedelta.max
        for pair in pairs:
            apart = self._apart(*pair)
            if apart < least:
                best, least = pair, apart
            if not apart:
                break
        return best

    @staticmethod
    def _where(claim: Claim, trl: int) -> int:
        """The releases of transformers with which TRL's class has a thing through the one that it extends."""
        found = 0
        for library, mask, other in claim.through:
            if library == "transformers" and mask >> trl & 1:
                found |= other
        return found

    def _allowed(self, library: str) -> list[int]:
        pins = self.pins.get(library, [])
        releases = self.known.releases(library)
        places = [place for place, release in enumerate(releases) if all(fits(release, *pin) for pin in pins)]
        exact = [version for sign, version in pins if sign in ("==", "===") and "*" not in version]
        if not places and exact:  # withdrawn ones can't be read: the next of the same minor release stands for it
            same = [place for place, release in enumerate(releases) if key(release)[:2] == key(exact[0])[:2]]
            places = [place for place in same if key(releases[place]) > key(exact[0])][:1] or same[-1:]
        if not places:
            said = ",".join(sign + version for sign, version in pins)
            raise ValueError(
                f"{library}{said}: no release between {releases[0]} and {releases[-1]} is that; say another version"
            )
        return places

    def _is_held(self, library: str) -> bool:
        """Whether pins keep a library from being the newest of the day."""
        return any(sign in ("==", "===", "<", "<=", "~=") for sign, _ in self.pins.get(library, []))

    def _bounds(self, library: str, place: int, of: str) -> list[Pin]:
        """What a release's metadata asks of another library, that of its extra `peft` or `torch` included."""
        found: list[Pin] = []
        for line in self.known.requires(library, self.known.releases(library)[place]):
            name, _, bounds = line.rpartition("] ")[2].partition(" ")
            if name == of:
                found += pins_of(bounds)
        return found

    def _until(self, library: str, place: int) -> date:
        """The last day on which a script was written for a release: the next one's, `MARGIN` after it at most."""
        if (library, place) not in self.ends:
            self.ends[library, place] = self._end(library, place)
        return self.ends[library, place]

    def _end(self, library: str, place: int) -> date:
        record = self.known.record(library)
        later = [day for day in record.dates if day > record.dates[place]]
        return min(min(later), record.dates[place] + MARGIN) if later else date.max

    def _apart(self, trl: int, transformers: int) -> timedelta:
        """How long it was from the days of one to those of the other; zero if both were the newest on some day.

        transformers' days last until the next minor release that TRL's own metadata allows.
        """
        ours, theirs = self.known.record("trl"), self.known.record("transformers")
        bounds = tuple(self._bounds("trl", trl, "transformers"))
        if (bounds, transformers) not in self.lasts:
            minor = key(theirs.releases[transformers])[:2]
            ends = (
                day
                for release, day in zip(theirs.releases[transformers:], theirs.dates[transformers:], strict=True)
                if key(release)[:2] > minor and all(fits(release, *bound) for bound in bounds)
            )
            self.lasts[bounds, transformers] = min(ends, default=date.max)
        early = theirs.dates[transformers] - self._until("trl", trl)
        late = ours.dates[trl] - self.lasts[bounds, transformers]
        return max(early, late, timedelta(0))

    def _day(self, places: Mapping[str, int]) -> date:
        """The day of the environment: after what was chosen, before the next release of the library that leads."""
        latest = max(self.known.record(library).dates[place] for library, place in places.items())
        return max(latest, self._until(self.leads, places[self.leads]))

    def _beside(self, library: str, places: Mapping[str, int], day: date) -> int:
        """peft and accelerate: fewest contradictions, within the others' requirements, the newest of that day."""
        claims = [claim for claim in self.claims if claim.library == library and claim.ever]
        bounds = [bound for other, place in places.items() for bound in self._bounds(other, place, library)]
        record = self.known.record(library)

        def order(place: int) -> tuple[object, ...]:
            wrong = sum(not claim.holds(place, {}) for claim in claims)
            refused = sum(not fits(record.releases[place], *bound) for bound in bounds)
            early = record.dates[place] <= day
            return (-wrong, -refused, early, place if early else -place)

        return max(self._allowed(library), key=order)

    def _explained(self, library: str, places: Mapping[str, int]) -> Chosen:
        place = places[library]
        version = self.known.releases(library)[place]
        wrong = [claim for claim in self.claims if claim.library == library and not claim.holds(place, places)]
        said = tuple(f"{claim.text} ({self.known.when(claim, version)})" for claim in wrong)
        for other, at in places.items():
            bounds = self._bounds(other, at, library) if other != library else []
            refused = [sign + bound for sign, bound in bounds if not fits(version, sign, bound)]
            if refused:
                said += (f"{other} {self.known.releases(other)[at]} asks for {library}{','.join(refused)}",)
        return Chosen(version, self._why(library, places), said)

    def _why(self, library: str, places: Mapping[str, int]) -> str:
        pins = self.pins.get(library)
        releases = self.known.releases(library)
        place = places[library]
        pinned = f"pinned: {','.join(sign + version for sign, version in pins)}" if pins else ""
        if pins and not all(fits(releases[place], *pin) for pin in pins):
            return f"{pinned}, which was withdrawn: its neighbour"
        if pins and len(self._allowed(library)) == 1:
            return pinned
        lost = [claim for claim in self.claims if claim.ever and self._lost(claim, library, places)]
        if lost:
            claim = min(lost, key=lambda claim: claim.line)
            why = f"the newest with {claim.text} of line {claim.line}"
        elif place + 1 == len(releases):
            why = "the newest"
        else:
            other = self.leads if library != self.leads else "transformers" if library == "trl" else "trl"
            why = f"of the day of {other} {self.known.releases(other)[places[other]]}"
        return f"{pinned}; {why}" if pinned else why

    def _lost(self, claim: Claim, library: str, places: Mapping[str, int]) -> bool:
        """Whether a library's next release, with the others as they are, has a thing no more."""
        if claim.library != library and library not in (other for other, _, _ in claim.through):
            return False
        later = {**places, library: places[library] + 1}
        if later[library] >= len(self.known.releases(library)):
            return False
        return claim.holds(places[claim.library], places) and not claim.holds(later[claim.library], later)


def within_known(library: str, pins: Sequence[Pin]) -> Sequence[Pin]:
    """What pins ask for of the releases that are recorded: the first for an older one, the last for a newer one."""
    releases = history().releases(library)
    exact = next((key(version) for sign, version in pins if sign in ("==", "===", "~=", "<", "<=")), None)
    if exact is not None and exact < key(releases[0]):
        return [("==", releases[0])]
    least = next((key(version) for sign, version in pins if sign in ("==", "===", "~=", ">", ">=")), None)
    if least is not None and least > key(releases[-1]):
        return [("==", releases[-1])]
    return pins
