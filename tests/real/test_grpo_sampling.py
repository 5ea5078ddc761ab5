"""Sampling: the probabilities are transformers', the end token is kept, and each call draws anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.runtime.generation.sampling import Sampler, Sampling, ban_repeats, penalise, warp

pytestmark = pytest.mark.real

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"top_k": 5},
    {"top_p": 0.6},
    {"min_p": 0.1},
    {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.05},
    {"repetition_penalty": 1.3, "temperature": 0.9},
    {"repetition_penalty": 0.8},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_probabilities_are_transformers(settings: dict[str, Any]) -> None:
    import jax.numpy as jnp
    import torch
    from transformers import GenerationConfig, LogitsProcessorList
    from transformers.generation import logits_process as hf

    rng = np.random.RandomState(0)
    logits = (2 * rng.randn(4, 60)).astype(np.float32)
    tokens = rng.randint(0, 60, (4, 9))
    asked = GenerationConfig(do_sample=True, **settings)
    steps: list[Any] = []
    if "repetition_penalty" in settings:
        steps.append(hf.RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"]))
    if asked.temperature is not None:
        steps.append(hf.TemperatureLogitsWarper(float(asked.temperature)))
    for name, kind in (("top_k", hf.TopKLogitsWarper), ("top_p", hf.TopPLogitsWarper), ("min_p", hf.MinPLogitsWarper)):
        if name in settings:
            steps.append(kind(settings[name]))
    theirs = LogitsProcessorList(steps)(torch.tensor(tokens), torch.tensor(logits)).numpy()
    sampling = Sampling(8, (1,), 0, **settings)
    filled = np.pad(tokens, ((0, 0), (0, 3)), constant_values=59)  # what isn't filled yet counts for nothing
    ours = penalise(jnp.asarray(logits), jnp.asarray(filled), jnp.arange(12) < 9, sampling.repetition_penalty)
    ours = np.asarray(warp(ours, sampling))
    assert np.array_equal(np.isinf(ours), np.isinf(theirs))
    assert np.allclose(ours[np.isfinite(ours)], theirs[np.isfinite(theirs)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filled", [1, 2, 3, 9])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("first", [0, 2])
def test_repeated_ngrams_are_banned_as_in_transformers(size: int, filled: int, first: int) -> None:
    import jax.numpy as jnp
    import torch
    from transformers import NoRepeatNGramLogitsProcessor

    rng = np.random.RandomState(size)
    logits, tokens = rng.randn(40, 5).astype(np.float32), rng.randint(0, 3, (40, first + filled))
    theirs = NoRepeatNGramLogitsProcessor(size)(torch.tensor(tokens[:, first:]), torch.tensor(logits)).numpy()
    assert np.isinf(theirs).any() == (filled >= size)
    wide = np.pad(tokens, ((0, 0), (0, 3)), constant_values=1)
    at = jnp.arange(wide.shape[1])
    ours = ban_repeats(jnp.asarray(logits), jnp.asarray(wide), (at >= first) & (at < first + filled), size)
    assert np.array_equal(np.asarray(ours), theirs)


PROMPTS = [[5, 6, 7, 8, 9, 10], [5, 11, 12], [20] * 9]


@pytest.mark.parametrize("name", ["llama3"])  # test_generate.py has a model with a sliding window
def test_the_likeliest_tokens_are_transformers(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], name: str
) -> None:
    """Prompts of several lengths side by side, at a temperature near 0: the cache, masks and positions are right."""
    import jax
    import jax.numpy as jnp
    import torch
    from transformers import AutoModelForCausalLM

    from porter import runtime as rt

    folder = tiny(name)
    model = rt.load_model(str(folder), tiny_mesh(2, 2), dtype=jnp.float32)
    sampler = Sampler(model, tiny_mesh(2, 2), Sampling(12, (511,), 0, temperature=1e-4), prompt_length=12)
    ours = sampler(PROMPTS, jax.random.key(0))
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    for prompt, completion in zip(PROMPTS, ours, strict=True):
        ids = torch.tensor([prompt])
        found = theirs.generate(input_ids=ids, max_new_tokens=12, do_sample=False, eos_token_id=511, pad_token_id=0)
        assert completion == found[0, len(prompt) :].tolist()


def test_end_tokens_are_kept_and_calls_differ(tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]) -> None:
    import jax
    import jax.numpy as jnp

    from porter import runtime as rt

    mesh = tiny_mesh(2, 1)
    model = rt.load_model(str(tiny("qwen3")), mesh, dtype=jnp.float32)
    ends = tuple(range(0, 512, 4))  # every fourth token ends a completion
    sampler = Sampler(model, mesh, Sampling(16, ends, 0), prompt_length=8)
    one, other = (sampler([[5, 6]] * 8, jax.random.key(seed)) for seed in (0, 1))
    assert one != other and len({tuple(ids) for ids in one}) > 4
    for ids in (*one, *other):
        assert not set(ids[:-1]) & set(ends) and (ids[-1] in ends or len(ids) == 16)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"temperature": 0.0}, "above 0"), ({"top_p": 1.5}, "top_p=1.5"), ({"min_p": -1.0}, "min_p=-1.0")],
)
def test_settings_that_sample_nothing(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Sampling(8, (1,), 0, **settings)


def test_lengths_and_batches_that_don_t_fit(tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]) -> None:
    import jax.numpy as jnp
    from transformers import AutoTokenizer

    from porter import runtime as rt

    folder, mesh = tiny("qwen3"), tiny_mesh(2, 1)
    model, tokenizer = rt.load_model(str(folder), mesh, dtype=jnp.float32), AutoTokenizer.from_pretrained(folder)

    def made(rows: Any = None, **settings: Any) -> Any:
        given = {"reward_funcs": lambda completions, **kwargs: [0.0] * len(completions), **settings}
        return rt.GRPOBatches(rows or [{"prompt": "a b c"}] * 8, tokenizer, mesh, model, **given)

    for settings, said in (
        ({"max_completion_length": 4000}, "more than the model's context of 2048 tokens"),
        ({"num_generations": 3}, "num_generations=3 does not divide the generation batch of 8 completions"),
        ({"num_generations": 1}, "at least 2 completions"),
        ({"batch_size": 64, "num_generations": 2}, "don't fill a generation batch of 32 prompts"),
        ({"steps_per_generation": 2, "generation_batch_size": 16}, "set one of them"),
        ({"rows": [{"question": "?"}]}, "GRPO needs 'prompt'"),
        ({"reward_funcs": lambda completions: []}, "takes no prompts"),
    ):
        with pytest.raises(ValueError, match=said):
            made(**settings)
    with pytest.raises(ValueError, match="loss_type='grop' is not known; choose one of grpo"):
        rt.PolicyLoss("grop")
