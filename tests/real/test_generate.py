"""`rt.generate` and `rt.TextGenerationPipeline` beside transformers: the same tokens, settings and records."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.runtime.facts.generation_settings import DEFAULTS, IDLE, REFUSED, settle

pytestmark = pytest.mark.real

# Handed on by `rt.generate` itself.
ARGUMENTS = {"inputs", "generation_config", "streamer", "kwargs", "self"}


def test_every_setting_of_generate_has_a_fate() -> None:
    from transformers import GenerationConfig, GenerationMixin

    known = {*DEFAULTS, *IDLE, *REFUSED}
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    arguments = set(inspect.signature(GenerationMixin.generate).parameters) - ARGUMENTS
    assert fields | arguments <= known
    defaults = GenerationConfig._get_default_generation_params()
    assert {name: DEFAULTS[name] for name in DEFAULTS if name in defaults} == {
        name: value for name, value in defaults.items() if name in DEFAULTS
    }
    for name, (neutral, _) in REFUSED.items():
        assert defaults.get(name) is None or defaults[name] in neutral, name


@pytest.fixture(scope="module")
def pair(tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]) -> Callable[[str], tuple[Any, Any, Any]]:
    """Tunix's model, transformers' and their tokenizer, each family made once."""
    import jax.numpy as jnp
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from porter import runtime as rt

    made: dict[str, tuple[Any, Any, Any]] = {}

    def models(name: str) -> tuple[Any, Any, Any]:
        if name not in made:
            folder = tiny(name)
            model = rt.load_model(str(folder), tiny_mesh(2, 2), dtype=jnp.float32)
            theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
            tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
            tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
            made[name] = model, theirs, tokenizer
        return made[name]

    return models


PROMPTS = ["What is the capital of France?", "the sea", "Count to three: one, two, three. Write a short poem about it."]


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "mistral"])  # the last two: a sliding window of 8
def test_greedy_tokens_are_transformers(pair: Callable[[str], tuple[Any, Any, Any]], name: str) -> None:
    """A padded batch of unequal prompts, with nothing set."""
    from porter import runtime as rt

    model, theirs, tokenizer = pair(name)
    ours = rt.generate(model, **tokenizer(PROMPTS, padding=True, return_tensors="np"))
    found = theirs.generate(**tokenizer(PROMPTS, padding=True, return_tensors="pt"))
    assert found.shape[1] > 30 and np.array_equal(ours, found.numpy())


def test_settings_and_lengths(pair: Callable[[str], tuple[Any, Any, Any]]) -> None:
    """End and pad tokens, the shortest length, a penalty; a loop over prompts of unequal lengths compiles once."""
    from porter import runtime as rt
    from porter.runtime.generation import sampling as generation

    model, theirs, tokenizer = pair("qwen3")
    batch, tensors = (tokenizer(PROMPTS, padding=True, return_tensors=kind) for kind in ("np", "pt"))
    settings: dict[str, Any] = {"repetition_penalty": 1.3, "pad_token_id": 3, "max_new_tokens": 18}
    free = theirs.generate(**tensors, **settings)
    # Tokens that end a completion: some rows come to them early, the others go on, and those are filled up.
    settings["eos_token_id"] = sorted({int(free[0, -10]), int(free[1, -5])})
    for least, ngram in ((0, 0), (14, 0), (14, 2)):
        settings |= {"min_new_tokens": least, "no_repeat_ngram_size": ngram}
        expected = theirs.generate(**tensors, **settings).numpy()
        assert np.array_equal(rt.generate(model, **batch, **settings), expected)
        assert np.array_equal(rt.generate(theirs, **batch, **settings), expected)  # a model that stayed torch's

    def compiled() -> int:
        return sum(run._cache_size() for run in generation._RUNS[model].values())

    before = compiled()
    for prompt in PROMPTS:
        ids, tensor = (tokenizer(prompt, return_tensors=kind).input_ids for kind in ("np", "pt"))
        length = ids.shape[1] + 7
        found = theirs.generate(tensor, max_length=length).numpy()
        assert np.array_equal(rt.generate(model, ids, max_length=length), found)
    assert compiled() == before + 1


def test_streamers_and_samples(pair: Callable[[str], tuple[Any, Any, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import TextStreamer, pipeline

    from porter import runtime as rt

    model, theirs, tokenizer = pair("qwen3")
    streamer = TextStreamer(tokenizer)
    printed = []
    pipes: list[Any] = [
        pipeline("text-generation", theirs, tokenizer=tokenizer, streamer=streamer),
        rt.TextGenerationPipeline(model, tokenizer, streamer=streamer),
    ]
    for pipe in pipes:
        pipe(PROMPTS[1], do_sample=False, max_new_tokens=20)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and printed.pop().strip()
    printed.clear()
    for generate, kind in ((theirs.generate, "pt"), (lambda **given: rt.generate(model, **given), "np")):
        generate(**tokenizer(PROMPTS[1], return_tensors=kind), streamer=streamer, max_new_tokens=20)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and printed[0].strip()

    ids = tokenizer(PROMPTS[1], return_tensors="np").input_ids
    settings: dict[str, Any] = {"do_sample": True, "num_return_sequences": 2, "max_new_tokens": 20}
    one, same, other = (rt.generate(model, ids, seed=seed, **settings) for seed in (0, 0, 1))
    assert one.shape[0] == 2 and np.array_equal(one, same)
    assert not np.array_equal(one, other) and not np.array_equal(one[0], one[1])


def test_records_of_pipelines(pair: Callable[[str], tuple[Any, Any, Any]]) -> None:
    from transformers import pipeline

    from porter import runtime as rt

    model, theirs, tokenizer = pair("qwen3")
    pipe = rt.TextGenerationPipeline(model, tokenizer.name_or_path)  # as transformers' loads it
    reference = pipeline("text-generation", theirs, tokenizer=tokenizer)
    chat = [{"role": "user", "content": "the answer"}]
    forms: list[tuple[Any, dict[str, Any]]] = [
        (PROMPTS[0], {}),
        (PROMPTS, {"return_full_text": False, "skip_special_tokens": False}),
        (chat, {"return_tensors": True}),
        ([chat, chat], {}),
        ([*chat, {"role": "assistant", "content": "is four"}], {}),
    ]
    for given, own in forms:
        asked = {**own, "do_sample": False, "max_new_tokens": 20}
        assert pipe(given, **asked) == reference(given, **asked)
    base = reference.generation_config
    assert (base.max_new_tokens, base.do_sample, base.temperature) == (256, True, 0.7)
    found = settle(model, tokenizer, None, {}, pipe._base)
    assert (found.lengths["max_new_tokens"], found.do_sample, found.temperature) == (256, True, 0.7)


def test_the_trainers_end_token_counts(pair: Callable[[str], tuple[Any, Any, Any]]) -> None:
    """Behind training, as transformers' `align_special_tokens` leaves the model."""
    from transformers import GenerationConfig
    from transformers.trainer_utils import align_special_tokens

    model, theirs, tokenizer = pair("qwen3")
    before = theirs.generation_config, theirs.config.eos_token_id, theirs.config.pad_token_id
    theirs.generation_config = GenerationConfig.from_dict(before[0].to_dict())
    tokenizer.eos_token = "Ġthe"
    try:
        align_special_tokens(theirs, tokenizer)
        asked = settle(model, tokenizer, None, {}, {})
        assert list(asked.ends) == theirs.generation_config.eos_token_id and len(asked.ends) == 2
        assert asked.pad == theirs.generation_config.pad_token_id
    finally:
        tokenizer.eos_token = "<|im_end|>"
        theirs.generation_config, theirs.config.eos_token_id, theirs.config.pad_token_id = before


