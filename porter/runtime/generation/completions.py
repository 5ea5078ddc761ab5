"""`generate`: completions of a model that a script trains, as `model.generate` of transformers gives them.

    inputs = tokenizer(prompts, return_tensors="np", padding=True)
    outputs = rt.generate(model, **inputs, max_new_tokens=64)
    tokenizer.batch_decode(outputs)

google-tunix 0.1.7's own sampler takes texts, stops at one end token of the tokenizer and none of the checkpoint's, and
leaves it out (tunix/generate/sampler.py); here token ids go in and come out as in transformers.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..facts.generation_settings import Settings, settle
from ..hosts import processes as hosts
from .prompts import padded_window
from .sampling import Sampler, Sampling

# Prompts and completions are padded to the next of these, so that a loop over prompts compiles a few times, not always.
LENGTHS = (32, 64, 128, 256, 512)


def generate(
    model: Any,
    inputs: Any = None,
    *,
    input_ids: Any = None,
    attention_mask: Any = None,
    tokenizer: Any = None,
    generation_config: Any = None,
    streamer: Any = None,
    seed: int | None = None,
    transformers: str | None = None,
    **settings: Any,
) -> np.ndarray:
    """Prompts and what follows them, token ids (B · num_return_sequences, P + C): `generate` of transformers 5.12.

    `input_ids` (or `inputs`): token ids (B, P), padded on the left, with their `attention_mask` (B, P); NumPy's, JAX's
    or torch's; without any, the checkpoint's first token. Rows that end early are filled up with the pad token.
    `settings` are those of GenerationConfig, with its names; what the call leaves out comes from `generation_config`,
    then from the checkpoint's generation_config.json, then from transformers' defaults (greedy, 20 tokens).
    `tokenizer`: the one that the model was trained with, whose end token joins the checkpoint's, as the Trainer has it.
    `streamer` gets the prompt and the tokens when they are all there. `seed` of the random choices: when None drawn
    anew for each call, by `manual_seed`, else by the state of NumPy's generator, which `transformers.set_seed` seeds.
    `transformers`: the
    release whose GenerationConfig and lengths hold, before 5 without the checkpoint's settings (see `settle`).

    A model of torch's, which a function of the script may be given as well, generates by itself, on the host.

    ValueError by name for a setting without a counterpart (beams, stopping criteria, ...).
    """
    model = getattr(model, "unmerged", model)  # merge_and_unload's: its adapters give the same tokens
    if not isinstance(model, nnx.Module) and hasattr(model, "generate"):
        import torch

        own = {
            "generation_config": generation_config,
            "streamer": streamer,
            "attention_mask": attention_mask,
        } | settings
        rows = {"input_ids": input_ids if input_ids is not None else inputs, "attention_mask": attention_mask}
        own |= {name: torch.as_tensor(np.array(value)) for name, value in rows.items() if value is not None}
        return np.asarray(model.generate(**own))
    asked = settle(model, tokenizer, generation_config, settings, {}, transformers)
    given = input_ids if input_ids is not None else inputs
    if given is None and asked.bos is not None:
        given = [[asked.bos]]
    ids = _array(given, "input_ids")
    return sample(model, ids, attention_mask, asked, streamer, seed)


def manual_seed(seed: int) -> None:
    """torch.manual_seed for what `generate` and pipelines draw from now on, whatever the state of NumPy's generator."""
    _draws.start(seed)


class _Draws:
    """Seeds from a generator of its own that starts anew where the state of NumPy's has changed, or a seed is given.

    NumPy's isn't drawn from: on the GPU torch's is, and what a script draws from NumPy's later (a split without a seed,
    an order) would be another.
    """

    def __init__(self) -> None:
        self._state, self._own, self._given = b"", np.random.RandomState(0), False

    def start(self, seed: int) -> None:
        self._own, self._given = np.random.RandomState(int(seed) % 2**32), True

    def next(self) -> int:
        if self._given:
            return int(self._own.randint(2**31))
        _, key, place, *_ = np.random.get_state()
        state = hashlib.sha256(np.asarray(key).tobytes() + str(place).encode()).digest()
        if state != self._state:
            self._state, self._own = state, np.random.RandomState(int.from_bytes(state[:4], "big"))
        return int(self._own.randint(2**31))


