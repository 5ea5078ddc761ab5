"""What Unsloth makes of TRL's defaults and rows, and its helpers for conversations, without Unsloth."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments
from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.batches.trainer_batches import TrainerBatches
from porter.runtime.facts.releases import release
from porter.runtime.rows.collation import CollatedRow
from porter.runtime.rows.response_masks import ResponsesOnly
from porter.runtime.rows.unsloth_data import turn_marks
from porter.runtime.settings.unsloth_defaults import unsloth_defaults
from tests.runtime.byte_tokens import byte_tokenizer, trained_text
from tests.tiny import tokenizer

MESH: Any = SimpleNamespace(shape={"fsdp": 1, "tp": 1})
TALK = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "So long"},
]


def test_defaults_by_release() -> None:
    assert unsloth_defaults("SFTConfig", "2025.2.1") == {}
    assert unsloth_defaults("LoraConfig") == {} == unsloth_defaults("TrainingArguments")
    older, newest = unsloth_defaults("GRPOConfig", "2025.3.1", "4.50"), unsloth_defaults("GRPOConfig")
    assert (older["weight_decay"], older["warmup_ratio"]) == ("0.01", "0.1") and "beta" not in older
    assert (newest["weight_decay"], newest["warmup_steps"], newest["beta"]) == ("0.001", "0.1", "0.001")
    assert "beta" not in unsloth_defaults("SFTConfig")


def test_the_configs_of_a_parser_have_them_too() -> None:
    SFTConfig, LoraConfig = trl_arguments("1.16.0", "SFTConfig", "LoraConfig", unsloth="2026.8.19")
    made, plain = SFTConfig(output_dir="out"), trl_arguments("1.16.0", "SFTConfig")(output_dir="out")
    assert (made.gradient_accumulation_steps, made.seed, made.learning_rate, made.warmup_steps) == (2, 3407, 5e-5, 0.1)
    assert (plain.gradient_accumulation_steps, plain.seed, plain.learning_rate, plain.warmup_steps) == (1, 42, 2e-5, 0)
    assert (made.data_seed, plain.data_seed) == (3407, None)
    mended = trl_arguments("1.16.0", "SFTConfig", unsloth="2026.9.12")
    assert mended(output_dir="out").data_seed is None
    assert LoraConfig().r == trl_arguments("1.16.0", "LoraConfig")().r


def rows(**settings: Any) -> list[str]:
    made = byte_tokenizer(**({"bos_token": "<|user|>"} if settings.pop("start", False) else {}))
    made.chat_template = settings.pop("template", made.chat_template)
    data = settings.pop("data", [{"text": "one"}, {"text": "two"}])
    batches = SFTBatches(data, made, MESH, epochs=1, batch_size=2, sampling="sequential", **settings)
    return [made.decode(row["input_ids"]) for row in batches.train_dataset]


def test_texts_end_as_they_are() -> None:
    assert rows() == ["one</s>", "two</s>"]
    assert rows(unsloth="2026.8.19") == ["one", "two"]
    assert rows(unsloth="2026.8.19", max_length=2) == ["on", "tw"]


def test_a_formatting_function_gets_many_rows() -> None:
    made = rows(
        unsloth="2026.8.19",
        data=[{"q": "a", "x": "b"}, {"q": "c", "x": "d"}],
        formatting_func=lambda row: [q + x for q, x in zip(row["q"], row["x"], strict=True)],
    )
    assert made == ["ab", "cd"]
    with pytest.raises(ValueError, match="list of texts"):
        rows(unsloth="2026.8.19", data=[{"q": "a"}], formatting_func=lambda row: "text")
    with pytest.raises(ValueError, match="'text' or a formatting_func"):
        rows(unsloth="2026.8.19", data=[{"q": "a"}])


def test_rows_that_are_tokens_are_left_alone() -> None:
    assert rows(unsloth="2026.8.19", data=[{"input_ids": [5, 6]}]) == rows(data=[{"input_ids": [5, 6]}])


@pytest.mark.parametrize(("trl", "length"), [("0.24.0", 4), ("0.17.0", 4), ("1.16.0", 2)])
def test_rows_that_are_tokens_are_cut_beside_later_trl_alone(trl: str, length: int) -> None:
    """`sft_prepare_dataset` takes the place of TRL's preparation, which cut them; from 1.0 on Unsloth cuts itself."""
    data = [{"input_ids": [5, 6, 7, 8], "labels": [-100, -100, -100, 8]}, {"input_ids": [5], "labels": [5]}]
    for settings, wanted in (({"unsloth": "2026.2.1"}, length), ({"unsloth": "2025.3.3"}, 2), ({}, 2)):
        batches = SFTBatches(
            data, byte_tokenizer(), MESH, epochs=1, batch_size=2, max_length=2, trl=trl, packing=False, **settings
        )
        evaluated = batches.evaluation(data, batch_size=1)._parts[1]
        if wanted == 4:
            assert batches._rows.lengths.tolist() == evaluated.lengths.tolist() == [4, 1]
        else:
            assert max(batches._rows.lengths) <= 2 and max(evaluated.lengths) <= 2


