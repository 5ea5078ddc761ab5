"""A source that made-up rows have failed runs again, with what its crash asked for."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .comparing.trace import Trace
from .helping import last_error
from .observing.remedies import REWARDS, ended_in_rewards, remedy_for
from .observing.settings import Settings
from .running.processes import UNSTARTED, RunFailed
from .stand_ins.data.plan import KEPT
from .stand_ins.data.repair import REPAIR

REPAIRS = 4  # runs of a source that made-up rows may cost, beside the last
IN_VAIN = ", though made-up rows have {!r}"
LACKING = re.compile(r"KeyError: ['\"](.+?)['\"]$")


def repaired(
    run: Callable[..., Trace], settings: Settings, say: Callable[[str], None], *, is_shown: bool = False
) -> Trace:
    """`run(settings)`, and again with a column of made-up data or a remedy that its crash asked for, up to `REPAIRS`
    times.

    A failure for want of a column that the rows have by then says so. `is_shown`: the project shows a command line for
    a source that was given none, with which it runs once more where it trained nothing.
    """
    for _ in range(REPAIRS):
        try:
            return run(settings)
        except RunFailed as failure:
            if is_shown and failure.reason == UNSTARTED and not settings.as_shown:
                say("source: trained nothing: once more with a command line that its project shows")
                settings = replace(settings, as_shown=True)
                _forget(Path(settings.work) / KEPT)
                continue
            lacking = LACKING.match(last_error(failure.output))
            if lacking is not None and lacking[1] in settings.columns:
                failure.reason += IN_VAIN.format(lacking[1])
            asked = failure.folder / REPAIR if failure.folder is not None else None
            if failure.trace is not None or asked is None:
                raise
            error, kept = last_error(failure.output), Path(settings.work) / KEPT
            if not settings.remedy and (remedy := remedy_for(error, kept, failure.output)):
                say(f"source: ended with {error[:160]}: once more with {remedy}")
                settings = replace(settings, remedy=remedy, ended_with=error)
                _forget(kept)
                continue
            found = json.loads(asked.read_text(encoding="utf-8")) if asked.is_file() else None
            if found is None or settings.columns.get(found["column"]) == found["kind"]:
                if settings.remedy or not ended_in_rewards(failure.output):
                    raise
                say(f"source: ended with {error[:160]}: once more with {REWARDS}")
                settings = replace(settings, remedy=REWARDS, ended_with=error)
                continue
            say(f"source: made-up rows get {found['column']!r} ({found['why']}): once more")
            asked_for = {found["column"]: found["kind"], **found.get("more", {})}
            settings = replace(settings, columns={**settings.columns, **asked_for})
            _forget(kept)
    return run(settings)


def _forget(kept: Path) -> None:
    """Make the rows anew that a run noted in the file `kept`."""
    kept.unlink(missing_ok=True)
    shutil.rmtree(kept.parent / "files", ignore_errors=True)
