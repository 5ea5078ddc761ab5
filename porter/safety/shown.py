"""Text of somebody else's on its way to a reader: what could steer a terminal or turn a line round is spelled out.

Control characters obey nobody here: escape sequences, carriage returns, marks that change the direction of writing,
characters without a width and lone surrogates stand as `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import re

# Cc without tab and line feed; the bidirectional marks, embeddings, overrides and isolates; what has no width or ends a
# line in some places only; tags, which spell text that nobody sees; surrogates, which no encoding takes.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# Between letters that are joined or not (Persian, emoji) these two are ordinary text.
JOINERS = ("\u200c", "\u200d")


def visible(text: str) -> str:
    """The text with what can't be seen or would be obeyed spelled out; tabs and line feeds stay."""
    return UNSEEN.sub(lambda match: match[0] if match[0] in JOINERS else spelled(match[0]), text)


def one_line(text: str) -> str:
    """The same on one line: every run of white space becomes a blank."""
    return visible(" ".join(text.split()))


def spelled(character: str) -> str:
    """`\\x1b`, `\\u202e`, `\\U000e0041`: the escape that Python reads back."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
