"""What a run of GRPO samples from: prompts and their tokens, sizes of generation batches, lengths, end tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from ..facts.family import text_config
from ..facts.generation_settings import filled_from_checkpoint, own_settings, saved_settings
from ..facts.releases import release
from ..rows import tokenization
from ..rows.rows import is_stream
from .sampling import Sampling


def tokenised_prompts(
    rows: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    longest: int | None,
    template: Mapping[str, Any],
    *,
    start_token: bool = True,
    truncation_side: str = "left",
    continues: bool = False,
) -> list[list[int]]:
    """Token ids of every prompt, as TRL gives them to `generate`; of longer ones `longest`, cut off on a side.

    `template`: further arguments of the chat template. `start_token`: prompts that are text get what the tokenizer adds
    by itself. `continues`: see `Release.continues_answers`. ValueError for a prompt without a token.
    """
    prompts = [row["prompt"] for row in rows]
    found: list[list[int]] = []
    for start in range(0, len(prompts), 1000):
        some = prompts[start : start + 1000]
        if tokenization.is_conversational({"prompt": some[0]}):
            found += _rendered(some, tokenizer, template, continues)
        else:
            encoded = tokenizer(text=some, add_special_tokens=start_token)
            found += [list(ids) for ids in encoded["input_ids"]]
    if any(not ids for ids in found):
        raise ValueError(f"prompt {next(n for n, ids in enumerate(found) if not ids)} of the dataset has no token")
    if longest is None:
        return found
    return [ids[-longest:] if truncation_side == "left" else ids[:longest] for ids in found]


def _rendered(
    prompts: Sequence[Any], tokenizer: Any, template: Mapping[str, Any], continues: bool
) -> Iterator[list[int]]:
    """Token ids of conversations, in their order, each with the header of an answer, or to be continued."""
    open_ends = [continues and prompt[-1]["role"] == "assistant" for prompt in prompts]
    ids: dict[bool, Iterator[Any]] = {}
    for is_open in {*open_ends}:
        some = [prompt for prompt, each in zip(prompts, open_ends, strict=True) if each is is_open]
        asked = {"continue_final_message": True} if is_open else {"add_generation_prompt": True}
        encoded = tokenizer.apply_chat_template(some, tokenize=True, return_dict=True, **asked, **template)
        ids[is_open] = iter(encoded["input_ids"])
    return (list(next(ids[is_open])) for is_open in open_ends)


def prompt_settings(
    kind: str, trl: str | None, tokenizer: Any, start_token: bool | None, truncation_side: str | None
) -> dict[str, Any]:
    """How `tokenised_prompts` makes those of a release `trl` of the trainer `kind`; what is told wins."""
    if trl is None:
        return {"truncation_side": truncation_side or "left", "start_token": start_token is not False}
    own = release(trl)
    side = getattr(tokenizer, "truncation_side", "right") if own.cuts_prompts_as_tokenizer(kind) else "left"
    return {
        "start_token": own.prompts_as_today(kind) if start_token is None else start_token,
        "truncation_side": truncation_side or side,
        "continues": own.continues_answers,
    }


def end_tokens(model: Any, tokenizer: Any, only_eos_token: bool = False) -> tuple[int, ...]:
    """The tokens that end a completion: those of the checkpoint's generation_config.json, and the tokenizer's.

    `only_eos_token`: the tokenizer's alone, where it has one.
    """
    if only_eos_token and tokenizer.eos_token_id is not None:
        return (tokenizer.eos_token_id,)
    config = saved_settings(model) or own_settings(model)
    ends = config.get("eos_token_id", text_config(model.porter.config).get("eos_token_id"))
    found = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    own = [] if tokenizer.eos_token_id is None or tokenizer.eos_token_id in found else [tokenizer.eos_token_id]
    if not own and not found:
        raise ValueError("neither the tokenizer nor generation_config.json names a token that ends a completion")
    return (*own, *found)


def sampling_of(
    model: Any,
    tokenizer: Any,
    max_tokens: int,
    *,
    fills: str | None = None,
    only_eos_token: bool = False,
    **asked: Any,
) -> Sampling:
    """How a trainer samples from `model`: `asked`, and what its checkpoint fills in, which is said.

    `fills`: see `Release.checkpoint_fills`.
    """
    ends = end_tokens(model, tokenizer, only_eos_token)
    found = filled_from_checkpoint(model, asked, fills)
    changed = [f"{name}={value}" for name, value in found.items() if value != asked[name]]
    if changed and jax.process_index() == 0:
        print(f"sampling with {', '.join(changed)} of generation_config.json, as the source's transformers did")
    return Sampling(max_tokens, ends, tokenizer.pad_token_id, **found)


def shared_settings(args: Any, processes: int, kind: str = "grpo") -> dict[str, Any]:
    """What GRPOConfig and RLOOConfig have both, as arguments of their batches; `kind` is "grpo" or "rloo"."""
    strategy = str(getattr(args.eval_strategy, "value", args.eval_strategy))
    if strategy != "no":
        raise ValueError(f"eval_strategy={strategy!r}: the port doesn't sample for evaluation; leave it out")
    cut = "max_prompt_length" not in args.ignored_fields
    own, dated = release(args.of_trl), release(args.of_trl, args.of_transformers)
    by_vllm = args.use_vllm and own.cuts_prompts_as_tokenizer(kind)  # which makes tokens of prompts itself
    return {
        "epochs": args.num_train_epochs,
        "max_steps": args.max_steps,
        "batch_size": args.per_device_train_batch_size * processes,
        "accumulation": args.gradient_accumulation_steps,
        "processes": processes,
        "seed": args.seed,
        "num_generations": args.num_generations,
        "num_iterations": args.num_iterations,
        "steps_per_generation": args.steps_per_generation,
        "generation_batch_size": args.generation_batch_size,
        "max_prompt_length": getattr(args, "max_prompt_length", None) if cut else None,
        "trl": None if own.samples_as_today(kind) else args.of_trl,
        "start_token": True if by_vllm else None,
        "truncation_side": "left" if by_vllm else None,
        "max_completion_length": args.max_completion_length,
        "temperature": args.temperature,
        "top_p": args.top_p,
        "loss_temperature": None if own.divides_by_temperature else 1.0,
        "top_k": args.top_k if own.tells_vllm_top_k or not args.use_vllm else None,
        "min_p": args.min_p,
        "repetition_penalty": args.repetition_penalty,
        "only_eos_token": not args.use_vllm and own.ends_at_eos_token,
        "dealing": own.dealing,
        "leftovers": dated.leftovers,
        "divides_by_made": dated.divides_by_made,
        "reference": own.policy_reference,
        "checkpoint_fills": None if args.use_vllm else dated.checkpoint_fills,
        "raise_batch_size": release(args.of_trl, unsloth=args.of_unsloth or "").raises_batch,
        "mask_truncated_completions": args.mask_truncated_completions,
        "shuffle_dataset": args.shuffle_dataset,
        "chat_template_kwargs": args.chat_template_kwargs,
    }


def raised_batch_size(batch_size: int, accumulation: int, generations: int, processes: int, by: str) -> int:
    """Completions of a micro-step over all processes: `generations` a process where these don't divide those of a
    `step`, or of a process's `micro_step`; see `Release.raises_batch`.
    """
    if by not in ("step", "micro_step"):
        raise ValueError(f"raise_batch_size={by!r} is not known; choose step or micro_step")
    rows = batch_size * accumulation if by == "step" else batch_size // processes
    return generations * processes if rows % generations else batch_size


def micro_steps_of(batch_size: int, accumulation: int, steps: int | None, rows: int | None) -> int:
    """Micro-steps that a generation batch lasts; ValueError where the two ways to say it disagree."""
    if steps is not None and rows is not None:
        raise ValueError("generation_batch_size and steps_per_generation say the same thing: set one of them")
    if rows is not None:
        if rows % batch_size:
            raise ValueError(f"generation_batch_size={rows} is no multiple of the {batch_size} rows of a micro-step")
        return rows // batch_size
    return accumulation if steps is None else steps


def whole_groups(batch_size: int, parts: int, generations: int, dealing: str) -> int:
    """Prompts of a generation batch; ValueError where it doesn't hold whole groups, be it in each of its `parts`
    micro-steps, which `in_order` samples one by one.
    """
    alone = dealing == "in_order"
    rows = batch_size if alone else batch_size * parts
    if generations < 2:
        raise ValueError(f"num_generations={generations}: an advantage needs at least 2 completions of a prompt")
    if rows % generations:
        what = f"the generation batch of {rows} completions (per_device_train_batch_size x processes x "
        what += "steps_per_generation)"
        if alone:
            what = f"the {rows} completions of a micro-step (per_device_train_batch_size x processes), as TRL before "
            what += "0.17 asks"
        raise ValueError(f"num_generations={generations} does not divide {what}")
    return batch_size * parts // generations


def prompt_rows(dataset: Any, needed: int, seed: int | None) -> Sequence[Mapping[str, Any]]:
    """The dataset's rows; of a stream the first `needed`, passed over again where it is short."""
    first = tokenization.first_row(dataset)
    if "prompt" not in first:
        raise ValueError(f"the dataset has the columns {', '.join(first)}; GRPO needs 'prompt'")
    if not is_stream(dataset):
        return [dict(row) for row in dataset]
    if not needed:
        raise ValueError("a streamed dataset has no length: set max_steps")
    dataset = dataset if seed is None else dataset.shuffle(seed=seed)
    found: list[Mapping[str, Any]] = []
    while len(found) < needed:
        found += itertools.islice(dataset, needed - len(found))
    return found


