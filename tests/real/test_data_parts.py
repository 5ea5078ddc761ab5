"""Order, packing and assistant masks against torch, accelerate and TRL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.real

CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one turn": [{"role": "user", "content": "What is the sea?"}, {"role": "assistant", "content": "It is wide."}],
    "turns": [
        {"role": "user", "content": " hello\n"},
        {"role": "assistant", "content": "\n\nHi there \n"},
        {"role": "user", "content": "assistant\nmodel\n"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "One.\nTwo."},
    ],
    "system": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer"},
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer, again"},
    ],
    "thinking": [
        {"role": "user", "content": "two and two"},
        {"role": "assistant", "content": "<think>\nadd them\n</think>\n\nfour"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": "welcome", "reasoning_content": "be polite"},
    ],
    "tools": [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}],
        },
        {"role": "tool", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
    ],
}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
NOT_IN = {"gemma": {"system", "tools"}, "gemma3": {"tools"}, "llama3": {"tools"}}
TOKENIZER_OF = {"gemma": "gemma", "gemma3": "gemma3", "llama3": "llama3", "qwen2_5": "qwen2"}


@pytest.mark.parametrize("name", ["gemma", "gemma3", "llama3", "qwen2_5", "qwen3", "qwen3_instruct_2507"])
def test_assistant_masks_are_trl_s(name: str) -> None:
    from importlib.resources import files

    from trl.chat_template_utils import get_training_chat_template

    from porter.runtime.rows import chat_templates
    from tests.tiny import tokenizer

    tok = tokenizer(TOKENIZER_OF.get(name, "qwen3"))
    tok.chat_template = (files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")
    training = get_training_chat_template(tok)
    turns = chat_templates.assistant_turns(tok)
    assert turns is not None and turns.name == name

    compared = 0
    for kind, messages in CONVERSATIONS.items():
        if kind in NOT_IN.get(name, ()):
            continue
        for tools in [None, TOOLS] if kind == "tools" else [None]:
            theirs = tok.apply_chat_template(
                messages, chat_template=training, tokenize=True, return_dict=True,
                return_assistant_tokens_mask=True, tools=tools,
            )  # fmt: skip
            template = chat_templates.training_template(tok, turns)
            ids, mask = chat_templates.tokenize_with_mask(tok, messages, turns, chat_template=template, tools=tools)
            assert (ids, mask) == (theirs["input_ids"], theirs["assistant_masks"]), kind
            assert 0 < sum(mask) < len(mask)
            prompts = [
                tok.apply_chat_template(messages[:1], chat_template=t, tokenize=False, add_generation_prompt=True)
                for t in (training, template)
            ]
            assert prompts[0] == prompts[1]
            compared += 1
    assert compared >= 3


def test_every_template_that_trl_can_train_of_our_families_is_known() -> None:
    """Fails when a new TRL ships a training template for a family of ours."""
    from importlib.resources import files

    from porter.runtime.rows.chat_templates import KNOWN

    shipped = {
        path.name.removesuffix("_training.jinja")
        for path in (files("trl") / "chat_templates").iterdir()
        if path.name.endswith("_training.jinja")
    }
    other_models = {"qwen2_5_vl", "qwen3_vl", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8"}
    ours = {name for name in shipped if name.startswith(("gemma", "llama3", "qwen"))} - other_models
    assert {turns.name for turns in KNOWN} == ours


@pytest.mark.parametrize("seed", [0, 42, 2**31, 2**40 + 3])
def test_randperm_is_torch_s(seed: int) -> None:
    import torch

    from porter.runtime.batches.order import randperm

    for n in (0, 1, 2, 10, 1000, 12345):
        theirs = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        assert randperm(n, seed).tolist() == theirs.tolist()


@pytest.mark.parametrize(("rows", "seed"), [(1, 0), (10, 42), (1000, 2**33 + 5)])
def test_orders_that_nobody_seeded_are_torch_s(rows: int, seed: int) -> None:
    import torch
    from torch.utils.data import DataLoader, RandomSampler

    from porter.runtime.batches.order import epoch_order

    torch.manual_seed(seed)  # as the Trainer does when it is made
    drawn = DataLoader(list(range(rows)), batch_size=2, sampler=RandomSampler(range(rows)))
    shared = DataLoader(
        list(range(rows)), batch_size=2, sampler=RandomSampler(range(rows), generator=torch.Generator())
    )
    for shuffling, loader in (("drawn", drawn), ("shared", shared)):
        for epoch in range(3):
            ours = epoch_order(rows, sampling="random", seed=seed, epoch=epoch, shuffling=shuffling)
            assert ours.tolist() == torch.cat(list(loader)).tolist()


@pytest.mark.parametrize(("rows", "group"), [(7, 3), (1000, 8)])
def test_rows_of_like_length_come_as_in_transformers(rows: int, group: int) -> None:
    import torch
    from transformers import set_seed
    from transformers.trainer_pt_utils import LengthGroupedSampler

    from porter.runtime.batches.order import epoch_order, evaluated

    lengths = [(number * number * 7 + 3) % 97 + 1 for number in range(rows)]
    sampler = LengthGroupedSampler(group, lengths=lengths)
    set_seed(7)  # as the Trainer does when it is made
    loader = torch.utils.data.DataLoader(list(range(rows)), batch_size=2, sampler=sampler)
    for epoch in range(3):
        theirs = torch.cat(list(loader)).tolist()
        ours = epoch_order(rows, sampling="group_by_length", seed=7, epoch=epoch, lengths=lengths, group=group)
        assert ours.tolist() == theirs
    set_seed(7)
    next(iter(loader))  # an epoch begins, and an evaluation comes
    held_out = LengthGroupedSampler(2, lengths=lengths[:9])
    theirs = torch.cat(list(torch.utils.data.DataLoader(list(range(9)), batch_size=2, sampler=held_out))).tolist()
    assert evaluated(lengths[:9], 2, 7, rows).tolist() == theirs


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_micro_batches_are_accelerate_s(processes: int) -> None:
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler, SequentialSampler

    from porter.runtime.batches.order import micro_batches

    for n in (1, 2, 3, 5, 8, 15, 16, 17, 31, 40):
        for per_device in (1, 2, 3, 4):
            for drop_last in (False, True):
                sampler = BatchSampler(SequentialSampler(range(n)), per_device, drop_last)
                ranks = [list(BatchSamplerShard(sampler, processes, rank)) for rank in range(processes)]
                if processes == 1:
                    ranks = [list(sampler)]
                theirs = [[row for batch in step for row in batch] for step in zip(*ranks, strict=True)]
                ours = micro_batches(range(n), per_device * processes, processes, drop_last)
                assert [batch.tolist() for batch in ours] == theirs, (n, per_device, drop_last)


@pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "wrapped"])
@pytest.mark.parametrize("num_proc", [1, 3])
def test_packing_is_trl_s(strategy: str, num_proc: int) -> None:
    from datasets import Dataset, concatenate_datasets
    from trl import pack_dataset

    from porter.runtime.rows.packing import pack

    for seed, n, longest in [(0, 50, 8), (1, 999, 16), (2, 2300, 64), (3, 1000, 7), (4, 1, 5)]:
        rng = np.random.RandomState(seed)
        ends = np.cumsum(rng.randint(seed % 2, longest * 3 // 2, n) if n > 1 else [4])
        spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
        documents = [list(range(*span)) for span in spans]
        dataset = Dataset.from_dict({"input_ids": documents, "labels": documents})
        # What `dataset_num_proc` does, without its forks
        shards = [dataset.shard(num_proc, i, contiguous=True) for i in range(num_proc)] if n > 1 else [dataset]
        theirs = concatenate_datasets([pack_dataset(shard, longest, strategy) for shard in shards])

        ours = pack(spans, longest, strategy, num_proc)

        assert [[token for span in row for token in range(*span)] for row in ours] == theirs["input_ids"]
        if strategy != "wrapped":
            assert [[stop - start for start, stop in row] for row in ours] == theirs["seq_lengths"]