def test_standardized_conversations() -> None:
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}, {"from": "human", "value": "?"}]
    data = Dataset.from_list([{"conversations": turns}] * 2)
    made = rt.standardize_data_formats(data)
    assert made[0]["conversations"][:2] == TALK[:2]
    other = Dataset.from_list([{"text": "a"}])
    assert rt.standardize_data_formats(other) is other
    with pytest.raises(ValueError, match=r"\['bot'\] have no alias"):
        rt.standardize_data_formats(
            Dataset.from_list([{"conversations": [{"from": "bot", "value": text} for text in "ab"]}])
        )


@pytest.mark.parametrize(
    ("template", "user", "answer"),
    [
        ("gemma-3", "<start_of_turn>user\n", "<start_of_turn>model\n"),
        ("gemma-4", "<|turn>user\n", "<|turn>model\n"),
        (
            "llama-3.1",
            "<|start_header_id|>user<|end_header_id|>\n\n",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "llama-3",
            "<|start_header_id|>user<|end_header_id|>\n\n",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ("qwen-2.5", "<|im_start|>user\n", "<|im_start|>assistant\n"),
    ],
)
def test_marks_are_read_off_the_template(template: str, user: str, answer: str) -> None:
    made = rt.get_chat_template(tokenizer("llama3"), template)
    assert turn_marks(made) == (user, answer)


def test_without_a_header_the_parts_have_to_be_given() -> None:
    made = copy.deepcopy(tokenizer("llama3"))
    made.chat_template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    with pytest.raises(ValueError, match="give instruction_part"):
        turn_marks(made)
    with pytest.raises(ValueError, match="give both"):
        ResponsesOnly("a", None, made)


def test_answers_alone_are_trained_and_rows_without_one_go() -> None:
    made = byte_tokenizer()
    made.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    texts = [{"text": made.apply_chat_template(TALK[:2], tokenize=False)}, {"text": "<|user|>no answer"}]
    batches = SFTBatches(
        texts, made, MESH, epochs=1, batch_size=1, unsloth="2026.8.19", label_mask=ResponsesOnly(tokenizer=made)
    )
    assert batches.rows == len(batches.train_dataset) == 1
    assert trained_text(made, batches.train_dataset[0]["labels"]) == "·Hello<|end|>"


TEXTS = {
    "gemma-3": "<bos><start_of_turn>user\nS\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n",
    "gemma-4": "<bos><|turn>system\nS<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello<turn|>\n",
    "llama-3": (
        "<bos><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    ),
    "llama-3.1": (
        "<bos><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 26 July 2024\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    ),
    "qwen-2.5": (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
    ),
}


@pytest.mark.parametrize("template", TEXTS)
def test_the_templates_texts(template: str) -> None:
    made = rt.get_chat_template(tokenizer("llama3"), template)
    text = made.apply_chat_template([{"role": "system", "content": "S"}, *TALK[:2]], tokenize=False)
    assert text == TEXTS[template].replace("<bos>", made.bos_token or "")
    assert tokenizer("llama3").chat_template != made.chat_template


def test_llama_3_takes_rows_with_other_names() -> None:
    """As Unsloth's, whose template is this one where the first message has a role, and another where it hasn't."""
    names = {"role": "from", "content": "value", "user": "human", "assistant": "gpt"}
    made = rt.get_chat_template(tokenizer("llama3"), "llama-3", mapping=names)
    shared = [("system", "S"), ("human", " Hi"), ("gpt", "Hello")]
    text = made.apply_chat_template([{"from": who, "value": said} for who, said in shared], tokenize=False)
    usual = [{"role": "system", "content": "S"}, *TALK[:2]]
    assert text == made.apply_chat_template(usual, tokenize=False) == TEXTS["llama-3"].replace("<bos>", made.bos_token)
    with pytest.raises(ValueError, match="rename in the rows"):
        rt.get_chat_template(tokenizer("llama3"), "qwen-2.5", mapping=names)


CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": "1"}}}]}
USES = [{"role": "user", "content": "Hi"}, CALL, {"role": "tool", "content": "2"}]
ADD = {"type": "function", "function": {"name": "add"}}


@pytest.mark.parametrize(
    ("template", "given", "parts"),
    [
        (
            "qwen-2.5",
            {},
            [
                "signatures within <tools></tools> XML tags:\n<tools>\n" + json.dumps(ADD) + "\n</tools>\n\nFor each",
                'assistant\n<tool_call>\n{"name": "add", "arguments": {"a": "1"}}\n</tool_call><|im_end|>\n',
                "<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n",
            ],
        ),
        (
            "llama-3.1",
            {},
            [
                "Environment: ipython\nCutting Knowledge Date: December 2023\nToday Date: 26 July 2024\n\n<|eot_id|>",
                "user<|end_header_id|>\n\nGiven the following functions, please respond with a JSON for a function",
                "Do not use variables.\n\n" + json.dumps(ADD, indent=4) + "\n\nHi<|eot_id|>",
                'assistant<|end_header_id|>\n\n{"name": "add", "parameters": {"a": "1"}}<|eot_id|>',
                '<|start_header_id|>ipython<|end_header_id|>\n\n"2"<|eot_id|>',
            ],
        ),
        (
            "llama-3.1",
            {"builtin_tools": ["add", "code_interpreter"], "tools_in_user_message": False, "date_string": "1 May 2025"},
            [
                "Environment: ipython\nTools: add\n\nCutting Knowledge Date: December 2023\nToday Date: 1 May 2025\n\n",
                "You have access to the following functions. To call a function, please respond with JSON for a",
                "user<|end_header_id|>\n\nHi<|eot_id|>",
                'assistant<|end_header_id|>\n\n<|python_tag|>add.call(a="1")<|eom_id|>',
            ],
        ),
    ],
)
def test_tools_are_rendered(template: str, given: dict[str, Any], parts: list[str]) -> None:
    """The tokenizer is saved with its template: what others give it later has to render as Unsloth's does."""
    made = rt.get_chat_template(tokenizer("llama3"), template)
    text = made.apply_chat_template(USES, tools=[ADD], tokenize=False, **given)
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("template", "image"),
    [("gemma-3", "<start_of_turn>user\n<start_of_image>so"), ("gemma-4", "<|turn>user\n<|image|>so")],
)
def test_gemmas_templates_take_messages_in_parts(template: str, image: str) -> None:
    made = rt.get_chat_template(tokenizer("llama3"), template)
    parted = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in TALK[:2]]
    assert made.apply_chat_template(parted, tokenize=False) == made.apply_chat_template(TALK[:2], tokenize=False)
    shown = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " so"}]}]
    assert image in made.apply_chat_template(shown, tokenize=False)
    with pytest.raises(Exception, match="must alternate"):
        made.apply_chat_template([TALK[0], TALK[0]], tokenize=False)


