"""setup_chat_format: ChatML for a tokenizer without a template, as TRL 0.25 set it up."""

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from flax import nnx

from porter.runtime.generation.chat_format import setup_chat_format
from porter.runtime.generation.generation_config import generation_config, model_config
from porter.runtime.models.load_model import ModelInfo
from tests.tiny import tokenizer

MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def bare(rows: int = 100_000) -> tuple[Any, Any]:
    found = copy.deepcopy(tokenizer("llama3"))
    found.chat_template = None
    model: Any = nnx.Module()
    family: Any = SimpleNamespace(tensors=lambda config: [])
    model.porter = ModelInfo("a/model", "", family, json.dumps({"model_type": "llama", "vocab_size": rows}))
    return model, found


def test_the_template_and_the_tokens() -> None:
    model, found = setup_chat_format(*bare())
    assert model.porter.vocabulary == len(found)
    assert (found.bos_token, found.eos_token, found.pad_token) == ("<|im_start|>", "<|im_end|>", "<|im_end|>")
    text = found.apply_chat_template(MESSAGES, tokenize=False)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    prompt = found.apply_chat_template(MESSAGES[:1], tokenize=False, add_generation_prompt=True)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert len(found.encode("<|im_start|>", add_special_tokens=False)) == 1
    ids = (found.pad_token_id, found.bos_token_id, found.eos_token_id)
    for held in (model_config(model), generation_config(model)):
        assert (held.pad_token_id, held.bos_token_id, held.eos_token_id) == ids


def test_releases_before_0_12_replace_a_template() -> None:
    model, found = bare()[0], copy.deepcopy(tokenizer("qwen3"))
    setup_chat_format(model, found, trl="0.11.4")
    text = found.apply_chat_template(MESSAGES, tokenize=False)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    with pytest.raises(ValueError, match="has a chat template already"):
        setup_chat_format(model, found, trl="0.12.0")


def test_what_trl_or_the_embedding_refuses() -> None:
    with pytest.raises(ValueError, match="has a chat template already"):
        setup_chat_format(bare()[0], tokenizer("qwen3"))
    with pytest.raises(ValueError, match="format='alpaca'"):
        setup_chat_format(*bare(), format="alpaca")
