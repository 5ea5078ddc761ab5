"""Which family stands in for a model, by its name or by other evidence, and which tokens and rows it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.cli.validate import FAMILIES
from porter.runtime.facts.families import families
from porter.validate.stand_ins.models.model_choice import MEMBERS, choose
from porter.validate.stand_ins.models.stand_in import as_on_the_hub, has_own_heads, make_model
from porter.validate.stand_ins.models.stand_in_tokenizer import write_tokenizer
from porter.validate.stand_ins.models.stand_in_tokens import MARKS, PADS, tokens_of, with_written


@pytest.mark.parametrize(
    ("name", "family", "member"),
    [
        ("Qwen/Qwen3-0.6B", "qwen3", "Qwen/Qwen3-0.6B"),
        ("/data/models/llama-2-7b-hf", "llama3", "llama-2-7b-hf"),
        ("decapoda-research/llama-7b-hf", "llama3", "decapoda-research/llama-7b-hf"),
        ("huggyllama/llama-30b", "llama3", "huggyllama/llama-30b"),
        ("unsloth/mistral-7b-bnb-4bit", "mistral", "unsloth/mistral-7b-bnb-4bit"),
        ("TheBloke/Llama-2-7B-GPTQ", "llama3", "TheBloke/Llama-2-7B-GPTQ"),
        ("./gemma_2b", "gemma", "gemma_2b"),
        ("./our_gemma_4b", "gemma3", MEMBERS["gemma3"]),
        ("google/translategemma-4b-it", "gemma3", "google/translategemma-4b-it"),
    ],
)
def test_names_that_tell(name: str, family: str, member: str) -> None:
    choice = choose(name)
    assert (choice.family, choice.member) == (family, member)


@pytest.mark.parametrize(
    ("text", "family", "sign"),
    [
        ("x = '<|im_start|>user'", "qwen2", "<|im_start|>"),
        ("from transformers import LlamaTokenizer", "llama3", "LlamaTokenizer"),
        ("end = '<|eot_id|>'", "llama3", "<|eot_id|>"),
        ("# as mistralai/Mistral-7B-v0.1", "mistral", "mistralai/Mistral-7B-v0.1"),
        ("x = 1", "qwen2", "a guess"),
    ],
)
def test_other_evidence(text: str, family: str, sign: str) -> None:
    choice = choose("path/to/model", [text])
    assert choice.family == family
    assert sign in choice.reason


def test_evidence_in_the_project_and_the_source_s_release(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Trains google/gemma-2-9b-it.")

    assert choose("", ["x = 1"], tmp_path).family == "gemma2"
    assert choose("", ["x = 1"], tmp_path, release=(4, 36)).member == MEMBERS["llama2"]
    assert choose("my-model", asked="llama2").member == MEMBERS["llama2"]


@pytest.mark.parametrize(
    ("name", "before", "older", "since"),
    [
        ("google/gemma-4-E4B-it", (5, 4), "gemma3", (5, 5)),
        ("google/gemma-3-4b-it", (4, 49), "gemma2", (4, 50)),
        ("Qwen/Qwen3-8B", (4, 50), "qwen2", (4, 51)),
    ],
)
def test_a_release_before_a_family_gets_an_older_one(
    name: str, before: tuple[int, int], older: str, since: tuple[int, int]
) -> None:
    """By the first releases that the families' own tables say."""
    assert choose(name, release=before).family == older
    assert choose(name, release=since).family == choose(name).family != older


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "distilgpt2",
        "nferruz/ProtGPT2",
        "facebook/opt-350m",
        "microsoft/phi-2",
        "Qwen/Qwen3-30B-A3B",
        "google/flan-t5",
    ],
)
def test_families_that_nothing_here_computes(name: str) -> None:
    with pytest.raises(ValueError, match=r"--family NAME"):
        choose(name)
    assert choose(name, asked="qwen3").family == "qwen3"


