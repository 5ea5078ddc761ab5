"""The runtime's batches by shape: their own classes, given rows of the greatest length in place of a dataset.

How many rows a micro-batch has, how many of them a step, and which arrays, is thus what the classes themselves say.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .absent import Absent, BatchShapes

if TYPE_CHECKING:
    from .abstract_run import AbstractRun

PREFERENCES = {"PreferenceBatches": "DPO", "ORPOBatches": "ORPO", "CPOBatches": "CPO", "KTOBatches": "KTO"}
SAMPLED = {"GRPOBatches": "GRPO", "RLOOBatches": "RLOO"}
IGNORED = -100


class AbsentTokenizer(Absent):
    """A tokenizer that has a padding token, and nothing to say of lengths."""

    pad_token_id = 0
    eos_token_id = 1
    model_max_length = None


class LongRows:
    """Rows of a preference run that are all as long as they may be: `Documents` of the runtime, without any tokens."""

    wraps = columns = None

    def __init__(self, rows: int, documents: int, longest: int) -> None:
        self.longest = longest
        self.desirable = np.zeros(rows, bool)
        tokens = np.zeros(longest, np.int32)
        self.ids = [(tokens,) * documents] * rows
        self.labels = self.ids

    def __len__(self) -> int:
        return len(self.ids)


def stand_ins(run: AbstractRun, runtime: ModuleType) -> Iterator[tuple[str, type]]:
    """The runtime's names of batches, and what takes their place."""
    for name in ("SFTBatches", "TrainerBatches"):
        yield name, _supervised(run, getattr(runtime, name))
    quiet(runtime)
    for name, kind in PREFERENCES.items():
        yield name, _preferences(run, getattr(runtime, name), kind)
    for name, kind in SAMPLED.items():
        yield name, _sampled(run, getattr(runtime, name), kind)
    yield "GKDBatches", _distilled(run, runtime)


def quiet(runtime: ModuleType) -> None:
    """What the batches' own classes ask of tokenizers, checkpoints, data and rewards that aren't there."""
    part = _importer(runtime)
    padding = lambda *args, **kwargs: AbsentTokenizer.pad_token_id  # noqa: E731
    part("rows.tokenizer_setup").set_up_tokenizer = padding
    part("preferences.preference_batches").set_up_tokenizer = padding
    rollouts = part("rollouts.grpo_batches")
    rollouts.Rewards = AbsentRewards
    for module in (rollouts, part("distillation.distillation_batches")):
        module.end_tokens = lambda *args, **kwargs: (1,)


class AbsentRewards:
    """Reward functions that nobody calls."""

    def __init__(self, *args: Any) -> None:
        self.names: list[str] = []
        self.weights = np.ones(1, np.float32)


def _importer(runtime: ModuleType) -> Callable[[str], Any]:
    return lambda name: importlib.import_module(f"{runtime.__name__}.{name}")


def _supervised(run: AbstractRun, original: Any) -> type:
    """A stand-in for a class of batches that binds its arguments by the class's own signature."""
    signature = inspect.signature(original.__init__)

    class Shapes(BatchShapes):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(None, *args, **kwargs)
            given.apply_defaults()
            request = run.request
            try:
                super().__init__(
                    given.arguments["mesh"],
                    {"max_length": None, **given.arguments},
                    seq_len=request["seq_len"],
                    batch=request["batch"],
                    rows=request["rows"],
                )
            except ValueError as unknown:
                run.refuse(str(unknown))
            run.shapes = self

        from_args: Any = classmethod(original.from_args.__func__)

    return Shapes


