"""ChatML for a model and its tokenizer: what TRL's `setup_chat_format` made of both."""

from __future__ import annotations

from typing import Any

from flax import nnx

from ..facts.field_tables import version_key
from ..models.vocabulary import resize_vocabulary
from .generation_config import TOKENS, generation_config, model_config

CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
KEEPS_TEMPLATES = (0, 12)  # the release of TRL from which on `setup_chat_format` refuses to replace one


def setup_chat_format(
    model: nnx.Module,
    tokenizer: Any,
    format: str = "chatml",
    resize_to_multiple_of: int | None = None,
    *,
    trl: str = "0.25",
    mean_resizing: bool = True,
) -> tuple[nnx.Module, Any]:
    """TRL's function of that name (until 0.25): ChatML's template and tokens for a tokenizer without a template, and
    for any before TRL 0.12.

    They are what the model's own settings name, too. The embedding gets rows for them as from `resize_vocabulary`, with
    its errors and its `mean_resizing`. ValueError where that release of TRL refuses, too.
    """
    if tokenizer.chat_template is not None and version_key(trl) >= KEEPS_TEMPLATES:
        raise ValueError("the tokenizer has a chat template already: set tokenizer.chat_template to None to replace it")
    if format != "chatml":
        raise ValueError(f"format={format!r}: it is 'chatml'")
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.bos_token = "<|im_start|>"
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = CHATML
    resize_vocabulary(model, len(tokenizer), resize_to_multiple_of, mean_resizing)
    for settings in (model_config(model), generation_config(model)):  # what generates, and loads the model later
        for name in TOKENS:
            setattr(settings, name, getattr(tokenizer, name))
    return model, tokenizer
