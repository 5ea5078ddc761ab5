"""Batches for a mesh. That they are TRL's is shown in tests/real/test_data.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from porter.runtime.batches.sft_batches import SFTBatches
from tests.runtime.byte_tokens import byte_tokenizer, trained_text

LETTERS = "abcdefghijk"


def text_rows(n: int) -> list[dict[str, str]]:
    return [{"text": letter * (i + 1)} for i, letter in enumerate(LETTERS[:n])]


def make(rows: Any, mesh: Any = None, **settings: Any) -> SFTBatches:
    mesh = mesh or SimpleNamespace(shape={"fsdp": 1, "tp": 1})
    return SFTBatches(
        rows, byte_tokenizer(), mesh, **{"batch_size": 2, "epochs": 1, "sampling": "sequential", **settings}
    )


def steps(batches: SFTBatches) -> list[str]:
    """First letters of the rows of every optimizer step."""
    made, groups = list(batches), batches.accumulation or 1
    return [
        "".join(trained_text(byte_tokenizer(), row)[0] for batch in made[i : i + groups] for row in batch["labels"])
        for i in range(0, len(made), groups)
    ]


def test_a_short_last_group_is_a_step_filled_with_untrained_rows() -> None:
    batches = make(text_rows(7), accumulation=2)
    assert (batches.steps, batches.accumulation, batches.steps_per_epoch) == (2, 2, 2)
    assert steps(batches) == ["abcd", "efg·"]


def test_a_wider_mesh_takes_the_same_steps_in_fewer_batches(tiny_mesh: Any) -> None:
    batches = make(text_rows(7), tiny_mesh(4, 2), accumulation=2)
    assert (batches.batch_size, batches.accumulation) == (4, None)
    assert steps(batches) == ["abcd", "efg·"]
    batches = make(text_rows(7), tiny_mesh(8, 1), accumulation=2)
    assert steps(batches) == ["abcd····", "efg·····"]


def test_scale_is_one_over_the_trained_tokens_of_the_step() -> None:
    first, second, third, fourth = make(text_rows(7), accumulation=2)
    trained = 1 + 2 + 3 + 4  # the end token included, the first token not
    assert first["scale"].tolist() == second["scale"].tolist() == pytest.approx([2 / trained] * 2)
    assert third["scale"].tolist() == pytest.approx([2 / (5 + 6 + 7)] * 2)
    assert fourth["scale"].tolist() == pytest.approx([2 / (5 + 6 + 7), 0])


def test_every_process_may_divide_by_its_own_tokens() -> None:
    [batch] = make(text_rows(4), batch_size=4, processes=2, average_tokens_across_devices=False)
    assert batch["scale"].tolist() == pytest.approx([1 / (2 * 3)] * 2 + [1 / (2 * 7)] * 2)


def test_label_smoothing_counts_every_micro_batch_apart() -> None:
    """transformers' LabelSmoother takes the mean of a micro-batch, and the Trainer sums them."""
    first, second, third, fourth = make(text_rows(7), accumulation=2, label_smoothing=0.1)
    assert first["scale"].tolist() == pytest.approx([2 / (1 + 2)] * 2)
    assert second["scale"].tolist() == pytest.approx([2 / (3 + 4)] * 2)
    assert (third["scale"].tolist(), fourth["scale"].tolist()) == (
        pytest.approx([2 / 11] * 2),
        pytest.approx([2 / 7, 0]),
    )
    assert first["smoothing"].tolist() == pytest.approx([0.1] * 2)

    [both] = make(text_rows(4), batch_size=4, processes=2, label_smoothing=0.1)
    assert both["scale"].tolist() == pytest.approx([1 / 3] * 2 + [1 / 7] * 2)
    [apart] = make(text_rows(4), batch_size=4, processes=2, label_smoothing=0.1, average_tokens_across_devices=False)
    assert apart["scale"].tolist() == pytest.approx([1 / 6] * 2 + [1 / 14] * 2)
    # Before 4.46 the Trainer divided by their number; that TRL adds no end token.
    older = make(text_rows(4), accumulation=2, label_smoothing=0.1, transformers="4.45", trl="0.12")
    assert np.concatenate([batch["scale"] for batch in older]).tolist() == pytest.approx([1.0] * 2 + [1 / 5] * 2)
    with pytest.raises(ValueError, match=r"label_smoothing.* weighs apart"):
        make(text_rows(4), accumulation=2, label_smoothing=0.1, step_packing=[(1, 128)])


def test_shapes_are_fixed_and_rounded_up() -> None:
    batches = make([{"text": "a"}, {"text": "b" * 200}, {"text": "c"}])
    for batch in batches:
        for name in ("input_tokens", "labels", "positions", "segment_ids"):
            assert (batch[name].shape, batch[name].dtype) == ((2, 256), np.int32)
        assert batch["scale"].dtype == np.float32
    assert make([{"text": "a"}], pad_to_multiple_of=96).length == 384