def test_gemma_4_is_told_to_think_and_its_thoughts_go() -> None:
    made = rt.get_chat_template(tokenizer("llama3"), "gemma-4")
    answer = {"role": "assistant", "content": "<|channel>so<channel|> Hello"}
    text = made.apply_chat_template([TALK[0], answer], tokenize=False, enable_thinking=True)
    assert text.endswith("<|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello<turn|>\n")


def test_other_templates_are_refused() -> None:
    with pytest.raises(ValueError, match="is not one of gemma-3"):
        rt.get_chat_template(tokenizer("llama3"), "vicuna")


def test_packed_rows_are_masked_as_they_are_packed() -> None:
    """Unsloth maps its mask over the trainer's dataset, whose rows are packed then: the second document's `Be brief.`
    goes on with the first one's answer.
    """
    made = byte_tokenizer()
    texts = [{"text": f"Be brief.Q:{question}A:{answer}"} for question, answer in (("1+1", "two"), ("2+3", "six"))]
    texts.append({"text": "no answer in here, and long enough for a row of its own"})
    settings = {"epochs": 1, "batch_size": 1, "label_mask": ResponsesOnly("Q:", "A:", made), "unsloth": "2026.8.19"}
    packed = SFTBatches(texts, made, MESH, packing=True, max_length=64, **settings)  # type: ignore[arg-type]
    [row] = packed.train_dataset  # the one without an answer is taken out
    assert trained_text(made, row["labels"]).replace("·", "") == "twoBe brief.six"
    apart = SFTBatches(texts, made, MESH, max_length=64, **settings)  # type: ignore[arg-type]
    assert [trained_text(made, row["labels"]).replace("·", "") for row in apart.train_dataset] == ["two", "six"]


