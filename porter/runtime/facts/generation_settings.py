"""What `generate` of transformers is told, and by whom: the call, a GenerationConfig, the checkpoint, its defaults.

The order, the defaults and the special tokens are those of transformers 5.12 (generation/utils.py,
`_prepare_generation_config`). What has no counterpart in a port is refused by name. Needs no JAX: the porter reads the
tables below as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .family import text_config
from .field_tables import version_key

# What shapes a completion here, with transformers' default.
DEFAULTS: dict[str, Any] = {
    "max_length": 20,
    "max_new_tokens": None,
    "min_length": 0,
    "min_new_tokens": None,
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "num_return_sequences": 1,
    "eos_token_id": None,
    "pad_token_id": None,
    "bos_token_id": None,
}

# Of `model.config`: what transformers reads when it makes a model of Tunix's families, or never. Set later it is
# saved, and changes nothing else.
BUILT = frozenset(
    """rope_scaling rope_theta rope_parameters attention_dropout hidden_dropout hidden_dropout_prob resid_pdrop
    attn_pdrop embd_pdrop attention_probs_dropout_prob attn_config init_device max_seq_len""".split()
)
# What a setting is that transformers leaves alone when it is None.
NEUTRAL: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0}
SPECIAL = frozenset({"bos_token_id", "eos_token_id", "pad_token_id"})
DEFAULT_IS_NEW = (4, 47, 0)  # the first transformers whose 20 tokens don't count the prompt
REFUSES_LONG = (4, 38, 0)  # the first transformers that ends where a prompt is as long as max_length
FILLS_UNSET = (5, 0, 0)  # the first transformers that fills what a call leaves unset, whoever wrote the checkpoint's
FILLING = (4, 50, 0)  # the first transformers whose generation_config.json replaces a call's default values

# Keywords of transformers' causal models that change neither their logits nor their loss.
OF_FORWARD = frozenset({"use_cache", "return_dict", "token_type_ids", "output_attentions", "output_hidden_states"})

# What makes no difference to the tokens here, and why.
IDLE: dict[str, str] = {
    "use_cache": "the keys and values of earlier tokens are always kept",
    "cache_implementation": "the keys and values of earlier tokens are always kept, in one array",
    "cache_config": "the keys and values of earlier tokens are always kept, in one array",
    "continuous_batching_config": "the rows of a call are sampled together",
    "disable_compile": "XLA compiles the sampling",
    "compile_config": "XLA compiles the sampling",
    "prefill_chunk_size": "the prompts are read at once",
    "low_memory": "a way to spare a GPU's memory",
    "synced_gpus": "one program drives all devices",
    "early_stopping": "only beams stop early",
    "length_penalty": "only beams are ranked by it",
    "renormalize_logits": "the choice of a token is the same",
    "remove_invalid_values": "the model's logits are finite",
    "token_type_ids": "a text model has none",
    "tokenizer": "gives its end and pad tokens, which training has aligned the model with",
    "trust_remote_code": "no code is loaded",
    "use_model_defaults": "the checkpoint's settings hold where the call is silent",
    "is_assistant": "no assistant drafts tokens",
    "num_assistant_tokens": "no assistant drafts tokens",
    "num_assistant_tokens_schedule": "no assistant drafts tokens",
    "assistant_confidence_threshold": "no assistant drafts tokens",
    "assistant_early_exit": "no assistant drafts tokens",
    "assistant_lookbehind": "no assistant drafts tokens",
    "target_lookbehind": "no assistant drafts tokens",
    "max_matching_ngram_size": "no assistant drafts tokens",
    "transformers_version": "says who wrote the settings",
}

_BEAMS = "Tunix's sampler here keeps one completion a row, no beams"
_LOGITS = (
    "the port changes logits by temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size and the "
    "shortest length only"
)
_STOPS = "a completion ends with an end token (eos_token_id) or its length"
_ASSIST = "no second model drafts tokens"
_GIVES = "the port's generate gives token ids only"
_ENCODER = "it is a setting of encoder-decoder models"

# What is refused: the values that ask for nothing, and why anything else can't be had.
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "num_beams": ((1,), _BEAMS),
    "num_beam_groups": ((1,), _BEAMS),
    "diversity_penalty": ((0.0,), _BEAMS),
    "constraints": ((), _BEAMS),
    "force_words_ids": ((), _BEAMS),
    "penalty_alpha": ((0.0,), "contrastive search isn't part of transformers 5 either"),
    "dola_layers": ((), "DoLa isn't part of transformers 5 either"),
    "top_h": ((), _LOGITS),
    "typical_p": ((1.0,), _LOGITS),
    "epsilon_cutoff": ((0.0,), _LOGITS),
    "eta_cutoff": ((0.0,), _LOGITS),
    "encoder_repetition_penalty": ((1.0,), _LOGITS),
    "bad_words_ids": ((), _LOGITS),
    "forced_bos_token_id": ((), _LOGITS),
    "forced_eos_token_id": ((), _LOGITS),
    "exponential_decay_length_penalty": ((), _LOGITS),
    "suppress_tokens": (([],), _LOGITS),
    "begin_suppress_tokens": (([],), _LOGITS),
    "sequence_bias": ((), _LOGITS),
    "guidance_scale": ((1.0,), _LOGITS),
    "watermarking_config": ((), _LOGITS),
    "logits_processor": (([],), _LOGITS),
    "prefix_allowed_tokens_fn": ((), _LOGITS),
    "negative_prompt_ids": ((), _LOGITS),
    "negative_prompt_attention_mask": ((), _LOGITS),
    "token_healing": ((False,), "the prompt's last token stays as it is"),
    "max_time": ((), _STOPS),
    "stop_strings": ((), _STOPS),
    "stopping_criteria": (([],), _STOPS),
    "assistant_model": ((), _ASSIST),
    "prompt_lookup_num_tokens": ((), _ASSIST),
    "custom_generate": ((), "the port samples as transformers' own generate does"),
    "output_attentions": ((False,), _GIVES),
    "output_hidden_states": ((False,), _GIVES),
    "output_scores": ((False,), _GIVES),
    "output_logits": ((False,), _GIVES),
    "return_dict_in_generate": ((False,), _GIVES),
    "inputs_embeds": ((), "prompts are token ids"),
    "past_key_values": ((), "prompts are read from their first token on"),
    "position_ids": ((), "positions count a prompt's tokens"),
    "encoder_no_repeat_ngram_size": ((0,), _ENCODER),
    "decoder_start_token_id": ((), _ENCODER),
    "decoder_input_ids": ((), _ENCODER),
}


# Settings of transformers' text-generation pipeline itself; all others are those of generate.
PIPELINE_SETTINGS = (
    "return_full_text", "return_text", "return_tensors", "clean_up_tokenization_spaces", "prefix",
    "continue_final_message", "skip_special_tokens", "tokenizer_encode_kwargs", "tools", "documents", "batch_size",
    "num_workers", "stop_sequence", "add_special_tokens", "padding", "truncation",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The settings of one call, complete. `ends` and `pad` are token ids, `pad` 0 where nothing needs one.

    `transformers`: the release whose lengths hold, None for 5.12's.
    """

    do_sample: bool
    temperature: float
    top_k: int | None
    top_p: float
    min_p: float | None
    repetition_penalty: float
    no_repeat_ngram_size: int
    num_return_sequences: int
    ends: tuple[int, ...]
    pad: int
    lengths: Mapping[str, Any]
    infers_mask: bool
    bos: int | None
    context: int | None
    transformers: str | None = None

    def new_tokens(self, prompt: int) -> tuple[int, int]:
        """How many tokens follow prompts of `prompt` places, at most and at least. ValueError where it is none."""
        given = self.lengths
        most = given["max_new_tokens"]
        if most is None and given["max_length"] is not None:
            most = given["max_length"] - prompt
        elif most is None and is_older(self.transformers, DEFAULT_IS_NEW):
            most = DEFAULTS["max_length"] - prompt
        elif most is None:  # transformers' own 20, which never passes the context
            most = min(DEFAULTS["max_length"], (self.context or prompt + DEFAULTS["max_length"]) - prompt)
        if is_older(self.transformers, REFUSES_LONG) and given["max_new_tokens"] is None:
            most = max(most, 1)  # its criterion was asked behind each token
        if most < 1:
            said = f"max_length={given['max_length']}" if given["max_new_tokens"] is None else f"max_new_tokens={most}"
            raise ValueError(
                f"the prompts have {prompt} tokens, and {said} leaves none to generate: set max_new_tokens"
            )
        least = given["min_new_tokens"]
        return int(most), max(0, given["min_length"] - prompt if least is None else least)


