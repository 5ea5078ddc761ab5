"""Inline script metadata (PEP 723): what the port needs installed."""

from __future__ import annotations

import re

from ..script.porting import Porting
from .installs import GPU_ONLY, NEEDED

RULE = "TP002"
BLOCK = re.compile(r"^# /// script[ \t]*\r?\n(?P<body>(?:^#.*\r?\n)*?)^# ///[ \t]*$", re.MULTILINE)
# A list of TOML, whose strings may have brackets: `"trl[peft]"`.
DEPENDENCIES = re.compile(r"""dependencies\s*=\s*\[(?P<list>(?:[^\]"']|"[^"]*"|'[^']*')*)\]""")


def script_metadata(porting: Porting) -> None:
    """Replace the GPU libraries in a `# /// script` block's dependencies by tpu-port's `[tpu]` extra."""
    text = porting.module.text
    block = BLOCK.search(text) if "# /// script" in text else None
    if block is None:
        return
    found = DEPENDENCIES.search(block["body"])
    if found is None:
        return
    names = re.findall(r"[\"']([^\"']+)[\"']", found["list"])
    kept = [name for name in names if re.split(r"[\s<>=!~\[;@]", name, maxsplit=1)[0].lower() not in GPU_ONLY]
    if kept == names:
        return
    wanted = [*kept, NEEDED]
    lines = "".join(f'#     "{name}",\n' for name in wanted)
    start = block.start("body") + found.start("list")
    end = block.start("body") + found.end("list")
    porting.edit(start, end, f"\n{lines}# ", RULE, "the port's libraries instead of the GPU's")
