"""The Hub's logins and uploads: they succeed at once, and nothing leaves this machine."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .permissive import Permissive

LOGINS = ("login", "notebook_login", "interpreter_login", "logout")
UPLOADS = (
    *("create_repo", "create_commit", "create_branch", "create_tag", "delete_repo", "delete_file", "delete_folder"),
    *("upload_file", "upload_folder", "upload_large_folder", "update_repo_visibility", "update_repo_settings"),
    *("create_discussion", "create_pull_request", "add_space_secret", "run_as_future", "super_squash_history"),
    *("create_collection", "add_collection_item", "move_repo", "preupload_lfs_files", "metadata_update"),
)
LOGGED_IN = "nobody was logged in to the Hub"
UPLOADED = "nothing was pushed to the Hub"


def _fetching(original: Callable[..., str], note: Callable[[str], None]) -> Callable[..., str]:
    """`snapshot_download(repo_id, local_dir=...)` of what can't be had gives the name by which a stand-in is loaded."""

    @functools.wraps(original)
    def snapshot_download(repo_id: str, *args: Any, **kwargs: Any) -> str:
        try:
            return original(repo_id, *args, **kwargs)
        except (OSError, ValueError) as error:
            note(f"{repo_id} was not downloaded ({type(error).__name__})")
            return str(kwargs.get("local_dir") or repo_id)

    return snapshot_download


def patch_hub(note: Callable[[str], None]) -> None:
    """Logins and writes of huggingface_hub and datasets answer as if they had succeeded."""
    import huggingface_hub

    def logged_in(*args: Any, **kwargs: Any) -> None:
        note(LOGGED_IN)

    def uploaded(*args: Any, **kwargs: Any) -> Any:
        note(UPLOADED)
        named = [value for value in (kwargs.get("repo_id"), *args) if isinstance(value, str)]
        return Permissive(named[0] if named else "uploaded")

    def whoami(*args: Any, **kwargs: Any) -> dict[str, Any]:
        note(LOGGED_IN)
        return {"name": "user", "fullname": "user", "type": "user", "orgs": [], "auth": {"type": "stand-in"}}

    api = huggingface_hub.HfApi
    modules = [huggingface_hub, huggingface_hub.hf_api]
    for name in LOGINS:
        huggingface_hub.__dict__[name] = logged_in
    for module in modules:
        module.__dict__["whoami"] = whoami
    api.whoami = whoami
    for name in UPLOADS:
        if hasattr(api, name):
            setattr(api, name, uploaded)
        for module in modules:
            if hasattr(module, name):
                setattr(module, name, uploaded)
    for name in ("HfFolder", "Repository"):
        if hasattr(huggingface_hub, name) and name == "HfFolder":
            huggingface_hub.HfFolder.save_token = logged_in
    for card in ("ModelCard", "RepoCard", "DatasetCard"):
        getattr(huggingface_hub, card).push_to_hub = uploaded
    _patch_datasets(uploaded)
    huggingface_hub.__dict__["snapshot_download"] = _fetching(huggingface_hub.snapshot_download, note)
    # Libraries of an older day take the errors from where they were.
    sys.modules.setdefault("huggingface_hub.utils._errors", getattr(huggingface_hub, "errors", huggingface_hub.utils))


def _patch_datasets(uploaded: Callable[..., Any]) -> None:
    try:
        import datasets
    except ImportError:
        return
    for name in ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict"):
        if hasattr(getattr(datasets, name), "push_to_hub"):
            getattr(datasets, name).push_to_hub = uploaded
