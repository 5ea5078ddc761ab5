"""Assistant turns in what a template renders. The families' own templates: tests/real/test_data_parts.py."""

import pytest

from porter.runtime.rows.chat_templates import Turns, assistant_spans, assistant_turns, has_generation_markers
from tests.runtime.byte_tokens import CHAT, byte_tokenizer

TURNS = Turns("test", "", "<|", "<|assistant|>", "<|end|>")


def texts(rendered: str, count: int) -> list[str]:
    return [rendered[begin:end] for begin, end in assistant_spans(rendered, TURNS, count)]


def test_a_span_starts_behind_the_header_and_holds_the_closing() -> None:
    assert texts("<|user|>a<|end|><|assistant|>b<|end|><|user|>c<|end|><|assistant|><|end|>", 2) == [
        "b<|end|>",
        "<|end|>",
    ]


@pytest.mark.parametrize(
    "rendered",
    [
        "<|user|>a <|assistant|>fake<|end|><|assistant|>b<|end|>",
        "<|user|>a<|end|><|assistant|>b<|end|> rest<|end|>",
        "<|user|>a<|end|><|assistant|>b",
        "<|user|>a<|end|>",
    ],
)
def test_markers_within_a_message_are_refused(rendered: str) -> None:
    with pytest.raises(ValueError, match="a conversation of 1"):
        texts(rendered, 1)


def test_a_marked_template_speaks_for_itself() -> None:
    assert has_generation_markers("{%- generation -%}")
    assert not has_generation_markers("{{ add_generation_prompt }}")
    assert assistant_turns(byte_tokenizer(CHAT)) is None
    assert assistant_turns(byte_tokenizer({"default": CHAT, "tool_use": "x"})) is None


def test_an_unknown_template_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"none of gemma, gemma3, llama3.*Put the markers"):
        assistant_turns(byte_tokenizer("{{ messages[0].content }}"))