def test_what_a_run_has_saved(
    pair: Callable[[str], tuple[Any, Any, Any]],
    tmp_path: Path,
    tiny: Callable[..., Path],
    tiny_mesh: Callable[..., Any],
) -> None:
    """An adapter on the base that it names, beside PEFT; what is merged samples the same."""
    import jax.numpy as jnp
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from porter import runtime as rt

    tokenizer, mesh = pair("qwen3")[2], tiny_mesh(2, 2)
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(tiny("qwen3"), dtype="float32", attn_implementation="eager")
    config = LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    adapted = get_peft_model(base, config)
    adapted.save_pretrained(tmp_path / "adapter")
    expected = adapted.generate(**tokenizer(PROMPTS, padding=True, return_tensors="pt"), max_new_tokens=16).numpy()
    batch = tokenizer(PROMPTS, padding=True, return_tensors="np")
    model = rt.load_trained(tmp_path / "adapter", mesh, dtype=jnp.float32)
    assert np.array_equal(rt.generate(model, **batch, max_new_tokens=16), expected)
    merged = rt.merge_and_unload(model)
    assert np.array_equal(rt.generate(merged, **batch, max_new_tokens=16), expected)
    assert not np.array_equal(rt.generate(pair("qwen3")[0], **batch, max_new_tokens=16), expected)
    whole = rt.load_trained(tiny("qwen3"), mesh, dtype=jnp.float32)
    assert getattr(whole, "lora", None) is None and whole.porter.id == str(tiny("qwen3"))


@pytest.mark.parametrize("name", ["qwen3", "gemma3"])  # the last: a sliding window of 8, soft-capped heads' family
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_called_model_gives_transformers_loss_and_logits(
    pair: Callable[[str], tuple[Any, Any, Any]], name: str, side: str
) -> None:
    """`model(**inputs, labels=ids)`: a padded batch, a single text, and labels that don't count."""
    import torch

    from porter import runtime as rt

    model, theirs, tokenizer = pair(name)
    tokenizer.padding_side = side
    try:
        batch = tokenizer(PROMPTS, padding=True, return_tensors="pt")
    finally:
        tokenizer.padding_side = "left"
    seen = batch["attention_mask"].bool()
    labels = batch["input_ids"].masked_fill(~seen, -100)
    if side == "left":  # a padding's guess of the first token depends on the release
        labels[torch.arange(len(seen)), seen.int().argmax(dim=1)] = -100
    for given, wanted in ((batch, labels), (tokenizer(PROMPTS[0], return_tensors="pt"), None)):
        ids = given["input_ids"]
        with torch.no_grad():
            expected = theirs.eval()(**given, labels=ids if wanted is None else wanted)
        ours = rt.causal_lm_output(model, **given, labels=ids if wanted is None else wanted)
        real = given["attention_mask"].bool()
        assert ours.logits.shape == expected.logits.shape and ours.loss.item() == pytest.approx(
            expected.loss.item(), 1e-4
        )
        assert torch.allclose(ours.logits[real], expected.logits[real], atol=2e-4, rtol=1e-3)
        assert rt.causal_lm_output(model, ids[:, :4]).loss is None
        own = rt.causal_lm_output(theirs, **given, labels=ids if wanted is None else wanted)
        assert own.loss == expected.loss and torch.equal(own.logits, expected.logits)
    with pytest.raises(ValueError, match="past_key_values"):
        rt.causal_lm_output(model, batch["input_ids"], past_key_values=())
