"""What tpu-port's own distribution asks for, by its extras: what a port imports, what a validation needs beside it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

OWN = "tpu-port"


def of_extra(extra: str) -> tuple[str, ...]:
    """The distributions that an extra asks for beside tpu-port itself, `""` what it always needs; none where it isn't
    installed.
    """
    try:
        rows = requires(OWN) or []
    except PackageNotFoundError:
        return ()
    found = []
    for row in rows:
        name, marker = re.match(r"[\w.-]*", row), re.search(r"""extra\s*==\s*["']([\w-]+)["']""", row)
        if name is not None and name[0] != OWN and (marker[1] if marker is not None else "") == extra:
            found.append(name[0])
    return tuple(found)
