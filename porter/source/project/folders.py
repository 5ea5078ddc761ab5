"""The folders of a script's project: its own and those above it, up to the root of its repository."""

from __future__ import annotations

from pathlib import Path

MOST = 5  # folders, the script's own and the root's among them


def project_folders(script: Path, *, above: int = 1) -> list[Path]:
    """The script's folder and those above it up to the one that holds `.git`; `above` of them where none does."""
    folders = list(script.parents[:MOST])
    root = next((place for place, folder in enumerate(folders) if (folder / ".git").exists()), above)
    return folders[: root + 1]