def settle(
    model: Any,
    tokenizer: Any,
    config: Any,
    given: Mapping[str, Any],
    base: Mapping[str, Any],
    transformers: str | None = None,
) -> Settings:
    """The settings of a call with the keywords `given` and a GenerationConfig or none.

    `base`: what holds before the checkpoint's own settings, as a pipeline has it. `tokenizer`: the one that the model
    was trained with; its tokens join the checkpoint's as transformers' Trainer does it (`align_special_tokens`).
    `transformers`: the release that is followed, None for 5.12. Before 5 a GenerationConfig had the last word: the
    checkpoint's settings filled it from 4.50 on, and only those that transformers 4.50 or later wrote.
    ValueError, by name, for a setting without a counterpart.
    """
    own = checkpoint_settings(model)
    if tokenizer is not None:
        own = _aligned(own, tokenizer)
    said = _of_config(config)
    if config is not None and not _fills(own, transformers):
        own = {name: value for name, value in own.items() if name in SPECIAL}
    elif is_older(transformers, FILLS_UNSET):  # what says no more than the default gives way
        said = {name: value for name, value in said.items() if name not in own or value != DEFAULTS.get(name)}
    asked = {**base, **said}
    checked = {**asked, **given}
    _refuse(checked | {name: value for name, value in own.items() if name in REFUSED and name not in checked})
    found = {**DEFAULTS, **own, **asked, **given}
    lengths = {name: found[name] for name in ("max_new_tokens", "min_length", "min_new_tokens")}
    lengths["min_length"] = lengths["min_length"] or 0
    lengths["max_length"] = next(
        (s["max_length"] for s in (given, asked, own) if s.get("max_length") is not None), None
    )
    ends = _tokens(found["eos_token_id"])
    pad = _tokens(found["pad_token_id"]) or ends[:1]
    return Settings(
        do_sample=bool(found["do_sample"]),
        temperature=1.0 if found["temperature"] is None else float(found["temperature"]),
        top_k=int(found["top_k"]) if found["top_k"] else None,
        top_p=1.0 if found["top_p"] is None else float(found["top_p"]),
        min_p=None if found["min_p"] is None else float(found["min_p"]),
        repetition_penalty=1.0 if found["repetition_penalty"] is None else float(found["repetition_penalty"]),
        no_repeat_ngram_size=int(found["no_repeat_ngram_size"] or 0),
        num_return_sequences=int(found["num_return_sequences"] or 1),
        ends=ends,
        pad=pad[0] if pad else 0,
        lengths=lengths,
        infers_mask=bool(pad) and pad[0] not in ends,
        bos=next(iter(_tokens(found["bos_token_id"])), None),
        context=text_config(model.porter.config).get("max_position_embeddings"),
        transformers=transformers,
    )