def _preferences(run: AbstractRun, original: Any, name: str) -> type:
    """Pairs, or completions with their label, of the runtime's own class."""

    class Shapes(original):
        kind = name

        def __init__(self, dataset: Any, tokenizer: Any, mesh: Any, **settings: Any) -> None:
            whole = original.whole or settings.get("whole_micro_batches", False)
            if whole:
                run.refuse_batch(name)
            elif run.request["batch"]:
                settings["micro_batch"] = math.ceil(run.request["batch"] / original.documents)
            super().__init__([], AbsentTokenizer(run.request["rows"]), mesh, **settings)
            self.effective = self._deal.step_rows * self.documents
            rows, count = self._deal.batch_size * self.documents, self._micro_batches
            self.own_batch = {"rows": rows, "micro_batches": count} if whole else None
            run.shapes = self

        def _prepare(self, dataset: Any, per_process: int) -> Any:
            longest = run.lengths.row(self._max_length)
            return LongRows(run.request["rows"], self.documents, longest)

        def evaluation(self, *args: Any, **kwargs: Any) -> Any:
            return self

        def batch(self) -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._empty(self.batch_size, self.length)
            return found

    return Shapes


def _sampled(run: AbstractRun, original: Any, name: str) -> type:
    """Batches of completions that the model samples: prompts as long as `--prompt-len` or the run allows."""
    module: Any = sys.modules[original.__mro__[-2].__module__]

    class Shapes(original):
        kind = name

        def __init__(self, dataset: Any, tokenizer: Any, mesh: Any, model: Any, **settings: Any) -> None:
            run.adjust(model)
            completion = run.lengths.completion(settings.get("max_completion_length", 512), "max_completion_length")
            prompt = run.lengths.prompt(settings.get("max_prompt_length"), completion)
            module.prompt_rows = lambda *args: [{"prompt": ""}] * run.request["rows"]
            module.tokenised_prompts = lambda rows, *args, **named: [[0] * prompt] * len(rows)
            settings |= {"max_completion_length": completion}
            settings |= {"micro_batch": run.request["batch"]} if run.request["batch"] else {}
            super().__init__([], AbsentTokenizer(run.request["rows"]), mesh, model, **settings)
            self.effective = math.prod(self._source)
            run.shapes = self

        def batch(self) -> Mapping[str, Any]:
            found: Mapping[str, Any] = next(self._untrained())
            return found

    return Shapes


def _distilled(run: AbstractRun, runtime: ModuleType) -> type:
    """Conversations of the runtime's own class, and the completions that student or teacher sample."""
    original: Any = runtime.GKDBatches
    part = _importer(runtime)
    made, tokens = part("rows.rows").Rows, part("rows.tokenization").Tokens

    class Shapes(original):
        kind = "GKD"
        own_batch = None

        def __init__(self, dataset: Any, tokenizer: Any, mesh: Any, **settings: Any) -> None:
            longest = run.lengths.row(settings.get("max_length") or 1024)
            samples = settings.get("lmbda", 0.0) > 0 or settings.get("seq_kd", False)
            self._prompt_tokens = longest
            if samples:
                if settings.get("lmbda", 0.0) > 0:
                    run.adjust(settings["model"])
                new = run.lengths.completion(settings.get("max_new_tokens", 128), "max_new_tokens")
                settings["max_new_tokens"] = new
                self._prompt_tokens = run.lengths.prompt_within(longest, new, run.context())
            settings |= {"max_length": longest} | (
                {"micro_batch": run.request["batch"]} if run.request["batch"] else {}
            )
            super().__init__([{"messages": []}], AbsentTokenizer(run.request["rows"]), mesh, **settings)
            self.effective = self._deal.step_rows
            run.shapes = self

        def _prepare(self, dataset: Any, packing: Any, max_steps: int = -1, *, trains: bool = False) -> Any:
            length, rows = self._max_length, run.request["rows"]
            document = tokens(np.zeros(length, np.int32), np.zeros(length, np.int32), [(0, length)])
            lengths = np.full(rows, length)
            return made(document, [[(0, length)]] * rows, lengths, lengths, np.zeros(rows, np.int64))

        def _longest_prompt(self, prepared: Any) -> int:
            return int(self._prompt_tokens)

        def evaluation(self, *args: Any, **kwargs: Any) -> Any:
            return self

        def batch(self) -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._empty(self.batch_size, self.length, None)
            return found

    return Shapes