def test_padding_has_its_own_segment_and_the_pad_token() -> None:
    [batch] = make([{"text": "ab"}, {"text": "cde"}])
    assert batch["segment_ids"][:, :5].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert batch["input_tokens"][0, 3] == byte_tokenizer().pad_token_id
    assert batch["labels"][0, 3] == -100
    assert batch["positions"][0].tolist() == list(range(128))


def test_packed_documents_start_over_and_do_not_predict_each_other_s_first_token() -> None:
    [batch] = make([{"text": "ab"}, {"text": "cde"}, {"text": "f"}], packing=True, max_length=8)
    assert trained_text(byte_tokenizer(), batch["labels"][0]) == "·de</s>·b</s>·"
    assert batch["positions"][0, :9].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert batch["segment_ids"][0, :9].tolist() == [1, 1, 1, 1, 2, 2, 2, 0, 0]
    assert batch["documents"].tolist() == [2, 1]
    assert batch["scale"].tolist() == pytest.approx([1 / (3 + 2 + 1)] * 2)


def test_epochs_come_in_parts_and_again() -> None:
    assert make(text_rows(4), epochs=1.5).steps == 3
    assert steps(make(text_rows(3), max_steps=3)) == ["ab", "c·", "ab"]
    batches = make(text_rows(4), epochs=2, sampling="random")
    assert steps(batches) == steps(batches)
    first, second = steps(batches)[:2], steps(batches)[2:]
    assert first != second and sorted("".join(first)) == sorted("".join(second))


def test_a_stream_is_read_in_its_order_for_max_steps() -> None:
    from datasets import Dataset

    stream = Dataset.from_list(text_rows(5)).to_iterable_dataset()
    assert steps(make(stream, max_steps=2)) == ["ab", "cd"]
    assert steps(make(stream, max_steps=4)) == ["ab", "cd", "e·", "ab"]
    assert steps(make(stream, max_steps=2, accumulation=2)) == ["abcd", "abcd"]
    with pytest.raises(ValueError, match="set max_steps"):
        make(stream)
    with pytest.raises(ValueError, match="less than the 8 of a step"):
        make(stream, max_steps=1, accumulation=4)


def test_rows_without_a_trained_token_are_dropped() -> None:
    rows = [{"prompt": "a" * 9, "completion": "b"}, {"prompt": "c", "completion": "d"}]
    batches = make(rows, max_length=5)
    assert batches.rows == 1
    with pytest.raises(ValueError, match="no row is left"):
        make(rows[:1], max_length=5)


UNTRAINED = [{"prompt": "a" * 9, "completion": "b"}, {"prompt": "c", "completion": "d"}]


@pytest.mark.parametrize(
    ("releases", "part"),
    [
        ({"trl": "0.20.0", "transformers": "4.45.2"}, "micro-batch"),
        ({"trl": "1.3.0"}, "step"),
        ({"trl": "1.9.0"}, ""),
    ],
)
def test_rows_without_a_trained_token_that_a_release_kept_are_said(releases: dict[str, str], part: str) -> None:
    said = f"1 row has no trained token: a {part} of such rows alone has a loss of NaN on the GPU and of 0 here"
    assert (said in repr(make(UNTRAINED, max_length=5, **releases))) is bool(part)


def test_a_batch_of_them_makes_the_evaluations_loss_nan() -> None:
    batches = make(UNTRAINED, max_length=5, trl="1.3.0")
    (alone,), (other,) = (batch["scale"].tolist() for batch in batches.evaluation(UNTRAINED, batch_size=1))
    assert np.isnan(alone) and other == 0.5
    (together,) = (batch["scale"].tolist() for batch in batches.evaluation(UNTRAINED, batch_size=2))
    assert together == [0.5, 0.5]


def test_drop_last_may_leave_nothing() -> None:
    with pytest.raises(ValueError, match="drop_last"):
        make(text_rows(1), drop_last=True)


def test_evaluation_weighs_batches_by_their_rows() -> None:
    batches = make(text_rows(3)).evaluation(text_rows(3), batch_size=2)
    first, second = batches
    assert len(batches) == 2
    # a mean over 3 rows: two of the first batch's mean over 1 + 2 tokens, one of the second's over 3
    assert first["scale"].tolist() == pytest.approx([2 * 2 / 3 / 3] * 2)
    assert second["scale"].tolist() == pytest.approx([2 * 1 / 3 / 3, 0])


@pytest.mark.parametrize(("transformers", "first"), [("4.45.2", [1, 2]), ("4.46.0", [3, 2])])
def test_evaluation_is_grouped_by_length_as_in_its_transformers(transformers: str, first: list[int]) -> None:
    made = make(text_rows(3), sampling="group_by_length", trl="0.12.0", transformers=transformers)
    batch = next(iter(made.evaluation(text_rows(3) + text_rows(3), batch_size=2)))
    assert (batch["labels"] != -100).sum(axis=1).tolist() == first


