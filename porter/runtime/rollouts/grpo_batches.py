"""Completions sampled while training, scored, and dealt to micro-batches: TRL's GRPOTrainer on a mesh.

The prompts, their order, how many completions an optimizer step trains on and from which weights they were sampled are
those of TRL 1.16; only the random numbers are others. Batches go to Tunix's PeftTrainer like those of supervised
training: the next ones are sampled, from the weights as they are by then, when the trainer asks for them.

Tunix's own GRPOLearner is not used: in google-tunix 0.1.7 it trains completions without their end token, samples anew
for every optimizer step and repeats one seed, keeps the completions of a prompt in one micro-batch, and divides losses
by the micro-batch (docs/grpo.md has the list).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..batches.arrays import Batch, divisible, filled_up
from ..facts.files import to_host
from ..facts.lengths import rounded
from ..facts.releases import release
from ..facts.releases.lines import Lines
from ..facts.releases.unsloth_grpo import settings_of_loss, settled_by_config
from ..generation.prompts import (
    check_context,
    micro_steps_of,
    prompt_rows,
    prompt_settings,
    raised_batch_size,
    sampling_of,
    shared_settings,
    tokenised_prompts,
    whole_groups,
)
from ..generation.sampling import Sampler
from ..hosts import processes as hosts
from ..hosts.global_arrays import on_mesh, placed
from ..losses.for_metrics import named
from ..losses.policy_loss import PolicyLoss, Shares
from ..rows import tokenization, tokenizer_setup
from ..rows.rows import is_stream
from .dealing import checked, dealt, mixed
from .logged import Logged, shares_of
from .prompt_order import PromptOrder
from .reference import logps_of, reference_logps
from .rewards import RewardFunc, Rewards, TrainerState, group_advantages
from .rollout import Rollout
from .rollout_arrays import assembled
from .row_divisors import row_divisors

OTHER = ("prompt", "completion", "completion_ids")  # columns that reward functions don't get as such


class GRPOBatches:
    """Batches of GRPO: iterating samples completions from `model`, scores them and gives them to the trainer.

    Each of `steps` optimizer steps has `accumulation` micro-batches: dicts of `input_tokens`, `positions` and
    `segment_ids` (0 = padding), (B, P + C) int32 with the prompts padded on the left and the completions on the right,
    `completion_mask` (B, C), `advantages` and `scale` (B,) float32, and where the loss needs them `old_logps` and
    `reference_logps`, (B, C) float32. B is the smallest multiple of the mesh's fsdp axis that holds `batch_size` rows.
    P is that of the longest prompt, so that all compiles once. `loss` is the loss function for these batches.

    `batch_size`: completions of one micro-step of the GPU run over all its `processes` (TRL counts completions, Tunix's
    own learner prompts); `model` is the one that trains, its adapters in. The reference of `loss.beta` is the model as
    it is now, with new adapters the base model; with `reference="base"` it has none, as from 0.15 to 0.26, which
    differs where they come from a folder; with "checkpoint" a model without adapters is loaded anew for it, see
    `load_reference`. The other arguments are GRPOConfig's, with its names and defaults (`epochs`: num_train_epochs).
    `max_prompt_length`, of releases before 0.26, cuts longer prompts. `trl`: prompts and log lines are as in that
    release, see facts/releases/prompts.py; `start_token` and `truncation_side` are its own where they are None.
    `only_eos_token`, of releases from 0.16 to 1.14.1, ends completions at the tokenizer's end token alone, not at every
    one of the checkpoint's generation_config.json; `loss_temperature` divides the logits of log-probabilities (1.0
    before 0.16) where it isn't `temperature`; `checkpoint_fills` says which sampling settings that file replaces, see
    `Release.checkpoint_fills`; `dealing` is how micro-steps share a generation batch (dealing.py), `leftovers` what
    becomes of an epoch's prompts that fill none (prompt_order.py); without `divides_by_made` a step of fewer
    micro-steps is divided by `accumulation` all the same, see `Release.divides_by_made`.
    `raise_batch_size`: where `num_generations` doesn't divide the completions of a "step" (or of a process's
    "micro_step"), a process's batch is that many, as Unsloth makes it. `loss_parts`: the loss is the mean over so many
    parts of a process's micro-step, each taken apart, over each row where it is -1, as Unsloth's was before 2026.2.
    `micro_batch`: rows to make B from instead of `batch_size`; the step keeps its rows.

    ValueError at once for lengths that don't fit the model's context, batches that groups of `num_generations` don't
    fill, and reward functions that can't be called as TRL does. Of several JAX processes the first one calls the reward
    functions, once for each completion; the others are told their values.
    """

    KIND = "grpo"

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        model: nnx.Module,
        *,
        reward_funcs: RewardFunc | Sequence[RewardFunc],
        loss: PolicyLoss | None = None,
        epochs: float = 3.0,
        max_steps: int = -1,
        batch_size: int = 8,
        accumulation: int = 1,
        processes: int = 1,
        seed: int = 42,
        num_generations: int = 8,
        num_iterations: int = 1,
        steps_per_generation: int | None = None,
        generation_batch_size: int | None = None,
        max_prompt_length: int | None = None,
        trl: str | None = None,
        start_token: bool | None = None,
        truncation_side: str | None = None,
        max_completion_length: int = 512,
        temperature: float = 1.0,
        loss_temperature: float | None = None,
        top_p: float = 1.0,
        top_k: int | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        only_eos_token: bool = False,
        checkpoint_fills: str | None = None,
        dealing: str = "shuffled",
        leftovers: str = "left_out",
        divides_by_made: bool = True,
        reference: str = "start",
        raise_batch_size: str | None = None,
        loss_parts: int | None = None,
        micro_batch: int | None = None,
        reward_weights: Sequence[float] | None = None,
        scale_rewards: str | bool = "group",
        multi_objective_aggregation: str = "sum_then_normalize",
        mask_truncated_completions: bool = False,
        shuffle_dataset: bool = True,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        said = steps_per_generation is not None or generation_batch_size is not None
        if raise_batch_size == "micro_step" or (raise_batch_size and not said):
            batch_size = raised_batch_size(batch_size, accumulation, num_generations, processes, raise_batch_size)
        if batch_size % processes:
            raise ValueError(f"batch_size={batch_size} rows can't be dealt evenly to {processes} processes")
        self._dealing, self._divides_by_made, self._loss_parts = checked(dealing), divides_by_made, loss_parts
        of_loss = temperature if loss_temperature is None else loss_temperature
        self.loss = replace(loss or PolicyLoss(), temperature=of_loss)
        self._tokenizer, self._mesh, self._model = tokenizer, mesh, model
        self._source, self._processes = (batch_size, accumulation), processes
        self._parts = micro_steps_of(batch_size, accumulation, steps_per_generation, generation_batch_size)
        self._generations, self._iterations = num_generations, num_iterations
        self.lines = Lines(self.KIND, release(trl))
        self.loss = replace(self.loss, **self._logged_of_loss())
        self._prompts_at_once = whole_groups(batch_size, self._parts, num_generations, dealing)
        self._advantage_settings: dict[str, Any] = {"scale": scale_rewards, "aggregation": multi_objective_aggregation}
        none = np.zeros((num_generations, 1))
        group_advantages(none, np.ones(1), num_generations, **self._advantage_settings)  # refuses what it doesn't know
        self._mask_truncated = mask_truncated_completions
        tokenizer_setup.set_up_tokenizer(tokenizer)

        step_parts = math.ceil(max_steps * accumulation / (self._parts * num_iterations)) if max_steps > 0 else 0
        self._rows = prompt_rows(dataset, step_parts * self._prompts_at_once, seed if shuffle_dataset else None)
        self._shuffled = shuffle_dataset and not is_stream(dataset)
        self._seed = seed
        columns = [name for name in self._rows[0] if name not in OTHER]
        self._rewards = Rewards(reward_funcs, reward_weights, columns)
        self._order = PromptOrder(
            prompts=len(self._rows),
            generations=num_generations,
            rows=batch_size,
            accumulation=accumulation,
            parts=self._parts,
            iterations=num_iterations,
            several=processes > 1,
            leftovers=leftovers,
            epochs=epochs,
            max_steps=max_steps,
        )
        self.steps_per_epoch, self.steps = self._order.steps_per_epoch, self._order.steps
        # What the Trainer counts as an epoch's samples: prompts, or completions where it is told the steps.
        self.rows = math.prod(self._source) * self.steps_per_epoch if max_steps > 0 else len(self._rows)
        self.state = TrainerState(max_steps=self.steps, num_train_epochs=math.ceil(self.steps / self.steps_per_epoch))

        source = release(trl)
        self.logged = Logged(source, self._rewards, num_generations, whole_spread=scale_rewards == "batch")
        self._kl_of_all = source.since(1, 9)
        as_release = prompt_settings(self.KIND, trl, tokenizer, start_token, truncation_side)
        self._prompts = tokenised_prompts(
            self._rows, tokenizer, max_prompt_length, chat_template_kwargs or {}, **as_release
        )
        longest = max(map(len, self._prompts))
        check_context(model, longest, max_completion_length)
        self._completion_length = max_completion_length
        self.length = rounded(longest + max_completion_length)
        self.batch_size = divisible(micro_batch or batch_size, mesh)
        self._micro_batches = math.ceil(batch_size * accumulation / self.batch_size)
        self.accumulation = self._micro_batches if self._micro_batches > 1 else None
        sampling = sampling_of(
            model,
            tokenizer,
            max_completion_length,
            fills=checkpoint_fills,
            only_eos_token=only_eos_token,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
        )
        self._ends = {*sampling.ends, tokenizer.pad_token_id}
        self._sampler = Sampler(model, mesh, sampling, self.length - max_completion_length)
        self._wrt = nnx.LoRAParam if jax.tree.leaves(nnx.state(model, nnx.LoRAParam)) else nnx.Param
        settings: dict[str, Any] = {"length": max_completion_length, "temperature": of_loss}
        self._logps = jax.jit(partial(logps_of, nnx.graphdef(model), **settings))
        scored = partial(reference_logps, reference, model, mesh, self._wrt, self._logps, settings)
        self._reference = scored() if self.loss.beta else None
        self._said_by_rewards: dict[str, float] = {}
        self._skipped = 0
        if jax.process_index() == 0:
            print(self)

    @classmethod
    def from_args(
        cls,
        training_args: Any,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        model: nnx.Module,
        *,
        reward_funcs: RewardFunc | Sequence[RewardFunc],
        processes: int = 1,
        **own: Any,
    ) -> GRPOBatches:
        """The batches of a GRPOConfig whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with. `own`: other settings than
        these and its release's, `reference="checkpoint"`.
        """
        settings = {**shared_settings(training_args, processes), **settings_of_loss(training_args.of_unsloth)}
        loss = PolicyLoss.from_args(training_args)
        changed, more = settled_by_config(training_args.of_unsloth, loss.loss_type, training_args.scale_rewards)
        return cls(
            dataset,
            tokenizer,
            mesh,
            model,
            reward_funcs=reward_funcs,
            loss=replace(loss, **changed),
            reward_weights=training_args.reward_weights,
            multi_objective_aggregation=training_args.multi_objective_aggregation,
            **{"scale_rewards": training_args.scale_rewards, **settings, **more, **own},
        )

    def __iter__(self) -> Iterator[Batch]:
        return placed(self._made(), self._mesh)

    def _made(self) -> Iterator[Batch]:
        self.logged.begin()
        rollouts: list[list[Rollout]] = []
        last = -1
        for done, group in enumerate(self._order.groups(self._seed if self._shuffled else None)):
            if done < self._skipped:
                yield from self._untrained()
                continue
            self.state.global_step, self.state.epoch = done, done / self.steps_per_epoch
            picked = []
            for number, chunk, part in group:
                if number != last:
                    rollouts, said = self._generate(chunk, number)
                    self.logged.add(done, said)
                    last = number
                picked.append(rollouts[part])
            shares = shares_of(picked, self._processes, self._micro_batches, of_all=self._kl_of_all)
            yield from self._micro(list(itertools.chain(*picked)), self._scale(picked), shares)

    def __repr__(self) -> str:
        rows = math.prod(self._source)
        ends = f", of which {self._order.lasts} are made" if self._order.lasts < self.steps else ""
        return (
            f"{len(self._rows)} prompts, {self.steps} steps of {rows} completions{ends} "
            f"({self._generations} of each prompt, {self._prompts_at_once} prompts sampled at once) "
            f"as {self._micro_batches} x {self.batch_size} x {self.length} tokens"
        )

    def skip(self, steps: int) -> None:
        """Samples nothing for the first `steps` steps, which a resumed trainer passes over."""
        self._skipped = steps

    def metrics(self, after: int, until: int) -> dict[str, float]:
        """TRL's metrics of the completions sampled for optimizer steps `after` + 1 to `until`, their means."""
        return self.logged.between(after, until)

    def _generate(self, chunk: Sequence[int], number: int) -> tuple[list[list[Rollout]], dict[str, float]]:
        """The completions of a generation batch in as many parts as it lasts micro-steps, and their metrics."""
        repeated = [row for row in chunk for _ in range(self._generations)]
        key = jax.random.fold_in(jax.random.key(self._seed), number)
        prompts = [self._prompts[row] for row in repeated]
        completions = self._sampler(prompts, key)
        cut = [ids[-1] not in self._ends for ids in completions]
        rollouts = [
            Rollout(prompt, ids, 0 if self._mask_truncated and short else len(ids))
            for prompt, ids, short in zip(prompts, completions, cut, strict=True)
        ]
        tokens = sum(rollout.trained for rollout in rollouts)
        self._add_logps(rollouts)
        rewards = self._score(repeated, completions)
        advantages = self._advantages(rewards, rollouts)
        for rollout, advantage in zip(rollouts, advantages, strict=True):
            rollout.advantage, rollout.tokens = float(advantage), tokens
        said = self.logged.of_batch(rewards, rollouts, cut) | self._said_by_rewards
        return self._dealt(rollouts, number), said

    def _dealt(self, rollouts: list[Rollout], number: int) -> list[list[Rollout]]:
        """The batch's rows in the parts that micro-steps train."""
        share = len(rollouts) // self._processes
        orders = [mixed(share, self._seed + process, number) for process in range(self._processes)]
        return dealt(rollouts, self._source[0], orders, self._dealing)

    def _score(self, rows: Sequence[int], completions: Sequence[list[int]]) -> np.ndarray:
        prompts = [self._rows[row]["prompt"] for row in rows]
        texts: list[Any] = self._tokenizer.batch_decode(completions, skip_special_tokens=True)
        if tokenization.is_conversational({"prompt": prompts[0]}):
            texts = [[{"role": "assistant", "content": text}] for text in texts]
        columns = {
            name: [self._rows[row].get(name) for row in rows] for name in self._rows[rows[0]] if name not in OTHER
        }

        def scored() -> Any:
            rewards = self._rewards(prompts, texts, completions, columns, self.state)
            return [rewards.tolist(), self._rewards.take_metrics()]

        rewards, self._said_by_rewards = hosts.from_first("a reward function", scored)
        return np.asarray(rewards, np.float32)

    def _advantages(self, rewards: np.ndarray, rollouts: Sequence[Rollout]) -> np.ndarray:
        return group_advantages(rewards, self._rewards.weights, self._generations, **self._advantage_settings)

    def _logged_of_loss(self) -> dict[str, Any]:
        """What the loss tells of itself. Before 1.9 its extremes were those of the processes' means."""
        clips = self.lines.clips(self.loss.loss_type)
        if not self.lines.extremes_of_rows and self._processes > 1 and self._needs_old:
            clips = tuple(name for name in clips if not name.endswith(("_min", "_max")))
        logs = (*(("entropy",) if self.lines.entropy else ()), *clips)
        return {"logs": logs, "micro_steps": self._source[1], "extremes_of_rows": self.lines.extremes_of_rows}

    @property
    def _needs_old(self) -> bool:
        """Whether the weights have moved on when some of a generation batch is trained."""
        return self._source[1] % (self._parts * self._iterations) != 0

    def _add_logps(self, rollouts: list[Rollout]) -> None:
        """Log-probabilities of the completions by the present policy and the reference, where the loss needs them."""
        if not self._needs_old and self._reference is None:
            return
        for start in range(0, len(rollouts), self.batch_size):
            rows = rollouts[start : start + self.batch_size]
            batch = self._assembled(rows, np.zeros(len(rows), np.float32))
            tokens = {name: batch[name] for name in ("input_tokens", "positions", "segment_ids")}
            tokens = {name: on_mesh(array, self._mesh) for name, array in tokens.items()}
            _, trained, rest = nnx.split(self._model, self._wrt, ...)
            with self._mesh:
                old = to_host(self._logps(trained, rest, tokens)) if self._needs_old else None
                reference = None if self._reference is None else to_host(self._reference(rest, tokens))
            for place, rollout in enumerate(rows):
                rollout.old_logps = None if old is None else old[place]
                rollout.reference_logps = None if reference is None else reference[place]

    def _scale(self, parts: list[list[Rollout]]) -> np.ndarray:
        """What each row's tokens count, so that the mean over the micro-batches of a step is TRL's loss."""
        divisors = row_divisors(
            parts,
            self.loss.divides_by,
            length=self._completion_length,
            steps=len(parts) if self._divides_by_made else self._source[1],
            dealt=self._parts,
            processes=self._processes,
            loss_parts=self._loss_parts,
        )
        return np.asarray(self._micro_batches / divisors, np.float32)

    def _micro(self, rollouts: list[Rollout], scale: np.ndarray, shares: Mapping[str, np.ndarray]) -> Iterator[Batch]:
        for start in range(0, self._micro_batches * self.batch_size, self.batch_size):
            part = slice(start, start + self.batch_size)
            batch = self._assembled(rollouts[part], scale[part])
            if self.loss.tells:
                batch |= named({name: filled_up(each[part], self.batch_size) for name, each in shares.items()})
            yield batch

    def _untrained(self) -> Iterator[Batch]:
        """The micro-batches of a step without completions."""
        none = np.zeros(0, np.float32)
        return self._micro([], none, dict.fromkeys(Shares._fields, none))

    def _assembled(self, rollouts: Sequence[Rollout], scale: np.ndarray) -> Batch:
        reference = self.loss.beta and self.loss.loss_type != "rloo"
        return assembled(
            rollouts,
            scale,
            shape=(self.batch_size, self.length),
            completion_length=self._completion_length,
            padding=self._tokenizer.pad_token_id,
            logps=(*(["old_logps"] if self._needs_old else []), *(["reference_logps"] if reference else [])),
        )
