"""Notebooks as Jupyter saves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cell(source: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    """A cell of code that has run, and what it showed."""
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": list(outputs), "source": source}


def printed(text: str, stream: str = "stdout") -> dict[str, Any]:
    return {"name": stream, "output_type": "stream", "text": text.splitlines(keepends=True)}


def notebook(*cells: str | dict[str, Any], **metadata: Any) -> str:
    """The text of a notebook of these cells; of a text, one of code that shows nothing."""
    made = [cell(each) if isinstance(each, str) else each for each in cells]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def saved(path: Path, *cells: str | dict[str, Any], **metadata: Any) -> Path:
    """A file of that notebook."""
    path.write_text(notebook(*cells, **metadata), "utf-8")
    return path
