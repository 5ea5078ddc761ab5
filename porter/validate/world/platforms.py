"""What notebooks, hubs and clouds answer where nothing is not enough: a model's name, a function that can be called."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .permissive import Permissive, nothing

TOKEN = "hf_stand_in"


def kagglehub() -> dict[str, Any]:
    """Downloads answer with the name that was asked for: the model or the data of that name stands in then."""
    return {"model_download": named, "dataset_download": named, "competition_download": named, "login": named}


def named(*args: Any, **kwargs: Any) -> Any:
    """The name that is asked for, which is said first: `snapshot_download(model_id=...)`."""
    return next(iter((*args, *kwargs.values())), "")


def secrets() -> dict[str, Any]:
    """google.colab's `userdata`."""
    return {"get": lambda *args, **kwargs: TOKEN}


def dotenv() -> dict[str, Any]:
    """python-dotenv's functions: the lines `NAME=VALUE` of a file that is there, read as they stand."""

    def load_dotenv(path: Any = None, *args: Any, **kwargs: Any) -> bool:
        values = dotenv_values(path or kwargs.get("dotenv_path"))
        for name, value in values.items():
            os.environ.setdefault(name, value)
        return bool(values)

    def dotenv_values(path: Any = None, *args: Any, **kwargs: Any) -> dict[str, str]:
        try:
            with open(path or ".env", encoding="utf-8") as file:
                lines = [line.strip().removeprefix("export ") for line in file]
        except OSError:
            return {}
        pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
        return {name.strip(): value.strip().strip("'\"") for name, value in pairs}

    return {"load_dotenv": load_dotenv, "dotenv_values": dotenv_values, "find_dotenv": lambda *a, **k: ".env"}


def modelscope() -> dict[str, Any]:
    """modelscope gives transformers' classes under their own names."""
    import transformers

    names = ("AutoTokenizer", "AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoProcessor", "GenerationConfig")
    found = {name: value for name in names if (value := getattr(transformers, name, None)) is not None}
    return {**found, "snapshot_download": named}


class ModalApp(Permissive):
    """Modal's app: its functions stay functions, and what would start one far away calls it here."""

    def function(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) else here

    cls = function
    local_entrypoint = function


def here(function: Callable[..., Any]) -> Any:
    """`function` with Modal's ways to call it."""
    if isinstance(function, type):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    for name in ("remote", "local", "spawn"):
        setattr(call, name, function)
    return call


def modal() -> dict[str, Any]:
    """Modal's names that are called."""
    return {"App": lambda *a, **k: ModalApp("modal.App"), "Stub": lambda *a, **k: ModalApp("modal.Stub")}


class Artifact:
    """What a pipeline hands a component, or takes from it: a file or folder of the parameter's name."""

    def __init__(self, name: str = "artifact", *args: Any, **kwargs: Any) -> None:
        self.name = self.path = self.uri = name
        self.metadata: dict[str, Any] = {}

    def __class_getitem__(cls, kind: Any) -> Any:
        """`Input[Dataset]` is a Dataset."""
        return kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing  # metrics.log_metric(...)


def kfp() -> dict[str, Any]:
    """Kubeflow's artifacts; its components stay functions."""
    names = (
        "Artifact Dataset Model Metrics ClassificationMetrics SlicedClassificationMetrics HTML Markdown Input Output"
    )
    kinds: dict[str, Any] = {name: type(name, (Artifact,), {}) for name in names.split()}
    paths: dict[str, Any] = {name: lambda *a, **k: str for name in ("InputPath", "OutputPath")}
    return kinds | paths


def knockknock() -> dict[str, Any]:
    """Its decorators."""
    names = ("email", "slack", "telegram", "discord", "teams", "desktop", "chime", "dingtalk", "wechat", "matrix")
    return {f"{name}_sender": lambda *args, **kwargs: lambda function: function for name in names}
