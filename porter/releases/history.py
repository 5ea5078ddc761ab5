"""What the releases of trl, transformers, peft and accelerate had: names, keywords, defaults, members, requirements.

Answers come as numbers with one bit for each release (a mask), which makes questions about all releases as quick as
about one. A class that extends another library's (`SFTConfig` extends `TrainingArguments`) takes what the release of
that library took which it ran with, so such answers name both.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from .record import Record
from .uses import Use
from .versions import key

LIBRARIES = ("trl", "transformers", "peft", "accelerate")
UNKNOWN = "?"
"""Stands for a default that isn't a literal."""
# Bases that give a constructor no keywords; any other base that isn't recorded may take everything.
_PLAIN = re.compile(
    r"(abc\.)?ABC$|(typing\.)?(Generic|Protocol)\b|object$|(enum\.)?\w*Enum$|str$|TypedDict$|NamedTuple$"
)


# Keywords of a model's `from_pretrained(**kwargs)` → the first release that knew them and the first that didn't again,
# read from `modeling_utils.py`: the model's own class takes none of them.
LOADING: dict[str, tuple[str, str]] = {
    "attn_implementation": ("4.36.0", ""),
    "use_flash_attention_2": ("4.34.0", "4.53.0"),
    "dtype": ("4.56.0", ""),
    "load_in_4bit": ("4.30.0", "5.0.0"),
    "load_in_8bit": ("", "5.0.0"),
    "use_auth_token": ("", "5.0.0"),
    "resume_download": ("", "5.0.0"),
}


@dataclass(frozen=True)
class Claim:
    """Something that a script needs. It holds in the releases `own`, and in `through` with the other's releases there.

    `through` are (library, releases of this one, releases of that library). `ever` is False when no release has it.
    In the releases `idle` a keyword is taken, warned about and does nothing.
    """

    text: str
    library: str
    own: int
    through: tuple[tuple[str, int, int], ...] = ()
    line: int = 0
    ever: bool = True
    idle: int = 0

    def holds(self, place: int, others: Mapping[str, int]) -> bool:
        """Whether the release at `place` has it, together with those of other libraries at `others`."""
        if self.own >> place & 1:
            return True
        return any(
            mask >> place & 1 and (library not in others or other >> others[library] & 1)
            for library, mask, other in self.through
        )


