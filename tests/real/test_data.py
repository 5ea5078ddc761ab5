"""SFTBatches against the real SFTTrainer: every micro-batch of two epochs, token for token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.real.sft import as_text, assert_same, from_args, recorded, rows, sft, trained_rows

pytestmark = pytest.mark.real

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "text": ("text", "qwen3", {}),
    "text with bos": ("text", "gemma3", {}),
    "prompt and completion": ("prompt_completion", "llama3", {}),
    "prompt and completion, all trained": ("prompt_completion", "qwen3", {"completion_only_loss": False}),
    "messages": ("messages", "gemma3", {}),
    "from and value": ("conversations", "qwen3", {}),
    "chat prompt and completion": ("chat_prompt", "qwen3", {}),
    "assistant only": ("messages", "gemma3", {"assistant_only_loss": True}),
    "assistant only of a completion": ("chat_prompt", "llama3", {"assistant_only_loss": True}),
    "keep end": ("messages", "qwen2", {"truncation_mode": "keep_end", "max_length": 16}),
    "rows without a trained token": ("chat_prompt", "qwen3", {"max_length": 20}),
    "bfd": ("messages", "qwen3", {"packing": True}),
    "bfd, assistant only": ("messages", "gemma3", {"packing": True, "assistant_only_loss": True}),
    "bfd split": ("text", "qwen3", {"packing": True, "packing_strategy": "bfd_split", "max_length": 16}),
    "wrapped": ("text", "gemma3", {"packing": True, "packing_strategy": "wrapped"}),
    "wrapped, shuffled": ("text", "qwen3", {"packing": True, "packing_strategy": "wrapped", "shuffle_dataset": True}),
    "shuffled": ("prompt_completion", "qwen3", {"shuffle_dataset": True}),
    "padding free": ("text", "qwen3", {"padding_free": True, "max_length": None}),
    "sequential": ("text", "qwen3", {"train_sampling_strategy": "sequential"}),
    "by length": ("text", "qwen3", {"train_sampling_strategy": "group_by_length"}),
    "drop last": ("text", "qwen3", {"dataloader_drop_last": True}),
    "max steps": ("text", "qwen3", {"max_steps": 7, "data_seed": 3}),
    "part of an epoch": ("text", "qwen3", {"num_train_epochs": 1.3}),
    "formatting function": ("question", "qwen3", {"formatting_func": as_text}),
}


@pytest.mark.parametrize("case", CASES)
def test_batches_are_trl_s(tiny: Any, tiny_mesh: Any, tmp_path: Path, case: str) -> None:
    kind, model, settings = CASES[case]
    data = rows(kind, 23)
    trainer = sft(tiny, tmp_path, data, model=model, **settings)
    theirs = recorded(trainer)

    ours = from_args(trainer, data, tiny_mesh(1, 1), formatting_func=settings.get("formatting_func"))

    assert ours.steps == trainer.state.max_steps
    mine = list(ours)
    assert len(mine) == ours.steps * (ours.accumulation or 1)
    mine = [batch for batch in mine if batch["scale"].any()]
    assert_same(mine, theirs, ours.accumulation or 1)

    wide = from_args(trainer, data, tiny_mesh(8, 1), formatting_func=settings.get("formatting_func"))
    assert trained_rows(list(wide)) == trained_rows(mine)


def test_with_transformers_collator_an_end_that_pads_is_not_trained(tiny: Any, tiny_mesh: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    from porter.runtime.rows.response_masks import IgnorePadding

    tokenizer = AutoTokenizer.from_pretrained(tiny("qwen3"))
    tokenizer.pad_token = tokenizer.eos_token
    data = rows("text", 11)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    # One row a batch: TRL 1.16 adds a column of labels, which this collator doesn't pad.
    one = {"per_device_train_batch_size": 1, "pad_token": tokenizer.eos_token}
    trainer = sft(tiny, tmp_path, data, data_collator=collator, **one)
    theirs = recorded(trainer)
    mine = list(from_args(trainer, data, tiny_mesh(1, 1), label_mask=IgnorePadding(tokenizer, mlm=False)))
    assert_same([batch for batch in mine if batch["scale"].any()], theirs, 3)
    ids, labels = trained_rows(mine)[0]
    assert (ids[-1], labels[-1]) == (tokenizer.eos_token_id, -100)


@pytest.mark.parametrize("packing", [False, True])
def test_tokenised_rows_are_left_as_they_are(tiny: Any, tiny_mesh: Any, tmp_path: Path, packing: bool) -> None:
    rng = np.random.RandomState(1)
    data: list[dict[str, Any]] = []
    for _ in range(11):
        ids = rng.randint(5, 200, rng.randint(2, 60)).tolist()
        data.append({"input_ids": ids, "assistant_masks": [int(i > 3) for i in range(len(ids))]})
    trainer = sft(tiny, tmp_path, data, packing=packing)
    theirs = recorded(trainer)

    ours = [batch for batch in from_args(trainer, data, tiny_mesh(1, 1)) if batch["scale"].any()]

    assert_same(ours, theirs, 3)


def test_prepared_and_packed_rows_are_fed_as_they_are(tiny: Any, tiny_mesh: Any, tmp_path: Path) -> None:
    from porter.runtime.losses.token_loss import model_inputs

    data = [
        {"input_ids": [5, 6, 7, 8, 9, 10], "labels": [5, 6, 7, -100, 9, 10], "seq_lengths": [4, 2]},
        {"input_ids": [11, 12, 13], "labels": [11, 12, 13], "seq_lengths": [3]},
    ]
    skip = {"dataset_kwargs": {"skip_prepare_dataset": True}, "packing": True, "gradient_accumulation_steps": 1}
    trainer = sft(tiny, tmp_path, data, num_train_epochs=1, **skip)
    [(inputs, tokens)] = recorded(trainer)

    [batch] = from_args(trainer, data, tiny_mesh(1, 1))

    real = batch["segment_ids"] > 0
    assert batch["input_tokens"][real].tolist() == inputs["input_ids"][0].tolist()
    assert batch["labels"][real].tolist() == inputs["labels"][0].tolist()
    assert batch["positions"][real].tolist() == inputs["position_ids"][0].tolist()
    assert batch["scale"].tolist() == pytest.approx([1 / tokens] * 2)
    two = int(np.argmax(batch["documents"]))
    mask = np.asarray(model_inputs(batch)["attention_mask"])[two]
    assert not mask[4, 3] and mask[5, 4] and mask.any(-1).all()


@pytest.mark.parametrize("strategy", [None, "bfd", "wrapped"])
def test_streamed_rows_keep_their_order(tiny: Any, tiny_mesh: Any, tmp_path: Path, strategy: str | None) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    stream = Dataset.from_list(rows("text", 23)).to_iterable_dataset().shuffle(seed=3, buffer_size=7)
    packing = {"packing": True, "packing_strategy": strategy} if strategy else {}
    args = SFTConfig(
        str(tmp_path), max_steps=12, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_length=40,
        use_cpu=True, bf16=False, report_to="none", save_strategy="no", gradient_checkpointing=False, disable_tqdm=True,
        learning_rate=0.0, **packing,
    )  # fmt: skip
    folder = tiny("qwen3")
    trainer = SFTTrainer(
        AutoModelForCausalLM.from_pretrained(folder), args, train_dataset=stream,
        processing_class=AutoTokenizer.from_pretrained(folder),
    )  # fmt: skip
    theirs = recorded(trainer)
    stream.set_epoch(0)  # what a fresh process starts with

    ours = [batch for batch in from_args(trainer, stream, tiny_mesh(1, 1)) if batch["scale"].any()]

    if strategy:  # 5 batches a pass: the last one fills no step of two, and is left out
        theirs = [seen for i, seen in enumerate(theirs) if i % 5 != 4]
    assert_same(ours, theirs, 2)
