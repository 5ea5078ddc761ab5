"""What trackers answer where nothing is not enough: a run with a name, a config that keeps values, a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .permissive import Permissive, nothing

RUN = "stand-in-run"


class Config(dict[str, Any]):
    """`wandb.config`: a dictionary whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"wandb.config has no {name!r}: nothing in this run sets it") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *others: Any, allow_val_change: bool = True, **more: Any) -> None:
        """Takes mappings and objects with attributes, as argparse's namespaces."""
        for other in (*others, more):
            super().update(as_dict(other))

    def setdefaults(self, given: Any) -> None:
        for name, value in as_dict(given).items():
            self.setdefault(name, value)

    def as_dict(self) -> dict[str, Any]:
        return dict(self)


def as_dict(given: Any) -> dict[str, Any]:
    """The settings of a mapping or an object; a file's name has none here."""
    if isinstance(given, Mapping):
        return dict(given)
    return dict(vars(given)) if hasattr(given, "__dict__") and not isinstance(given, str) else {}


class Run(Permissive):
    """A tracker's run: it has a name, a folder and the config; all else is taken and forgotten."""

    def __init__(self, path: str, config: Config) -> None:
        self.name = self.id = RUN
        self.project = self.entity = "stand-in"
        self.url = f"https://localhost/{RUN}"
        self.dir = "."
        self.step = 0
        self.config = config
        self.disabled = False

    def __new__(cls, path: str, config: Config) -> Run:
        return super().__new__(cls, path)

    def __call__(self, *args: Any, **kwargs: Any) -> Run:
        return self


def wandb(path: str = "wandb") -> dict[str, Any]:
    """The names of wandb, and of what copies its interface (swanlab, trackio), that keep something."""
    config = Config()
    run = Run(f"{path}.run", config)
    swept: dict[str, Any] = {}

    def init(*args: Any, **kwargs: Any) -> Run:
        config.update(kwargs.get("config") or {})
        config.update(swept)
        for name in ("name", "project", "entity", "id"):
            if isinstance(value := kwargs.get(name) or kwargs.get("run_name" if name == "name" else name), str):
                setattr(run, name, value)
        return run

    def sweep(given: Any = None, *args: Any, **kwargs: Any) -> str:
        parameters = as_dict(given if given is not None else kwargs.get("sweep", {})).get("parameters", {})
        swept.update({name: one_of(choices) for name, choices in parameters.items()})
        return "stand-in-sweep"

    def agent(sweep_id: Any = None, function: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> None:
        if function is not None:
            config.update(swept)
            function()

    quiet = dict.fromkeys(("log", "finish", "watch", "unwatch", "save", "alert", "define_metric"), nothing)
    return {"init": init, "run": run, "config": config, "sweep": sweep, "agent": agent, "login": accepted, **quiet}


def one_of(choices: Any) -> Any:
    """The value of a sweep's parameter that is tried: the first one, the only one, or the smallest."""
    found = as_dict(choices)
    if "value" in found:
        return found["value"]
    if found.get("values"):
        return found["values"][0]
    if "parameters" in found:
        return {name: one_of(inner) for name, inner in found["parameters"].items()}
    return found.get("min", found.get("mu"))


def accepted(*args: Any, **kwargs: Any) -> bool:
    """A login that succeeds."""
    return True
