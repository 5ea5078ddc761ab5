"""Uploads to the Hub, from one host."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax

from .save_model import save_model


def push_to_hub(
    trained: Any,
    repo_id: str | None = None,
    *,
    private: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str | None = None,
) -> str | None:
    """Upload what was trained: a folder, as `Trainer.push_to_hub` does, or the files of a model alone, as its own does.

    `trained` is a folder of which checkpoints stay behind, or a model, whose adapter or weights are saved to be
    uploaded; all processes must call it then. `repo_id` unset: the folder's name, under the account of the token.
    `commit_message` unset: what transformers writes there. Returns the repository's id, or None on other processes than
    the first.
    """
    if isinstance(trained, str | os.PathLike):
        title, without = "End of training", ("_*", "[0-9]*/**", "checkpoint-*", "runs/**")
        return upload_folder(trained, repo_id, private, revision, token, commit_message or title, without)
    if repo_id is None:
        raise ValueError("push_to_hub: name the repository that a model goes to, repo_id=")
    with TemporaryDirectory() as folder:
        save_model(trained, folder)
        return upload_folder(folder, repo_id, private, revision, token, commit_message or "Upload model")


def upload_folder(
    folder: str | os.PathLike[str],
    repo_id: str | None,
    private: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str = "Upload model",
    without: tuple[str, ...] = (),
) -> str | None:
    """The files of a folder but for those whose names match `without`, from the first process."""
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
        ignore_patterns=list(without),
    )
    return repository