_draws = _Draws()


def sample(
    model: Any, ids: np.ndarray, attention_mask: Any, asked: Settings, streamer: Any = None, seed: int | None = None
) -> np.ndarray:
    """What `generate` gives for the settings `asked`."""
    real = _mask(attention_mask, ids, asked)
    ids, real = (np.repeat(rows, asked.num_return_sequences, axis=0) for rows in (ids, real))
    width = ids.shape[1]
    most, least = asked.new_tokens(width)
    _warn_of_right_padding(real)
    length, capacity = padded_window(model, real, _padded(width), _padded(most), most)
    sampling = Sampling(
        capacity,
        asked.ends,
        asked.pad,
        asked.temperature,
        asked.top_p,
        asked.top_k,
        asked.min_p,
        asked.repetition_penalty,
        asked.no_repeat_ngram_size,
        greedy=not asked.do_sample,
    )
    if seed is None:
        drawn = _draws.next() if asked.do_sample else 0
        seed = hosts.from_first("rt.generate", lambda: drawn)
    hosts.agree("the prompts and settings of rt.generate", ids, real, most, least, repr(sampling), seed)
    prompts = [row[kept].tolist() for row, kept in zip(ids, real, strict=True)]
    sampler = Sampler(model, mesh_of(model), sampling, length)
    found = sampler(prompts, jax.random.key(seed), limit=most, least=least, width=width)
    longest = max(map(len, found))
    filled = np.full((len(ids), longest), asked.pad, ids.dtype)
    for row, completion in zip(filled, found, strict=True):
        row[: len(completion)] = completion
    if streamer is not None:
        _stream(streamer, ids, filled)
    return np.concatenate([ids, filled], axis=1)


def mesh_of(model: nnx.Module) -> jax.sharding.Mesh:
    """The mesh on which a model's weights lie."""
    for leaf in jax.tree.leaves(nnx.state(model)):
        if isinstance(getattr(leaf, "sharding", None), jax.sharding.NamedSharding):
            return leaf.sharding.mesh
    return jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("fsdp",))


def _array(given: Any, name: str) -> np.ndarray:
    """Token ids as (B, P) int64, whatever holds them. ValueError without a prompt."""
    if given is None:
        raise ValueError(f"generate needs {name}: the prompts' token ids, (B, P)")
    if hasattr(given, "keys"):  # a BatchEncoding where transformers takes its token ids
        given = given["input_ids"]
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    found = np.asarray(given)
    if found.ndim != 2 or not found.size or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name} are token ids of the shape (B, P), padded to one length; these are {found.shape}")
    return found.astype(np.int64)


def _mask(attention_mask: Any, ids: np.ndarray, asked: Settings) -> np.ndarray:
    """Where the prompts have tokens; without a mask, everything but a pad token that is no end token."""
    if attention_mask is None:
        return ids != asked.pad if asked.infers_mask else np.ones(ids.shape, bool)
    found = _array(attention_mask, "attention_mask").astype(bool)
    if not found.any(axis=1).all():
        raise ValueError("a prompt has no token: its attention_mask is 0 everywhere")
    return found


def _warn_of_right_padding(real: np.ndarray) -> None:
    if not real[:, -1].all():
        warnings.warn(
            "the prompts are padded on the right: each is continued behind its last token, which transformers doesn't "
            "do (set tokenizer.padding_side='left')",
            stacklevel=4,
        )


def _padded(length: int) -> int:
    """`length` rounded up: to a power of two, from 512 on to a multiple of 512."""
    return next((size for size in LENGTHS if length <= size), -(-length // LENGTHS[-1]) * LENGTHS[-1])


def _stream(streamer: Any, ids: np.ndarray, completions: np.ndarray) -> None:
    """Gives a streamer of transformers what `generate` gives it, the prompts and then each step's tokens."""
    streamer.put(ids)
    for step in range(completions.shape[1]):
        streamer.put(completions[:, step])
    streamer.end()
