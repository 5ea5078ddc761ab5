"""Real preference trainers of TRL on a tiny model, what they feed it, and the same from the runtime's batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from porter.runtime.preferences import kto_batches, preference_batches, text_pair_batches

from .sft import chat, words

BATCHES = {
    "dpo": preference_batches.PreferenceBatches,
    "orpo": text_pair_batches.ORPOBatches,
    "cpo": text_pair_batches.CPOBatches,
    "kto": kto_batches.KTOBatches,
}
DEFAULTS = {
    "num_train_epochs": 2,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 3,
    "learning_rate": 0.0,
    "max_length": 48,
    "bf16": False,
    "use_cpu": True,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
    "seed": 7,
}


def rows(kind: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of random words in one of the preference formats."""
    rng = np.random.RandomState(seed)
    made: list[dict[str, Any]] = []
    for i in range(n):
        prompt, first, second = (words(rng, 1, 15) for _ in range(3))
        turns = chat(rng, i)[:-1]
        answers = [[{"role": "assistant", "content": text}] for text in (first, second)]
        if kind == "text":
            made.append({"prompt": prompt, "chosen": " " * (i % 2) + first, "rejected": second})
        elif kind == "implicit":
            made.append({"chosen": f"{prompt}: {first}", "rejected": f"{prompt}: {second}"})
        elif kind == "chat":
            made.append({"prompt": turns, "chosen": answers[0], "rejected": answers[1]})
        elif kind == "implicit_chat":
            made.append({"chosen": turns + answers[0], "rejected": turns + answers[1]})
        elif kind == "labelled":
            made.append({"prompt": prompt, "completion": " " + first, "label": bool(rng.randint(2))})
        elif kind == "labelled_chat":
            made.append({"prompt": turns, "completion": answers[0], "label": bool(rng.randint(2))})
    return made


def trainer(
    name: str,
    tiny: Callable[..., Path],
    tmp_path: Path,
    data: list[dict[str, Any]],
    model: str = "qwen3",
    **settings: Any,
) -> Any:
    """TRL's trainer `dpo`, `orpo`, `cpo` or `kto` with LoRA on a tiny model, on the CPU."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer

    config, made = classes(name)
    folder = tiny(model)
    given = {key: settings.pop(key) for key in ("eval_dataset",) if key in settings}
    args = config(**{"output_dir": str(tmp_path / "out"), **DEFAULTS, **settings})
    torch_model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    return made(
        model=torch_model,
        args=args,
        train_dataset=Dataset.from_list(data),
        processing_class=AutoTokenizer.from_pretrained(folder),
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False),
        **given,
    )


def classes(name: str) -> tuple[Any, Any]:
    """TRL's config and trainer."""
    import trl
    from trl.experimental import cpo, orpo

    home = {"orpo": orpo, "cpo": cpo}.get(name, trl)
    return getattr(home, f"{name.upper()}Config"), getattr(home, f"{name.upper()}Trainer")


def fed(trainer: Any) -> list[dict[str, np.ndarray]]:
    """Every micro-batch that the trainer feeds its model."""
    import torch

    seen = []

    def compute_loss(model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        seen.append({key: value.numpy() for key, value in inputs.items() if hasattr(value, "numpy")})
        return next(p for p in model.parameters() if p.requires_grad).sum() * torch.tensor(0.0)

    trainer.compute_loss = compute_loss
    trainer.train()
    return seen


def documents(batch: dict[str, np.ndarray]) -> list[tuple[list[int], list[int]]]:
    """Token ids and labels of each document of a batch of TRL's: chosen, rejected, chosen, ..., or with KL's
    between."""
    from porter.validate.comparing import preferences

    return [(row.tokens.tolist(), row.labels.tolist()) for row in preferences.documents(batch)]


def ours(batches: Any) -> list[list[tuple[list[int], list[int]]]]:
    """The documents of every micro-batch of the runtime's."""
    found = []
    for batch in batches:
        real = [segments > 0 for segments in batch["segment_ids"]]
        pairs = zip(batch["input_tokens"], batch["labels"], real, strict=True)
        found.append([(ids[keep].tolist(), _first_masked(labels[keep])) for ids, labels, keep in pairs if keep.any()])
    return found


def _first_masked(labels: np.ndarray) -> list[int]:
    return [-100, *labels[1:].tolist()]


def port_batches(name: str, trainer: Any, data: list[dict[str, Any]], mesh: Any, **settings: Any) -> Any:
    """The runtime's batches for the trainer's arguments."""
    from datasets import Dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(trainer.model.name_or_path)
    return BATCHES[name].from_args(trainer.args, Dataset.from_list(data), tokenizer, mesh, **settings)
