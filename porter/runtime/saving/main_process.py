"""What only the first process does: print, and upload."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax


def main_print(*values: Any, **settings: Any) -> None:
    """print on the first process, as accelerate's `Accelerator.print`."""
    if jax.process_index() == 0:
        print(*values, **settings)


def push_to_hub(
    folder: str | os.PathLike[str],
    repo_id: str | None = None,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | None = None,
    commit_message: str = "End of training",
) -> str | None:
    """Upload a trained adapter or model, as `Trainer.push_to_hub` does after training; checkpoints stay behind.

    `repo_id` unset: the folder's name, under the account of the token. Returns the repository's id, or None on
    other processes than the first.
    """
    if jax.process_index() != 0:
        return None
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    repository = api.create_repo(repo_id or Path(folder).resolve().name, private=private, exist_ok=True).repo_id
    if revision is not None:
        api.create_branch(repository, branch=revision, exist_ok=True)
    api.upload_folder(
        repo_id=repository,
        folder_path=folder,
        revision=revision,
        commit_message=commit_message,
        ignore_patterns=["_*", "[0-9]*/**", "checkpoint-*", "runs/**"],
    )
    return repository