def test_rows_to_spare_where_the_real_model_has_them() -> None:
    spare = {name: tokens_of("llama3" if name == "llama2" else name, member).spare for name, member in MEMBERS.items()}

    assert {name for name, rows in spare.items() if rows} == {"qwen2", "qwen3", "gemma3"}
    assert tokens_of("gemma3", "google/gemma-3-1b-it").spare == 0
    llama2, llama3 = (tokens_of("llama3", MEMBERS[name]) for name in ("llama2", "llama3"))
    assert (llama2.pieces, llama2.begin, llama2.pad, llama2.unknown) == ("sentencepiece", "<s>", None, "<unk>")
    assert (llama3.pieces, llama3.pad) == ("bytes", None)
    assert "<|reserved_special_token_0|>" in llama3.others


@pytest.mark.parametrize(
    ("family", "name", "pad"),
    [
        ("llama3", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "</s>"),
        ("llama3", "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", None),
        ("llama3", "lmsys/vicuna-7b-v1.5", "<unk>"),
        ("llama3", "deepseek-ai/deepseek-coder-1.3b-base", "<|end_of_text|>"),
        ("llama3", "unsloth/llama-3-8b-bnb-4bit", "<|reserved_special_token_250|>"),
        ("llama3", "unsloth/tinyllama-bnb-4bit", "<unk>"),
        ("llama3", "unsloth/DeepSeek-R1-Distill-Llama-8B", "<|finetune_right_pad_id|>"),
        ("llama3", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "<|eot_id|>"),
        ("mistral", "HuggingFaceH4/zephyr-7b-beta", "</s>"),
        ("mistral", "unsloth/mistral-7b-v0.3", "[control_768]"),
        ("mistral", "mistralai/Mistral-7B-v0.3", None),
        ("qwen2", "unsloth/Qwen2.5-7B", "<|vision_pad|>"),
    ],
)
def test_tokenizers_pad_with_what_the_published_ones_do(
    family: str, name: str, pad: str | None, tmp_path: Path
) -> None:
    """A script that sets no padding token trains with those that have one."""
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path, tokens_of(family, name), None)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.pad_token == pad
    assert pad is None or tokenizer(f"a{pad}")["input_ids"][-1] == tokenizer.pad_token_id


@pytest.mark.parametrize(
    ("family", "name", "side"),
    [
        ("llama3", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "right"),
        ("llama3", "meta-llama/Llama-2-7b-hf", "right"),
        ("llama3", "huggyllama/llama-7b", "left"),
        ("mistral", "mistralai/Mistral-7B-v0.1", "left"),
    ],
)
def test_tokenizers_pad_where_the_published_ones_do(family: str, name: str, side: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path, tokens_of(family, name), None)
    assert AutoTokenizer.from_pretrained(tmp_path).padding_side == side


def test_no_tokenizer_gives_types_of_tokens(tmp_path: Path) -> None:
    """`model.generate` refuses what its model doesn't take."""
    from transformers import AutoTokenizer

    write_tokenizer(tmp_path, tokens_of("llama3", MEMBERS["llama3"]), None)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["model_input_names"] == ["input_ids", "attention_mask"]  # transformers 5 gives no others of itself
    assert set(AutoTokenizer.from_pretrained(tmp_path)("a")) == {"input_ids", "attention_mask"}


def test_the_choices_of_the_command_line() -> None:
    assert set(FAMILIES) == {family.name for family in families()} | {"llama2"} == set(MEMBERS)


def test_a_configuration_in_the_hub_s_form() -> None:
    rotary = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0}
    config = as_on_the_hub({"model_type": "llama", "dtype": "float32", "rope_parameters": rotary})

    assert (config["rope_theta"], config["torch_dtype"]) == (5e5, "float32")
    assert config["rope_scaling"] == {"rope_type": "llama3", "factor": 8.0}
    assert not {"rope_parameters", "dtype"} & set(config)