def test_evaluation_counts_rows_that_fill_up_processes_in_their_batch_only() -> None:
    batches = make(text_rows(4), batch_size=4, processes=2).evaluation(text_rows(5), batch_size=4)
    _, second = batches
    # process 0 has rows e and a, process 1 has b and c, which were counted already
    assert second["scale"].tolist() == pytest.approx([2 * 1 / 5 / (5 + 1)] * 2 + [0, 0])


def test_a_batch_is_no_larger_for_several_jax_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    batches = make(text_rows(6), SimpleNamespace(shape={"fsdp": 2}), batch_size=3)
    assert batches.batch_size == 4
    assert [batch["input_tokens"].shape[0] for batch in batches._made()] == [4, 4]  # each process makes them whole


def test_from_args_reads_an_sft_config() -> None:
    args = SimpleNamespace(
        num_train_epochs=1.0, max_steps=-1, per_device_train_batch_size=1, gradient_accumulation_steps=2, seed=42,
        data_seed=None, max_length=16, dataset_text_field="text", completion_only_loss=None, assistant_only_loss=False,
        packing=False, packing_strategy="bfd", eval_packing=None, padding_free=False, shuffle_dataset=False,
        chat_template_path=None, eos_token=None, pad_token=None, truncation_mode="keep_start", dataset_num_proc=None,
        dataset_kwargs=None, dataloader_drop_last=False, train_sampling_strategy="sequential",
        average_tokens_across_devices=True, pad_to_multiple_of="auto",
    )  # fmt: skip
    mesh: Any = SimpleNamespace(shape={"fsdp": 1})
    batches = SFTBatches.from_args(args, text_rows(8), byte_tokenizer(), mesh, processes=2)
    assert steps(batches) == ["abcd", "efgh"]
    long = [{"text": "a" * 40}] * 4
    told, untold = (
        SFTBatches.from_args(args, long, byte_tokenizer(), mesh, max_length=given) for given in (8, None)
    )  # `trainer_kwargs.get("max_seq_length")`: None, and TRL goes by its arguments
    assert [int(batches._rows.lengths.max()) for batches in (told, untold)] == [8, 16]


def test_the_summary_says_how_the_step_is_split(capsys: Any, tiny_mesh: Any) -> None:
    make(text_rows(8), tiny_mesh(4, 1), accumulation=4)
    assert "8 rows, 1 steps of 8 rows as 2 x 4 x 128 tokens, 96% padding" in capsys.readouterr().out


def test_buckets_deal_a_step_by_length_and_keep_its_sum(tiny_mesh: Any) -> None:
    rows = [{"text": letter * n} for letter, n in zip("abcdefgh", (300, 10, 20, 500, 30, 200, 40, 50), strict=True)]
    settings: dict[str, Any] = {"accumulation": 4, "max_length": 512}
    plain, bucketed = make(rows, **settings), make(rows, buckets=[100, 256], **settings)
    assert (bucketed.buckets, bucketed.length) == ((128, 256, 512), 512)
    assert [batch["input_tokens"].shape for batch in bucketed] == [(2, 512), (2, 256), (2, 128), (2, 128)]
    assert [batch["input_tokens"].shape for batch in plain] == [(2, 512)] * 4

    def weights(batches: SFTBatches) -> dict[tuple[int, ...], float]:
        return {
            tuple(labels[labels != -100]): float(scale)
            for batch in batches
            for labels, scale in zip(batch["labels"], batch["scale"], strict=True)
        }

    assert weights(plain) == pytest.approx(weights(bucketed))
    assert "128 or 256 or 512" in str(bucketed) and str(bucketed).endswith("padding")


def test_a_short_group_is_filled_in_its_shortest_micro_batch() -> None:
    made = list(make([{"text": "a" * 200}, {"text": "b" * 10}, {"text": "c" * 300}], accumulation=2, buckets=[128]))
    assert [batch["input_tokens"].shape[1] for batch in made] == [384, 128]
    assert made[1]["scale"][1] == 0


def test_a_bucket_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="a row can't be 0 tokens long"):
        make(text_rows(3), buckets=[0, 128])


def test_a_micro_batch_may_hold_more_or_fewer_rows(tiny_mesh: Any) -> None:
    wide = make(text_rows(7), tiny_mesh(2, 1), accumulation=2, micro_batch=3)
    assert (wide.batch_size, wide.accumulation, steps(wide)) == (4, None, ["abcd", "efg·"])
    narrow = make(text_rows(7), accumulation=2, micro_batch=1)
    assert (narrow.batch_size, narrow.accumulation, steps(narrow)) == (1, 4, ["abcd", "efg·"])


@pytest.mark.parametrize(("trl", "length"), [("0.11.4", 3), ("0.15.2", 3), ("0.19.1", 5)])
def test_the_mask_of_rows_that_the_script_padded_counts_until_trl_has_its_own_collator(trl: str, length: int) -> None:
    row = {"input_ids": [0, 0, 97, 98, 99], "attention_mask": [0, 0, 1, 1, 1]}
    batches = make([row] * 2, trl=trl)
    assert batches._rows.lengths.tolist() == [length] * 2
