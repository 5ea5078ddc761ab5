"""The Hub's commands in a notebook's shell lines: `!huggingface-cli login` → `!hf auth login`.

What it does: writes `hf auth login`, `logout`, `whoami`, `hf download` and `hf upload` for `huggingface-cli` and
`transformers-cli`, without the options that `hf download` has no more, and `login(...)` for a
`python -c "from huggingface_hub.hf_api import HfFolder; HfFolder.save_token(...)"`. Other commands of theirs are named.
Why: with huggingface_hub 1 `huggingface-cli` does nothing but say so, transformers 5 has no `transformers-cli`, and
HfFolder is gone. The notebook goes on behind such a line, and a gated checkpoint isn't found.
Example: `!huggingface-cli login --token $HF_TOKEN`
Use instead: `!hf auth login --token $HF_TOKEN`
Safety: exact.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Porting, step

ID = "TP322"
REASON = "huggingface_hub 1 has its commands under this name"
LINE = re.compile(r"(?m)^[ \t]*![ \t]*(?P<command>(?:\\\r?\n|[^\r\n])+)")
NAME = r"(?<![\w./-])(?:huggingface-cli|transformers-cli)"
# What stands in a line, and what stands for it.
NEW = (
    (re.compile(rf"{NAME}[ \t]+(?=(?:login|logout|whoami)\b)"), "hf auth "),
    (re.compile(rf"{NAME}[ \t]+(?=(?:download|upload)(?![\w-]))"), "hf "),
    (
        re.compile(r"from huggingface_hub(?:\.\w+)? import HfFolder[ \t]*;[ \t]*HfFolder(?:\(\))?\.save_token(?=\()"),
        "from huggingface_hub import login; login",
    ),
)
DOWNLOADS = re.compile(rf"{NAME}[ \t]+download\b")
GONE = re.compile(r"[ \t]+--(?:resume-download|local-dir-use-symlinks(?:[ \t]+|=)\w+)(?!\S)")


@step(Phase.ANSWER)
def answer_hub_commands(porting: Porting) -> None:
    """Each such command of a shell line."""
    module = porting.module
    if module.notebook is None:
        return
    for line in LINE.finditer(module.text):
        command, start = line["command"], line.start("command")
        found = [(match, new) for pattern, new in NEW for match in pattern.finditer(command)]
        if DOWNLOADS.search(command):
            found += [(match, "") for match in GONE.finditer(command)]
        for match, new in found:
            porting.edit(start + match.start(), start + match.end(), new, ID, REASON)
        known = {match.start() for match, _ in found}
        for other in re.finditer(NAME, command):
            if other.start() not in known:
                place = module.line_column(start + other.start())
                message = f"{other[0]} does nothing any more with the huggingface_hub and transformers of a port."
                porting.find(ID, "warning", message, "`hf --help` names its commands of today.", *place)