def test_a_base_in_4_bits_has_the_weights_that_it_was_made_from(tmp_path: Path) -> None:
    """A source loads the mirror that bitsandbytes has quantised, its port the 16-bit weights."""
    from porter.validate.observing.settings import Settings
    from porter.validate.stand_ins.substitutes import Substitutes

    asked = Substitutes(Settings(str(tmp_path)), "source", [])
    made: list[str] = []
    asked._made = lambda text: (made.append(text), (1, "not made"))[1]  # type: ignore[method-assign]
    for name in ("unsloth/Qwen2.5-7B-unsloth-bnb-4bit", "unsloth/Qwen2.5-7B-bnb-4bit", "unsloth/Qwen2.5-7B"):
        with pytest.raises(ValueError, match="not made"):
            asked.model(name)
    assert len({(json.loads(text)["name"], json.loads(text)["folder"]) for text in made}) == 1


@pytest.mark.parametrize(
    ("name", "own"),
    [("google/codegemma-7b-it", True), ("unsloth/gemma-7b-bnb-4bit", True), ("google/gemma-2b", False), ("x/y", False)],
)
def test_a_model_whose_queries_have_keys_of_their_own(name: str, own: bool) -> None:
    assert has_own_heads("gemma", name) is own
    config = make_model("gemma", name, kv_heads=4, own_heads=own).config
    assert (config.num_attention_heads, config.num_key_value_heads) == (8, 8 if own else 4)


@pytest.mark.parametrize(("release", "rope"), [((4, 41), "default"), ((4, 45), "llama3")])
def test_a_release_gets_the_rotary_scaling_that_it_reads(release: tuple[int, int], rope: str) -> None:
    config = make_model("llama3", "meta-llama/Llama-3.2-1B", release=release).config
    assert config.rope_parameters["rope_type"] == rope


def test_answers_are_found_by_all_tokens_of_their_mark(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from porter.runtime import ResponsesOnly
    from porter.validate.torch_side.gpu_libraries.unsloth_chats import train_on_responses_only

    name = "unsloth/Llama-3.2-1B-Instruct"
    write_tokenizer(tmp_path, tokens_of("llama3", name), None)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    words = AutoTokenizer.from_pretrained(tmp_path)
    marks = [f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ("user", "assistant")]
    text = f"{marks[0]}a question<|eot_id|>{marks[1]}an answer<|eot_id|>{marks[0]}more<|eot_id|>{marks[1]}\n\nso"
    ids = words(text, add_special_tokens=False)["input_ids"]

    masked = train_on_responses_only(None, *marks, tokenizer=words, return_function=True)

    assert masked({"input_ids": [ids]})["labels"] == [ResponsesOnly(*marks, words)(list(ids))]


@pytest.mark.parametrize(
    ("model", "text", "guessed", "more"),
    [
        ("Qwen/Qwen2.5-Coder-1.5B", "names = tokenizer.additional_special_tokens[1:5]", False, (*MARKS, *PADS)),
        ("Qwen/Qwen2.5-Coder-1.5B", "tokenizer.pad_token = '<|fim_pad|>'", False, ("<|fim_pad|>",)),
        ("Qwen/Qwen2-1.5B", "names = tokenizer.additional_special_tokens", False, ()),
        ("Qwen/Qwen2.5-Coder-1.5B", "tokenizer.pad_token = '<pad>'", False, ()),  # which it doesn't have
        ("ours/sql-1b", "tokenizer.pad_token = '<pad>'", True, ("<pad>",)),
        ("ours/sql-1b", "tokenizer.pad_token = '<|endoftext|>'", True, ()),
    ],
)
def test_tokens_that_a_script_counts_on(model: str, text: str, guessed: bool, more: tuple[str, ...]) -> None:
    tokens = tokens_of("qwen2", model)
    assert with_written(tokens, "qwen2", model, [text], guessed=guessed).others == (*tokens.others, *more)
    llama = tokens_of("llama3", "llama-2-7b")  # pads with its unknown token then
    assert with_written(llama, "llama3", "llama-2-7b", [text], guessed=guessed) == llama