@pytest.mark.parametrize(
    ("transformers", "unsloth", "scale"),
    [
        ("4.57.6", None, 1 / 7),
        ("4.57.6", "2026.8.19", 1 / 5),
        ("4.48.0", "2026.8.19", 1 / 5),
    ],
)
def test_a_steps_loss_is_over_unsloths_count(transformers: str, unsloth: str | None, scale: float) -> None:
    """Every label is counted by transformers 4.46 to 5.9, by Unsloth those that something predicts."""
    data = [{"input_ids": [5, 6, 7]}, {"input_ids": [5, 6, 7, 8]}]
    settings: dict[str, Any] = {"trl": "0.24.0", "transformers": transformers, "unsloth_counts": unsloth}
    batches = SFTBatches(data, byte_tokenizer(), MESH, epochs=1, batch_size=2, sampling="sequential", **settings)
    (_, shares, *_), *_ = batches._steps
    assert shares.tolist() == pytest.approx([scale, scale])


@pytest.mark.parametrize(
    ("unsloth", "counted"), [(None, 7), ("2025.1.8", 5), ("2026.8.19", 4)], ids=["without", "older", "newer"]
)
def test_padding_with_labels_counts_where_unsloth_did(unsloth: str | None, counted: int) -> None:
    row = CollatedRow(np.arange(4), np.arange(4), np.array([True, True, True, False]))
    batches = TrainerBatches(
        [{"input_ids": [5, 6, 7], "labels": [5, 6, 7]}],
        lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
        MESH,
        epochs=1,
        transformers="4.57.6",
        unsloth_counts=unsloth,
    )
    other = CollatedRow(np.arange(3), np.arange(3), np.ones(3, bool))
    assert batches._weights([row, other], np.zeros((2, 2), int)).tolist() == pytest.approx([1 / counted] * 2)


def test_unsloths_models_take_no_notice_of_masks_in_training() -> None:
    """An end token behind padding, with a mask of its own: TRL's rows hide what is between, Unsloth's model doesn't."""
    row = {"input_ids": [5, 6, 7, 0, 0, 1], "labels": [5, 6, 7, 0, 0, 1], "attention_mask": [1, 1, 1, 0, 0, 1]}
    settings: dict[str, Any] = {"trl": "0.13.0", "transformers": "4.47.1", "epochs": 1, "batch_size": 1}
    tokens = byte_tokenizer()
    tokens.pad_token_id = 0
    batches = SFTBatches([row], tokens, MESH, unsloth_counts="2024.12.12", **settings)
    assert batches._rows.tokens.ids.tolist() == [5, 6, 7, 0, 0, 1]
    assert batches._rows.tokens.labels.tolist() == [5, 6, 7, -100, -100, 1]
    with pytest.raises(ValueError, match="hides tokens between"):
        batches.evaluation([row], batch_size=1)
    with pytest.raises(ValueError, match="hides tokens between"):
        SFTBatches([row], tokens, MESH, **settings)


def test_unsloths_mistral_takes_the_count() -> None:
    plain, own = release("0.13.0", "4.47.1"), release("0.13.0", "4.47.1", "2025.1.8")
    assert plain.depends_on_family and not own.depends_on_family and not own.sums_gradients_of("SFTTrainer", "mistral")
    assert release("0.14.0", "4.48.0").hides_tokens and not release("0.14.0", "4.48.0", "2025.1.8").hides_tokens
    assert release("0.24.0", "4.57.6", "2026.8.19").evaluates_firsts
    assert [release("0.24.0", "5.3.0", each).divides_twice for each in ("", "2026.4.4", "2026.8.19")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("release", "doubled"),
    [("2024.8", False), ("2025.3.18", False), ("2025.3.19", True), ("2026.8.1", True), ("2026.8.2", False)],
)
def test_a_start_in_the_text_is_seen_but_by_some_releases(release: str, doubled: bool) -> None:
    """What `{{ bos_token }}` of a template wrote: unsloth_zoo 2025.3.17 to 2026.8.1 read one character of it."""
    made = copy.deepcopy(tokenizer("llama3"))
    made.chat_template = "{{ bos_token }}{{ messages[0].content }}"
    batches = SFTBatches([{"text": f"{made.bos_token}Hi"}], made, MESH, epochs=1, batch_size=1, unsloth=release)
    assert batches.train_dataset[0]["input_ids"].count(made.bos_token_id) == 1 + doubled
