"""What a port asks to be left behind or sent: checkpoints, log lines, uploads, saves, evaluations."""

from __future__ import annotations

import functools
import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..observing.events import Events
from .replacing import replace_everywhere

if TYPE_CHECKING:
    from .observer_jax import Observer

MOST_STEPS = 200_000


def asked_for(events: Events, config: Any) -> None:
    """The checkpoints of the whole run as a TrainingConfig asks for them."""
    steps, options = config.max_steps, getattr(config, "checkpointing_options", None)
    if config.checkpoint_root_directory is None:
        events.add("checkpoints", None, [])
        return
    if options is None:
        events.add("checkpoints", config.checkpoint_root_directory, [], by="time", kept=3, best=False)
        return
    every = interval(options)
    preserved = getattr(options, "preservation_policy", None)
    kept = getattr(preserved, "limit", getattr(preserved, "n", "by policy")) if preserved else options.max_to_keep
    more = {"kept": kept, "best": type(preserved).__name__ == "KeepBest"}
    if every is None or not steps or steps > MOST_STEPS:
        by = type(getattr(options, "save_decision_policy", None)).__name__
        events.add("checkpoints", config.checkpoint_root_directory, [], by=by, **more)
        return
    saved = [*range(every, steps + 1, every)]
    only = type(getattr(options, "save_decision_policy", None)).__name__ == "SaveOnlyEvery"
    saved += [] if only or steps % every == 0 else [steps]  # Tunix saves the last step in any case
    events.add("checkpoints", config.checkpoint_root_directory, saved, **more)


def interval(options: Any) -> int | None:
    """Steps between two checkpoints; None where another policy decides."""
    policy = getattr(options, "save_decision_policy", None)
    if policy is None:
        return int(options.save_interval_steps)
    every = getattr(policy, "interval", None)
    return int(every) if isinstance(every, int | float) and every >= 1 else None


def watch_torch_saves(events: Events) -> None:
    """Saves of models and adapters that a port goes on doing with torch beside its training."""
    import transformers

    events.watch_saves(transformers.PreTrainedModel, "model")
    try:
        import peft
    except ImportError:
        return
    events.watch_saves(peft.PeftModel, "adapter")


def watch_outputs(observer: Observer, runtime: ModuleType) -> None:
    """Saves, uploads, log lines and evaluations of a port are events; nothing goes to the Hub."""
    import transformers

    events, tell = observer.events, observer.substitutes.note
    if runtime.__name__ == "porter.runtime":  # the libraries once, also where a port brings its runtime
        events.watch_saves(transformers.PreTrainedTokenizerBase, "tokenizer")
        events.watch_uploads(tell=tell)

    def saving(name: str) -> Any:
        original = getattr(runtime, name)

        @functools.wraps(original)
        def save(model: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            if not observer.reading:
                adapter = name == "save_adapter" or getattr(model, "lora", None) is not None
                events.add("weights", path, ["adapter" if adapter else "model"])
            return original(model, path, *args, **kwargs)

        return save

    for name in ("save_adapter", "save_model"):
        replace_everywhere(runtime, name, saving(name))

    def pushed(trained: Any, repo_id: Any = None, *args: Any, **kwargs: Any) -> None:
        tell("nothing was pushed to the Hub")
        events.add("upload", items=[str(repo_id or Path(events.path(trained)).name)])

    replace_everywhere(runtime, "push_to_hub", pushed)
    merged = importlib.import_module(f"{runtime.__name__}.saving.merging").MergedModel
    events.watch(merged, "push_to_hub", lambda self, repo_id, **kwargs: pushed(repo_id, repo_id), instead=None)
    events.watch_saves(merged, "model")

    evaluate, count = runtime.evaluate, 0

    @functools.wraps(evaluate)
    def evaluated(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        found = evaluate(*args, **kwargs)
        loss = found.get(f"{kwargs.get('metric_key_prefix', 'eval')}_loss")
        count += 1
        events.add("evaluation", items=[count], loss=None if loss is None else float(loss))
        return found

    replace_everywhere(runtime, "evaluate", evaluated)


def log_lines(events: Events, hooks: Any, steps: int | None) -> None:
    """How often the hooks of `rt.log_every` print."""
    every = getattr(hooks, "_steps", None)
    if isinstance(every, int | float) and every > 0:
        events.add("log", items=[math.ceil(every * steps) if every < 1 and steps else int(every)])