def check_rows(model: Any, longest: int) -> None:
    """ValueError for rows of `longest` tokens that are longer than the model's context."""
    context = text_config(model.porter.config).get("max_position_embeddings")
    if context and longest > context:
        raise ValueError(
            f"a row of {longest} tokens is longer than the model's context of {context}: set max_length={context} or "
            "less"
        )


def check_context(model: Any, prompt: int, completion: int, name: str = "max_completion_length") -> None:
    """ValueError for prompts and completions that are longer than the model's context; `name`: what sets the latter."""
    config = text_config(model.porter.config)
    context = config.get("max_position_embeddings")
    said = f"the longest prompt has {prompt} tokens, and {name}={completion}"
    if context and prompt + completion > context:
        raise ValueError(f"{said}: together more than the model's context of {context} tokens")
    window = getattr(model.config, "sliding_window_size", None)
    if model.porter.family.name == "gemma2" and window and prompt + completion > window:
        raise ValueError(
            f"{said}: together more than Gemma 2's sliding window of {window}, which google-tunix applies wrongly to "
            "padded prompts; make them shorter"
        )


def padded_window(model: Any, real: Any, length: int, capacity: int, most: int) -> tuple[int, int]:
    """The lengths to compile for, `length` and `capacity`, or those of the prompts `real` (B, P) and `most` themselves
    where padding would pass Gemma 2's sliding window, which google-tunix 0.1.7 applies wrongly to padded prompts.

    ValueError where the prompts themselves are padded and pass it.
    """
    window = getattr(model.config, "sliding_window_size", None)
    if model.porter.family.name != "gemma2" or not window or length + capacity <= window:
        return length, capacity
    width = real.shape[1]
    if not real.all() and width + most > window:
        raise ValueError(
            f"prompts of up to {width} tokens and {most} more pass Gemma 2's sliding window of {window}, which "
            "google-tunix applies wrongly to padded prompts: generate from one prompt at a time"
        )
    return width, most
