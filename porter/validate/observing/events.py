"""What a script leaves behind or sends while it is observed, written down as it happens.

Both observers keep one of these and speak the same words, so that the two lists can be compared: weights and
tokenizers saved, uploads asked for, evaluations beside training, the checkpoints and log lines that were asked for.
Nothing here imports torch or JAX.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

FILE = "events.json"  # beside the trace: events go on after it is written


class Events:
    """The list of one process, rewritten in `folder` with every event: a script may be ended at any moment.

    `outputs`: the folder into which a script's own outputs are redirected. Each event is a dict of plain values:
    `kind`, `path` (relative to where the script runs or writes), `items`, `line` of the script, and `when`: before,
    during or after training.
    """

    def __init__(self, folder: Path, outputs: Path, script: str) -> None:
        self.found: list[dict[str, Any]] = []
        self.when = "before"
        self._folder, self._outputs, self._script = folder, outputs.absolute(), str(Path(script).absolute())
        self._here = os.getcwd()

    def add(self, kind: str, path: Any = None, items: Sequence[Any] = (), **more: Any) -> None:
        """Note one event, once: the same thing saved twice is there once."""
        event = {"kind": kind, "path": None if path is None else self.path(path), "items": list(items), **more}
        if any(all(old.get(key) == value for key, value in event.items()) for old in self.found):
            return
        self.found.append({**event, "when": self.when, "line": self._line()})
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._folder / f"{FILE}.partial"
        partial.write_text(json.dumps(self.found, default=str), encoding="utf-8")
        partial.replace(self._folder / FILE)

    def trained(self, steps: int, loss: float) -> None:
        """A training behind the first, which alone is watched step by step."""
        number = sum(event["kind"] == "training" for event in self.found) + 2
        self.add("training", items=[number, int(steps)], loss=float(loss))

    def path(self, path: Any) -> str:
        """`path` as both sides call it, whether it was redirected before (then its parts are joined by _) or not."""
        absolute = os.path.normpath(os.path.join(self._here, str(path)))
        run = self._outputs.parent  # with the copy of the project, and a home of its own
        for root in (str(self._outputs), self._here, str(run / "copy"), str(run)):
            if absolute == root or absolute.startswith(root + os.sep):
                absolute = os.path.relpath(absolute, root)
                break
        name = re.sub(r"[^\w.-]+", "_", absolute).strip("_")
        return re.sub(r"^(\._)+", "", name) or "."

    def watch(self, owner: Any, method: str, note: Callable[..., None], *, instead: Any = ...) -> None:
        """Have `note` called with the arguments of `owner.method` before it; `instead` is returned in its place."""
        original = getattr(owner, method, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            note(*args, **kwargs)
            return original(*args, **kwargs) if instead is ... else instead

        setattr(owner, method, watched)

    def watch_saves(self, owner: Any, item: str) -> None:
        """`owner.save_pretrained(folder)` is an event: `item` is adapter, model or tokenizer."""
        kind = "tokenizer" if item == "tokenizer" else "weights"
        items = [] if item == "tokenizer" else [item]

        def note(object: Any, folder: Any = None, *args: Any, **kwargs: Any) -> None:
            folder = folder if folder is not None else kwargs.get("save_directory")
            if folder is not None:
                self.add(kind, folder, items)
            if kwargs.get("push_to_hub"):
                self.add("upload", items=[kwargs.get("repo_id") or Path(str(folder)).name])

        self.watch(owner, "save_pretrained", note)

    def watch_uploads(self, *, tell: Callable[[str], None]) -> None:
        """Whatever would go to the Hub through huggingface_hub or transformers is an event, and stays here."""
        import huggingface_hub
        import transformers

        def named(object: Any, repo_id: Any = None, *args: Any, **kwargs: Any) -> None:
            tell("nothing was pushed to the Hub")
            self.add("upload", items=[str(repo_id or kwargs.get("repo_id") or "")])

        def uploaded(*args: Any, **kwargs: Any) -> None:
            tell("nothing was pushed to the Hub")
            self.add("upload", items=[str(kwargs.get("repo_id", ""))])

        mixin = transformers.utils.hub.PushToHubMixin
        for owner in (mixin, *_with_own(mixin, "push_to_hub")):
            self.watch(owner, "push_to_hub", named, instead=None)
        for method in ("upload_folder", "upload_file", "upload_large_folder", "create_commit"):
            self.watch(huggingface_hub.HfApi, method, uploaded, instead=None)
            self.watch(huggingface_hub, method, uploaded, instead=None)
        for method in ("create_repo", "create_branch", "create_tag", "delete_repo", "update_repo_settings"):
            answer = _Repository() if method == "create_repo" else None
            self.watch(huggingface_hub.HfApi, method, lambda *a, **k: None, instead=answer)
            self.watch(huggingface_hub, method, lambda *a, **k: None, instead=answer)

    def _line(self) -> int | None:
        """The line of the script that is running: its innermost frame."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._script:
                return int(frame.f_lineno)
            frame = frame.f_back
        return None


def _with_own(base: type, name: str) -> Iterator[type]:
    """Classes below `base` that have a `name` of their own, as models, tokenizers and configs have copies of one."""
    children: list[type] = base.__subclasses__()
    for below in children:
        if name in vars(below):
            yield below
        yield from _with_own(below, name)


class _Repository(str):
    """What `create_repo` answers."""

    repo_id = url = endpoint = ""
