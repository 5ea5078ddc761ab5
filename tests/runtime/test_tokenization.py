"""Which tokens of a row are trained, and what is refused, in the formats that SFTTrainer takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from porter.runtime.facts.releases import release
from porter.runtime.rows.response_masks import IgnorePadding
from porter.runtime.rows.tokenization import first_row, plan, tokenise
from porter.runtime.rows.tokenizer_setup import set_up_tokenizer
from tests.runtime.byte_tokens import byte_tokenizer, trained_text

DEFAULTS: dict[str, Any] = {
    "text_field": "text",
    "formatting_func": None,
    "completion_only_loss": None,
    "assistant_only_loss": False,
    "max_length": 1024,
    "truncation_mode": "keep_start",
    "skip_prepare": False,
    "packing": False,
    "padding_free": False,
}
TURNS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo"},
    {"role": "user", "content": "so"},
    {"role": "assistant", "content": "no"},
]


def trained(row: dict[str, Any], tokenizer: Any = None, **settings: Any) -> str:
    """The trained text of one prepared row."""
    tokenizer = tokenizer or byte_tokenizer()
    preparation = plan(row, tokenizer=tokenizer, **{**DEFAULTS, **settings})
    return trained_text(tokenizer, tokenise([row], preparation).labels)


def test_text_ends_with_the_end_token_once() -> None:
    assert trained({"text": "ab"}) == "ab</s>"
    assert trained({"text": "ab</s>"}) == "ab</s>"
    assert trained({"story": "ab"}, text_field="story") == "ab</s>"


def test_of_a_prompt_with_a_completion_the_completion_is_trained() -> None:
    row = {"prompt": "ab", "completion": "cd"}
    assert trained(row) == "·cd</s>"
    assert trained(row, completion_only_loss=False) == "abcd</s>"


def test_a_conversation_is_trained_whole_unless_asked_otherwise() -> None:
    row = {"messages": TURNS[:2]}
    assert trained(row) == "<|user|>hi<|end|><|assistant|>yo<|end|>"
    assert trained({"messages": TURNS}, assistant_only_loss=True) == "·yo<|end|>·no<|end|>"


def test_from_and_value_are_read_as_role_and_content() -> None:
    row = {"conversations": [{"from": turn["role"], "value": turn["content"]} for turn in TURNS[:2]]}
    assert trained(row) == "<|user|>hi<|end|><|assistant|>yo<|end|>"


def test_a_prompt_of_messages_hides_the_generation_prompt() -> None:
    row = {"prompt": TURNS[:3], "completion": TURNS[3:]}
    assert trained(row) == "·no<|end|>"
    assert trained(row, assistant_only_loss=True) == "·no<|end|>"
    assert trained(row, assistant_only_loss=True, completion_only_loss=False) == "·yo<|end|>·no<|end|>"


def test_a_completion_starts_where_the_prompt_alone_differs() -> None:
    template = (
        "{{ messages[0].content }}>{% if add_generation_prompt %}think{% else %}{{ messages[1].content }}{% endif %}"
    )
    assert trained({"prompt": TURNS[:1], "completion": TURNS[1:2]}, byte_tokenizer(template)) == "·yo"
    same = [TURNS[0], {"role": "assistant", "content": "this"}]
    assert trained({"prompt": same[:1], "completion": same[1:]}, byte_tokenizer(template)) == "·s"


def test_the_formatting_function_makes_the_text() -> None:
    assert trained({"q": "a", "a": "b"}, formatting_func=lambda row: row["q"] + row["a"]) == "ab</s>"
    with pytest.raises(TypeError, match="list"):
        trained({"q": "a"}, formatting_func=lambda row: [row["q"]])


def test_rows_are_cut_at_either_end() -> None:
    assert trained({"text": "abcd"}, max_length=3) == "abc"
    assert trained({"text": "abcd"}, max_length=3, truncation_mode="keep_end") == "cd</s>"
    assert trained({"text": "abcd"}, max_length=None) == "abcd</s>"
    assert trained({"text": "abcd"}, max_length=3, packing=True) == "abcd</s>"


def test_token_ids_are_taken_as_they_are() -> None:
    ids = byte_tokenizer()("abcd")["input_ids"]
    assert trained({"input_ids": ids}) == "abcd"
    assert trained({"input_ids": ids, "labels": [-100, *ids[1:]]}) == "·bcd"
    assert trained({"input_ids": ids, "assistant_masks": [0, 1, 1, 0]}) == "·bc·"
    # As in TRL: without a prompt column, completion_only_loss is off unless it is set
    assert trained({"input_ids": ids, "completion_mask": [0, 1, 1, 1]}) == "abcd"
    assert trained({"input_ids": ids, "completion_mask": [0, 1, 1, 1]}, completion_only_loss=True) == "·bcd"
    assert trained({"input_ids": ids, "labels": ids}, skip_prepare=True, max_length=2) == "abcd"


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        ({"a": "b", "c": "d"}, {}, "columns 'a', 'c'; expected a text column"),
        ({"prompt": "a"}, {}, "expected a text column"),
        ({"text": 3}, {}, "expected a text column"),
        ({"text": "a"}, {"assistant_only_loss": True}, "needs conversations"),
        ({"text": "a", "image": 0}, {}, "images"),
        ({"text": "a"}, {"packing": True, "max_length": None}, "needs max_length"),
        ({"text": "a"}, {"padding_free": True}, "max_length=None"),
        ({"text": "a"}, {"truncation_mode": "middle"}, "'middle'"),
        ({"text": "a"}, {"skip_prepare": True}, "'input_ids'"),
        ({"input_ids": [1], "completion_mask": [1]}, {"skip_prepare": True}, "needs 'labels'"),
        ({"prompt": "a", "completion": "b"}, {"formatting_func": str}, "completion_only_loss=False"),
        ({"messages": TURNS[:1]}, {"assistant_only_loss": True}, "no token that the assistant wrote"),
    ],
)
def test_what_cannot_be_prepared_is_refused_with_what_to_do(
    row: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        trained(row, **settings)


def test_conversations_need_a_chat_template() -> None:
    with pytest.raises(ValueError, match="no chat template"):
        trained({"messages": TURNS}, byte_tokenizer(None))


def test_an_empty_dataset_and_a_dict_of_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        first_row([])
    with pytest.raises(ValueError, match=r"dataset\['train'\]"):
        first_row({"train": [{"text": "a"}]})


def test_the_tokenizer_gets_the_source_s_tokens(tmp_path: Any) -> None:
    tokenizer = byte_tokenizer(None, pad_token=None)
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0].content }}")
    set_up_tokenizer(tokenizer, chat_template_path=str(template), eos_token="<|end|>", pad_token=None)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|end|>", "<|end|>")
    assert trained({"messages": TURNS}, tokenizer) == "hi"
    with pytest.raises(ValueError, match="'<eot>'"):
        set_up_tokenizer(tokenizer, chat_template_path=None, eos_token="<eot>", pad_token=None)


def test_a_template_with_tokens_of_its_own_is_refused(tmp_path: Any) -> None:
    donor = byte_tokenizer()
    donor.add_tokens(["<tool>"])
    donor.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="<tool>"):
        set_up_tokenizer(byte_tokenizer(), chat_template_path=str(tmp_path), eos_token=None, pad_token=None)


PAD, TEXT = [0, 0], [97, 98, 99]


@pytest.mark.parametrize(
    ("ids", "seen"),
    [
        (PAD + TEXT, [0, 0, 1, 1, 1]),
        (TEXT + PAD, [1, 1, 1, 0, 0]),
        (TEXT, [1, 1, 1]),
        (PAD + TEXT + PAD, [0, 0, 1, 1, 1, 0, 0]),
    ],
)
def test_padding_of_the_scripts_own_is_no_text_where_its_mask_counts(ids: list[int], seen: list[int]) -> None:
    row = {"input_ids": ids, "attention_mask": seen}
    preparation = plan(row, tokenizer=byte_tokenizer(), **DEFAULTS)
    labels = [-100 if token == 0 else token for token in ids]
    preparation = replace(preparation, attends=True, has_labels=True)
    found = tokenise([{**row, "labels": labels}], preparation)
    assert (found.ids.tolist(), found.labels.tolist()) == (TEXT, TEXT)


@pytest.mark.parametrize(
    ("seen", "said"),
    [([1, 0, 1], "between others"), ([1, 1, 0], "a token that is trained"), ([1, 1], "attention_mask of 2")],
)
def test_masks_that_are_no_padding_are_refused(seen: list[int], said: str) -> None:
    row = {"input_ids": TEXT, "attention_mask": seen}
    preparation = replace(plan(row, tokenizer=byte_tokenizer(), **DEFAULTS), attends=True)
    with pytest.raises(ValueError, match=said):
        preparation(row)


@pytest.mark.parametrize(
    ("trl", "of_texts", "of_pairs"),
    [
        ("0.16.0", "</s>", "</s>"),
        ("0.16.1", None, "</s>"),
        ("0.24.0", None, None),
        ("0.29.0", None, "</s>"),
        ("1.0.0", None, "</s>"),
        ("1.1.0", "</s>", "</s>"),
    ],
)
def test_the_tokenizer_that_is_saved_has_the_padding_token_that_the_release_gave_it(
    trl: str, of_texts: str | None, of_pairs: str | None
) -> None:
    for kept, gives in ((of_texts, release(trl).gives_padding), (of_pairs, release(trl).gives_pairs_padding)):
        tokenizer = byte_tokenizer(None, pad_token=None)
        end = tokenizer.convert_tokens_to_ids("</s>")
        tokens: dict[str, Any] = {"chat_template_path": None, "eos_token": None, "pad_token": None}
        assert set_up_tokenizer(tokenizer, **tokens, gives_padding=gives) == end
        assert tokenizer.pad_token == kept


def test_a_padding_token_that_is_asked_for_pads_whether_the_tokenizer_gets_it_or_not() -> None:
    for gives, kept in (("none", None), ("missing", "</s>"), ("asked", "<pad>")):
        tokenizer = byte_tokenizer(None, pad_token=None)
        found = set_up_tokenizer(
            tokenizer, chat_template_path=None, eos_token=None, pad_token="<pad>", gives_padding=gives
        )
        assert (found, tokenizer.pad_token) == (tokenizer.convert_tokens_to_ids("<pad>"), kept)
    assert [release(trl).gives_pairs_padding for trl in ("0.23.1", "1.0.0", "1.1.0")] == ["asked", "missing", "asked"]


def test_a_padding_token_outside_the_vocabulary_is_the_unknown_one_before_trl_1_1() -> None:
    """`tokenizer.pad_token = "<PAD>"` without adding it."""
    for trl, takes in (("0.12.2", True), ("1.0.0", True), ("1.1.0", False), (None, False)):
        assert release(trl).takes_unknown_padding is takes
    tokenizer = byte_tokenizer(None, pad_token=None)
    tokenizer.pad_token = "<PAD>"
    with pytest.raises(ValueError, match="'<PAD>'"):
        set_up_tokenizer(tokenizer)
    with pytest.raises(ValueError, match="'<PAD>'"):  # it has no unknown one, either
        set_up_tokenizer(tokenizer, takes_unknown=True)
    tokenizer.unk_token = "</s>"
    assert set_up_tokenizer(tokenizer, takes_unknown=True) == tokenizer.convert_tokens_to_ids("</s>")
    assert tokenizer.pad_token == "<PAD>"


def test_a_collator_without_a_padding_token_ends_as_the_source_does() -> None:
    with pytest.raises(ValueError, match="the source ends here, too"):
        IgnorePadding(byte_tokenizer(None, pad_token=None), mlm=False)([1, 2])
