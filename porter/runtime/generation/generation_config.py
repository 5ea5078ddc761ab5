"""`model.generation_config` and `model.config` of a Tunix model: what its checkpoint says, and what the script sets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ..facts.generation_settings import BUILT, DEFAULTS, checkpoint_settings, own_settings

TOKENS = ("pad_token_id", "eos_token_id", "bos_token_id")


class GenerationConfig:
    """The settings by name. One that is set holds for `rt.generate`, and is saved with the whole model."""

    def __init__(self, model: Any) -> None:
        object.__setattr__(self, "_model", model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return checkpoint_settings(self._model).get(name, DEFAULTS.get(name))

    def __setattr__(self, name: str, value: Any) -> None:
        value = value.tolist() if hasattr(value, "tolist") else value
        held = json.dumps({**own_settings(self._model), name: value})
        self._model.porter = replace(self._model.porter, generation_json=held)


class ModelConfig:
    """transformers' config of the model: values and methods by name, its class's defaults where config.json is silent.

    A value that is set is saved with the whole model, and changes nothing else. AttributeError for a name that
    transformers' config hasn't either.
    """

    def __init__(self, model: Any) -> None:
        object.__setattr__(self, "_model", model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._as_transformers(), name)

    def __repr__(self) -> str:
        return repr(self._as_transformers())

    def _as_transformers(self) -> Any:
        from transformers import AutoConfig

        info = self._model.porter
        config = AutoConfig.for_model(**info.config, name_or_path=info.id)
        if info.vocabulary is not None:
            config.get_text_config().vocab_size = info.vocabulary
        return config

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in TOKENS and name not in BUILT:
            raise ValueError(f"config.{name} can't be set: {', '.join(TOKENS)} are what a port saves anew")
        value = value.tolist() if hasattr(value, "tolist") else value
        held = json.dumps({**self._model.porter.config, name: value})
        self._model.porter = replace(self._model.porter, config_json=held)


def model_config(model: Any) -> ModelConfig:
    """transformers' `model.config`, of a model that `rt.load_model` has loaded: read it.

    Its special tokens can be set, and what takes part in making a model alone (`rope_scaling`): they are saved with the
    whole model, and change nothing else.

    ValueError for any other value.
    """
    return ModelConfig(model)


def generation_config(model: Any) -> GenerationConfig:
    """transformers' `model.generation_config`, of a model that `rt.load_model` has loaded: to be read and set.

    A setting that nothing has set is transformers' default. TypeError for a value that JSON doesn't hold.
    """
    return GenerationConfig(model)