class History:
    """Questions to the records; a library's is read when it is first asked about."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._taken: dict[tuple[str, str, str], Claim] = {}

    def record(self, library: str) -> Record:
        """KeyError for a library without a record."""
        if library not in LIBRARIES:
            raise KeyError(f"no history of {library}; there is one of {', '.join(LIBRARIES)}")
        if library not in self._records:
            self._records[library] = Record(library)
        return self._records[library]

    def releases(self, library: str) -> tuple[str, ...]:
        return self.record(library).releases

    def date(self, library: str, version: str) -> datetime.date:
        """The day of a release, or of the newest recorded one before it."""
        record = self.record(library)
        return record.dates[record.place(version)]

    def requires(self, library: str, version: str) -> list[str]:
        """`transformers>=4.31.0` and the like, `[extra] peft>=0.8.0` of an extra, `python>=3.10`."""
        record = self.record(library)
        at = record.place(version)
        return sorted(line for line, mask in record.group(record.data["requires"]).items() if mask >> at & 1)

    def least(self, library: str, version: str, other: str) -> str | None:
        """The oldest release of `other` that this one is installed with; None where it says none."""
        asked = (line.partition(" ") for line in self.requires(library, version))
        bounds = [bound for name, _, said in asked if name == other for bound in said.split(",")]
        return next((bound.removeprefix(">=") for bound in bounds if bound.startswith(">=")), None)

    def has(self, library: str, version: str, name: str) -> bool:
        """Whether that release has what is imported as `name`: `trl.SFTConfig`, `trl.trainer.utils.pad`."""
        full = name if name.startswith(f"{library}.") else f"{library}.{name}"
        return self.named(full).holds(self.record(library).place(version), {})

    def takes(self, library: str, version: str, name: str, keyword: str, **others: str) -> bool:
        """Whether a class, function or `Class.method` took a keyword, with `transformers="4.40.2"` beside it.

        The release of the day where another library's isn't given. True for what isn't recorded.
        """
        beside = self._beside(library, version, others)
        return self.taken(library, name, keyword).holds(self.record(library).place(version), beside)

    def default(self, library: str, version: str, name: str, keyword: str, **others: str) -> str | None:
        """The text of a keyword's default: "?" for one that isn't a literal, None where it has none or isn't taken."""
        places = {**self._beside(library, version, others), library: self.record(library).place(version)}
        return self._default(library, name.rpartition(".")[2], keyword, places)

    def attribute(self, library: str, version: str, name: str, attribute: str, **others: str) -> bool:
        """Whether objects of a class had an attribute or method."""
        beside = self._beside(library, version, others)
        claim = self.member(library, name.rpartition(".")[2], attribute)
        return claim.holds(self.record(library).place(version), beside)

    def fitting(self, library: str, uses: Iterable[Use], **others: str) -> list[str]:
        """The releases that have all that a script uses without a guard, oldest first."""
        record = self.record(library)
        claims = [claim for claim in self.claims(uses) if claim.library == library and claim.ever]
        beside = {other: self.record(other).place(version) for other, version in others.items()}
        return [
            release
            for place, release in enumerate(record.releases)
            if all(claim.holds(place, beside) for claim in claims)
        ]

    def contradictions(self, versions: Mapping[str, str], uses: Iterable[Use]) -> dict[str, list[Claim]]:
        """By library: what a script uses without a guard and these releases don't have."""
        places = {library: self.record(library).place(version) for library, version in versions.items()}
        found: dict[str, list[Claim]] = {library: [] for library in versions}
        for claim in self.claims(uses):
            if claim.library in places and not claim.holds(places[claim.library], places):
                found[claim.library].append(claim)
        return found

    def claims(self, uses: Iterable[Use]) -> list[Claim]:
        """What the uses need of the releases, each once; guarded ones need nothing."""
        found: dict[str, Claim] = {}
        for use in uses:
            library = use.name.partition(".")[0]
            if use.guarded or library not in LIBRARIES:
                continue
            short = f"{library}.{use.last}"
            if use.imported and (claim := self.named(use.name)).ever:  # `transformers.logging.x` isn't recorded
                self._add(found, claim, use.name, use.line)
            for keyword in use.keywords:
                known = keyword in LOADING and _loads_model(use.name)
                claim = self.loading(keyword) if known else self.taken(library, use.last, keyword)
                self._add(found, claim, f"{short}({keyword}=)", use.line)
            for attribute in use.attributes:
                claim = self.member(library, use.last, attribute)
                if claim.ever:  # a script may give an object attributes of its own
                    self._add(found, claim, f"{short}.{attribute}", use.line)
        return list(found.values())

    def loading(self, keyword: str) -> Claim:
        """What a keyword of `LOADING` needs: a release that takes it off before the model's class sees the rest."""
        record, (first, gone) = self.record("transformers"), LOADING[keyword]
        places = (
            at
            for at, own in enumerate(record.keys)
            if (not first or key(first) <= own) and not (gone and key(gone) <= own)
        )
        return Claim("", "transformers", sum(1 << at for at in places))

    @staticmethod
    def _add(found: dict[str, Claim], claim: Claim, text: str, line: int) -> None:
        if text not in found:
            found[text] = replace(claim, text=text, line=line)

    def when(self, claim: Claim, version: str) -> str:
        """Why a claim doesn't hold at a release: "new in 0.9.2", "gone in 0.13.0", "in no release"."""
        record = self.record(claim.library)
        at = record.place(version)
        masks = [claim.own, *(mask for _, mask, _ in claim.through)]
        later = [place for mask in masks for place in range(at + 1, len(record.releases)) if mask >> place & 1]
        earlier = [place for mask in masks for place in range(at) if mask >> place & 1]
        if not claim.ever:
            return "in no release"
        if any(mask >> at & 1 for _, mask, _ in claim.through):
            return f"not in {' or '.join(library for library, mask, _ in claim.through if mask >> at & 1)}'s either"
        if earlier:
            return f"gone in {record.releases[max(earlier) + 1]}"
        return f"new in {record.releases[min(later)]}" if later else "in no release"

    def lifetime(self, library: str, name: str, keyword: str = "") -> tuple[str | None, str | None]:
        """The first release with a name or a callable's keyword and the first without it any more.

        None for the first where the oldest recorded one has it, for the second where the newest does. `library` is the
        one whose releases are asked about: TRL's own, or transformers' for a keyword that TRL's class inherits.
        """
        record = self.record(library)
        has = self._having(library, name, keyword) & record.all
        if not has:
            return None, None
        first, last = (has & -has).bit_length() - 1, has.bit_length() - 1
        return (
            record.releases[first] if first else None,
            record.releases[last + 1] if last + 1 < len(record.releases) else None,
        )

    def _having(self, library: str, name: str, keyword: str) -> int:
        home = name.partition(".")[0]
        if not keyword:
            return self.named(name).own if home == library else 0
        if keyword in LOADING and _loads_model(name):
            return self.loading(keyword).own if home == library else 0
        claim = self.taken(home, name, keyword)
        known = self._classes(home, _plain(name)) or self.record(home).all
        inherited = 0
        for other, mask, there in claim.through:
            if home == library:
                inherited |= mask & known if there else 0
            elif other == library and not claim.own & known:
                inherited |= there
        return claim.own & known | inherited if home == library else inherited

    # By library and name

    def named(self, name: str) -> Claim:
        """The releases in which `import`ing a dotted name works; all of them for a name that none is known to have."""
        library, _, rest = name.partition(".")
        record = self.record(library)
        modules = record.data["names"]
        module, _, last = rest.rpartition(".")
        found = record.group(modules.get(module)).get(last, 0) | record.group(modules.get(rest)).get(":", 0)
        known = bool(found) or not rest
        return Claim(name, library, found if known and rest else record.all, ever=known)

    def taken(self, library: str, name: str, keyword: str) -> Claim:
        """The releases in which a callable takes a keyword, or in which it isn't recorded."""
        name = _plain(name)
        if (library, name, keyword) not in self._taken:
            text = f"{library}.{name}({keyword}=)"
            self._taken[library, name, keyword] = Claim(text, library, self.record(library).all)  # a circle of bases
            own, through = self._take(library, name, keyword)
            ever = bool(own) or any(mask and other for _, mask, other in through)
            idle = self.record(library).group((self.record(library).data["calls"].get(name) or {}).get("idle"))
            self._taken[library, name, keyword] = Claim(
                text, library, own, through, ever=ever, idle=idle.get(keyword, 0)
            )
        return self._taken[library, name, keyword]

    def _take(self, library: str, name: str, keyword: str) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        record = self.record(library)
        entry = record.data["calls"].get(name)
        owner, _, method = name.rpartition(".")
        mode = record.group(entry["mode"]) if entry else {}
        known = 0
        for mask in mode.values():
            known |= mask
        own, asked = mode.get("any", 0), mode.get("extends", 0)
        for span, parameters in entry["takes"].items() if entry else ():
            if keyword in parameters:
                own |= record.mask(span)
        if owner:  # a method that a class doesn't define is its base's
            asked |= ~known & record.all
        else:
            own |= ~known & record.all
        return self._from_bases(library, owner or name, own, asked, keyword, f".{method}" if owner else "")

    def _from_bases(
        self, library: str, name: str, own: int, asked: int, keyword: str, method: str = "", *, member: bool = False
    ) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """Add what the bases of a class have in the releases `asked`."""
        record = self.record(library)
        bases = (record.data["classes"].get(name) or {}).get("bases", {})
        through: dict[str, list[tuple[int, int]]] = {}
        seen = 0
        for span, text in bases.items():
            mask = record.mask(span) & asked
            seen |= mask
            for base in filter(None, text.split(",")):
                root, _, last = base.rpartition(".")
                root = root.partition(".")[0] or library
                if root not in LIBRARIES or (root == library and last not in record.data["classes"]):
                    own |= 0 if _PLAIN.match(base) else mask
                    continue
                found = self.member(root, last, keyword) if member else self.taken(root, last + method, keyword)
                if root == library:
                    own |= mask & found.own
                    for other, part, beside in found.through:
                        through.setdefault(other, []).append((mask & part, beside))
                else:
                    through.setdefault(root, []).append((mask, found.own))
        if not member:
            own |= asked & ~seen & ~self._classes(library, name)
        return own, tuple((other, part, beside) for other, parts in through.items() for part, beside in parts if part)

    def _classes(self, library: str, name: str) -> int:
        record = self.record(library)
        found = 0
        for span in (record.data["classes"].get(name) or {}).get("bases", {}):
            found |= record.mask(span)
        return found

    def member(self, library: str, name: str, attribute: str) -> Claim:
        """The releases in which objects of a class have an attribute, or in which the class isn't recorded."""
        record = self.record(library)
        entry = record.data["classes"].get(name)
        known = self._classes(library, name)
        own = ~known & record.all
        if entry:
            own |= record.group(entry["members"]).get(attribute, 0)
        for span, parameters in (record.data["calls"].get(name) or {"takes": {}})["takes"].items():
            if attribute in parameters and self._is_dataclass(library, name):
                own |= record.mask(span)
        own, through = self._from_bases(library, name, own, known, attribute, member=True)
        ever = bool(own & known) or any(mask and other for _, mask, other in through)
        return Claim(f"{library}.{name}.{attribute}", library, own, through, ever=ever)

    def _is_dataclass(self, library: str, name: str) -> bool:
        """Whether keywords become attributes: so it is with arguments and configurations, not with trainers."""
        return bool(re.search(r"Arguments$|Config$|Plugin$|Kwargs$", name))

    def _default(self, library: str, name: str, keyword: str, places: Mapping[str, int]) -> str | None:
        record, at = self.record(library), places[library]
        entry = record.data["calls"].get(name)
        for span, parameters in entry["takes"].items() if entry else ():
            if keyword in parameters and record.mask(span) >> at & 1:
                return None if parameters[keyword] is None else str(parameters[keyword])
        if entry and record.group(entry["mode"]).get("extends", 0) >> at & 1:
            for span, text in (record.data["classes"].get(name) or {}).get("bases", {}).items():
                if record.mask(span) >> at & 1:
                    for base in filter(None, text.split(",")):
                        root, _, last = base.rpartition(".")
                        root = root.partition(".")[0] or library
                        if root in places and (found := self._default(root, last, keyword, places)) is not None:
                            return found
        return None

    def _beside(self, library: str, version: str, others: Mapping[str, str]) -> dict[str, int]:
        day = self.date(library, version)
        return {
            other: self.record(other).place(others[other]) if other in others else self.at_day(other, day)
            for other in LIBRARIES
            if other != library and (other in others or other == "transformers")
        }

    def at_day(self, library: str, day: datetime.date) -> int:
        """The place of the newest release that was out on a day."""
        return self.record(library).at_day(day)


def _loads_model(name: str) -> bool:
    """Whether a call loads a model: tokenizers and configurations take keywords that they don't know."""
    owner, _, method = name.rpartition(".")
    return method == "from_pretrained" and re.search(r"^transformers\..*(Model|For[A-Z])", owner) is not None


def _plain(name: str) -> str:
    """`trl.trainer.SFTTrainer` as SFTTrainer, `transformers.Trainer.train` as Trainer.train."""
    parts = name.split(".")
    if len(parts) > 1 and parts[-2][:1].isupper():
        return ".".join(parts[-2:])
    return parts[-1]


@cache
def history() -> History:
    """The one that everything asks."""
    return History()
