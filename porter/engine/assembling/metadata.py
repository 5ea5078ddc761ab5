"""Inline script metadata (PEP 723): what the port needs installed."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...text.edit import Edit
from ..script.porting import Porting
from ..script.sites import facts_of
from .installs import NEEDED, name_of

RULE = "TP002"
BLOCK = re.compile(r"^# /// script[ \t]*\r?\n(?P<body>(?:^#.*\r?\n)*?)^# ///[ \t]*$", re.MULTILINE)
# A list of TOML, whose strings may have brackets: `"trl[peft]"`.
DEPENDENCIES = re.compile(r"""dependencies\s*=\s*\[(?P<list>(?:[^\]"']|"[^"]*"|'[^']*')*)\]""")


def metadata_edits(porting: Porting, left: Collection[str]) -> list[Edit]:
    """Replace the GPU libraries in a `# /// script` block's dependencies by tpu-port's `[tpu]` extra; those that are
    `left`, since the port still needs them, stay."""
    text = porting.module.text
    block = BLOCK.search(text) if "# /// script" in text else None
    found = DEPENDENCIES.search(block["body"]) if block is not None else None
    if block is None or found is None:
        return []
    names = re.findall(r"[\"']([^\"']+)[\"']", found["list"])
    only = frozenset(facts_of(porting.module).gpu_distributions)
    if only.isdisjoint(map(name_of, names)):
        return []
    gone = only.difference(left)
    kept = [name for name in names if name_of(name) not in gone]
    wanted = [*kept, NEEDED]
    lines = "".join(f'#     "{name}",\n' for name in wanted)
    start = block.start("body") + found.start("list")
    end = block.start("body") + found.end("list")
    reason = "the port's libraries instead of the GPU's"
    return [Edit(start, end, f"\n{lines}# ", RULE, reason, *porting.module.line_column(start))]
