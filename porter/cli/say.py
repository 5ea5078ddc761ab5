"""Writing a line for a person: nothing of a source's text that steers a terminal gets through."""

from __future__ import annotations

import click

from ..safety.masking import masked
from ..safety.shown import visible


def say(text: object, *, err: bool = False) -> None:
    """Print text as it can be seen, without what looks like a secret, on stdout or stderr."""
    click.echo(visible(masked(str(text))), err=err)