def is_older(transformers: str | None, release: tuple[int, int, int]) -> bool:
    """Whether a release of transformers, the newest where it is None, is older than another."""
    return transformers is not None and version_key(transformers) < release


def _fills(own: Mapping[str, Any], transformers: str | None) -> bool:
    """Whether a checkpoint's settings take the place of what a GenerationConfig leaves as it is by default."""
    if is_older(transformers, FILLING):
        return False
    wrote = str(own.get("transformers_version") or "99")
    return not is_older(transformers, FILLS_UNSET) or version_key(wrote) >= FILLING


def checkpoint_settings(model: Any) -> dict[str, Any]:
    """What the checkpoint's generation_config.json sets, without one the special tokens of its config.json; and what
    the script has set since (`rt.generation_config`)."""
    found = saved_settings(model)
    if found is None:
        names = ("bos_token_id", "eos_token_id", "pad_token_id")
        whole, text = model.porter.config, text_config(model.porter.config)
        found = {name: whole.get(name) if whole.get(name) is not None else text.get(name) for name in names}
        found |= own_settings(model)
    return {name: value for name, value in found.items() if value is not None}


def saved_settings(model: Any) -> dict[str, Any] | None:
    """What a saved model's generation_config.json holds; None where the checkpoint has none."""
    file = Path(model.porter.path) / "generation_config.json"
    return {**json.loads(file.read_text("utf-8")), **own_settings(model)} if file.is_file() else None


