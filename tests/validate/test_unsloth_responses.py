"""Unsloth's train_on_responses_only, as the source of a comparison has it, and as the port does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.real


@pytest.mark.parametrize("part", ["<|im_start|>assistant\n", "<|im_start|>assistant"])
def test_the_marks_whole_text_is_looked_for_unless_told_otherwise(part: str) -> None:
    from porter.runtime.rows.response_masks import ResponsesOnly
    from porter.validate.torch_side.gpu_libraries.unsloth_chats import train_on_responses_only
    from tests.tiny import tokenizer

    words = tokenizer("qwen2")
    text = "<|im_start|>user\nsay it<|im_end|>\n<|im_start|>assistant\nit is<|im_end|>\n"
    ids = words(text, add_special_tokens=False)["input_ids"]
    marks = {"instruction_part": "<|im_start|>user\n", "response_part": part}
    trainer = SimpleNamespace(processing_class=words)

    masked = train_on_responses_only(trainer, **marks, return_function=True)({"input_ids": [ids]})["labels"][0]
    assert masked == ResponsesOnly(marks["instruction_part"], marks["response_part"], words)(ids)

    trained = [token for token in masked if token != -100]
    assert words.decode(trained) == ("it is<|im_end|>\n" if part.endswith("\n") else "\nit is<|im_end|>\n")
    loose = train_on_responses_only(trainer, **marks, force_match=False, return_function=True)({"input_ids": [ids]})
    assert words.decode([token for token in loose["labels"][0] if token != -100]) == "\nit is<|im_end|>\n"


@pytest.mark.parametrize("release", ["2024.10.3", "2025.3.8", "2025.3.9"])
@pytest.mark.parametrize(
    "marks",
    [
        ("<|im_start|>user\n", "<|im_start|>assistant\n"),
        ("\n### Instruction:\n", "\n### Response:\n"),
        ("User: ", "Assistant: "),
    ],
)
def test_older_releases_train_the_line_end_behind_a_mark(
    release: str, marks: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from porter.runtime.rows.response_masks import ResponsesOnly
    from porter.validate.torch_side.gpu_libraries import unsloth_chats
    from porter.validate.torch_side.gpu_libraries.unsloth_parts import trl as unsloth_trl
    from tests.tiny import tokenizer

    monkeypatch.setattr(unsloth_trl, "release", lambda: release)
    words, matches = tokenizer("qwen2"), release == "2025.3.9"
    trainer = SimpleNamespace(processing_class=words)
    masked = unsloth_chats.train_on_responses_only(trainer, *marks, return_function=True)
    for text in (f"{marks[0]}say{marks[1]}\nit is{marks[0]}{marks[1]}so", f"x{marks[0]}a{marks[1]}it", "nothing"):
        ids = words(text, add_special_tokens=False)["input_ids"]
        got = ResponsesOnly(*marks, words, force_match=matches)(list(ids))
        assert masked({"input_ids": [ids]})["labels"] == [got]
        last = unsloth_chats.train_on_responses_only(trainer, *marks, return_function=True, last_response_only=True)
        alone = ResponsesOnly(*marks, words, force_match=matches, last_response_only=True)(list(ids))
        assert last({"input_ids": [ids]})["labels"] == [alone]
    ids = words(f"{marks[0]}a{marks[1]}it is", add_special_tokens=False)["input_ids"]
    trained = words.decode([token for token in masked({"input_ids": [ids]})["labels"][0] if token != -100])
    assert (trained == "it is") is matches and trained.strip() == "it is"


@pytest.mark.parametrize(
    ("of_model", "of_config", "of_trainer", "cut"),
    [(512, 4096, None, 512), (512, 64, None, 64), (512, None, 4096, 512), (512, None, None, 512), (None, 64, None, 64)],
)
def test_rows_are_cut_at_the_shorter_of_the_models_length_and_the_scripts(
    of_model: int | None, of_config: int | None, of_trainer: int | None, cut: int
) -> None:
    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import length_of

    model = SimpleNamespace(**({} if of_model is None else {"max_seq_length": of_model}))
    args = SimpleNamespace(max_seq_length=of_config, max_length=1024)
    assert length_of(model, args, {} if of_trainer is None else {"max_seq_length": of_trainer}) == cut


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({}, "no"),
        ({"output_dir": "out"}, "steps"),
        ({"save_steps": 10}, "steps"),
        ({"save_strategy": "epoch"}, "epoch"),
    ],
)
def test_a_config_that_says_nothing_of_saving_saves_nothing(given: dict[str, object], strategy: str) -> None:
    import trl

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import with_defaults

    made = with_defaults(trl.SFTConfig, "4.57.0")(use_cpu=True, bf16=False, **given)
    assert str(getattr(made.save_strategy, "value", made.save_strategy)) == strategy


def test_a_steps_tokens_are_counted_as_unsloth_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a row's first token nor padding with labels, also by a Trainer that tells the model nothing."""
    import torch
    import transformers

    from porter.validate.torch_side.gpu_libraries.unsloth_parts import counts as unsloth_counts

    given: list[int | None] = []

    class Trainer:
        model_accepts_loss_kwargs = True

        def get_batch_samples(self, batches: object, count: int) -> None: ...

        def compute_loss(self, model: object, inputs: object, num_items_in_batch: object = None) -> object:
            given.append(None if num_items_in_batch is None else int(num_items_in_batch))  # type: ignore[call-overload]
            return 3.0

    monkeypatch.setattr(transformers, "Trainer", Trainer)
    monkeypatch.setattr(transformers, "__version__", "4.47.0")
    unsloth_counts.count_in_trainer()
    labels = torch.tensor([[1, 2, 3, 0], [1, 2, -100, -100]])
    batch = {"labels": labels, "attention_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])}
    trainer = Trainer()
    batches, items = trainer.get_batch_samples(iter([batch] * 3), 2)  # type: ignore[func-returns-value, misc]
    assert (len(batches), int(items)) == (2, 6)
    trainer.compute_loss(SimpleNamespace(training=True), batch)
    trainer.compute_loss(SimpleNamespace(training=False), batch)
    assert given == [6, None]
    trainer.model_accepts_loss_kwargs = False
    assert float(trainer.compute_loss(SimpleNamespace(training=True), batch)) == 1.5  # type: ignore[arg-type]


@pytest.mark.parametrize(("release", "left"), [("2026.4.5", 1), ("2026.3.1", 4), ("", 4)])
def test_accelerate_divides_no_gradient_once_unsloth_sees_to_it(
    monkeypatch: pytest.MonkeyPatch, release: str, left: int
) -> None:
    import transformers

    from porter.validate.torch_side.gpu_libraries.unsloth_parts import counts as unsloth_counts

    class Trainer:
        def __init__(self) -> None:
            self.accelerator = SimpleNamespace(gradient_accumulation_steps=4)

    monkeypatch.setattr(transformers, "Trainer", Trainer)
    for _ in range(2):
        unsloth_counts.count_in_trainer(release)
    assert Trainer().accelerator.gradient_accumulation_steps == left
