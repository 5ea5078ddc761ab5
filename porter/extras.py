"""What tpu-port's own distribution asks for, by its extras: what a port imports, what a validation needs beside it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

OWN = "tpu-port"


def of_extra(extra: str) -> tuple[str, ...]:
    """The distributions that an extra asks for beside tpu-port itself, `""` what it always needs; none where it isn't
    installed.
    """
    found = []
    for row in _asked():
        name, marker = re.match(r"[\w.-]*", row), re.search(r"""extra\s*==\s*["']([\w-]+)["']""", row)
        if name is not None and name[0] != OWN and (marker[1] if marker is not None else "") == extra:
            found.append(name[0])
    return tuple(found)


def least_of(name: str) -> str:
    """The lower bound that a distribution is asked for with; "" for none."""
    for row in _asked():
        found = re.match(r"([\w.-]+)[^;]*?>=([\d.]+)", row)
        if found and normal(found[1]) == normal(name):
            return found[2]
    return ""


def normal(name: str) -> str:
    """PEP 503: names of distributions compare without case, and `-`, `_`, `.` are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _asked() -> list[str]:
    try:
        return requires(OWN) or []
    except PackageNotFoundError:
        return []