def filled_from_checkpoint(model: Any, asked: Mapping[str, Any], fills: str | None) -> dict[str, Any]:
    """What a trainer that asks for `asked` samples with where its checkpoint has settings of its own.

    `fills`: see `porter.runtime.facts.releases.Release.checkpoint_fills`. `defaults` replaces what equals DEFAULTS, and
    only by a generation_config.json that transformers 4.50 or later wrote; `unset` replaces None, by DEFAULTS where the
    checkpoint is silent.
    """
    if fills not in (None, "defaults", "unset"):
        raise ValueError(f"checkpoint_fills={fills!r} is not known; choose one of defaults, unset")
    saved = saved_settings(model)
    saved = own_settings(model) if saved is None else saved
    if fills == "unset":
        said = {name: DEFAULTS[name] if saved.get(name) is None else saved[name] for name in asked}
        return {name: said[name] if value is None else value for name, value in asked.items()}
    if fills is None or version_key(str(saved.get("transformers_version") or "99")) < FILLING:
        return dict(asked)
    found = {name: saved.get(name, value) if value == DEFAULTS[name] else value for name, value in asked.items()}
    return {name: NEUTRAL.get(name) if value is None else value for name, value in found.items()}


def own_settings(model: Any) -> dict[str, Any]:
    """What the script itself has set, see `rt.generation_config`."""
    return dict(json.loads(model.porter.generation_json))


def _aligned(own: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    ends = _tokens(own.get("eos_token_id"))
    eos = tokenizer.eos_token_id
    ends = ends if eos is None or eos in ends else (eos, *ends)
    pad = tokenizer.pad_token_id
    return {**own, "eos_token_id": list(ends) or None, **({} if pad is None else {"pad_token_id": pad})}


def _of_config(config: Any) -> dict[str, Any]:
    """What a GenerationConfig (transformers' own, or a dictionary) sets to something else than its class does."""
    if config is None:
        return {}
    values = config if isinstance(config, Mapping) else config.to_diff_dict()
    return {name: value for name, value in values.items() if value is not None}


def _refuse(asked: Mapping[str, Any]) -> None:
    for name, value in asked.items():
        if name in REFUSED and not asks_nothing(name, value):
            raise ValueError(f"generate({name}={value!r}): {REFUSED[name][1]}; leave it out")
        if name not in REFUSED and name not in DEFAULTS and name not in IDLE and not name.startswith("_"):
            raise ValueError(f"generate({name}=...) is no setting of generate that a port knows; leave it out")


def asks_nothing(name: str, value: Any) -> bool:
    """Whether a value of a refused setting is the one that changes nothing."""
    return value is None or any(value == neutral for neutral in REFUSED[name][0])


def _tokens(value: Any) -> tuple[int, ...]:
    """Token ids as a tuple, whatever holds them: a number, a list, an array or nothing."""
    if value is None:
        return ()
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(int(token) for token in value) if isinstance(value, list | tuple | set) else (int(value),)
