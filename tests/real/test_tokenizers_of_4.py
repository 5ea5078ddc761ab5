"""Token ids beside what transformers 4.57 gave for the same files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter import runtime as rt

pytestmark = pytest.mark.real

TEXT = "<s>[INST] 1 [/INST] a </s>\n<s> x"
# Its pieces under transformers 4.57.6: of the fast class, and by use_fast=False.
FAST = "<s><s>▁[INST]▁1▁[/INST]▁a▁</s>▁\n<s>▁▁x"
SLOW_NEW = "<s><s>[INST]▁1▁[/INST]▁a▁</s>\n<s>▁x"

READ = FAST  # as AutoTokenizer of transformers 5.1.0 gave them, whatever the settings say


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("settings", [{"legacy": False}, {}, {"add_prefix_space": True}, {"add_prefix_space": False}])
def test_ids_of_transformers_5_0(tmp_path: Path, kind: str, settings: dict[str, Any]) -> None:
    from transformers import AutoTokenizer

    _write(tmp_path, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", kind, settings)
    made = rt.as_transformers_5_0(AutoTokenizer.from_pretrained(tmp_path))
    assert _read(made.convert_ids_to_tokens(made(TEXT).input_ids)) == READ
    assert made.padding_side == "right"


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize(
    ("settings", "given", "wanted"),
    [
        ({"legacy": False}, {}, FAST),
        ({"legacy": True}, {}, FAST),
        ({}, {}, FAST),
        ({"legacy": False}, {"use_fast": False}, SLOW_NEW),
        ({"legacy": True}, {"use_fast": False}, FAST),
        ({"legacy": False}, {"use_fast": False, "legacy": True}, FAST),
        ({"legacy": False, "add_prefix_space": True}, {}, SLOW_NEW),
        ({"legacy": True, "add_prefix_space": True}, {}, FAST),
    ],
)
def test_ids_behind_special_tokens(
    tmp_path: Path, kind: str, settings: dict[str, Any], given: dict[str, Any], wanted: str
) -> None:
    from transformers import AutoTokenizer

    _write(tmp_path, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", kind, settings)
    tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained(tmp_path), **given)
    pieces = tokenizer.convert_ids_to_tokens(tokenizer(TEXT).input_ids)
    assert _read(pieces) == wanted
    assert tokenizer.padding_side == ("left" if given.get("use_fast", True) else "right")
    assert (
        tokenizer.decode(tokenizer(TEXT, add_special_tokens=False).input_ids).replace(" ", "").startswith("<s>[INST]")
    )


def test_end_tokens_of_mistral(tmp_path: Path) -> None:
    """Whose class under transformers 5 is another one, by the model's type."""
    from transformers import AutoTokenizer

    _write(tmp_path, "mistralai/Mistral-7B-v0.1", "mistral", {})
    tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained(tmp_path), add_eos_token=True)
    ids = tokenizer("a").input_ids
    assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    rt.bos_eos(tokenizer, add_eos_token=False)
    assert tokenizer("a").input_ids == ids[:-1]


def test_bytes_under_llamas_name_keep_their_spaces(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    _write(tmp_path, "meta-llama/Llama-3.1-8B", "llama", {"tokenizer_class": "LlamaTokenizerFast"})
    text = "two words 1234<|eot_id|> and more"
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert "Ġ" not in "".join(loaded.convert_ids_to_tokens(loaded(text).input_ids))  # else it isn't needed any more
    tokenizer = rt.as_transformers_4(loaded)
    assert tokenizer(text).input_ids == Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids


@pytest.mark.parametrize("as_released", [rt.as_transformers_4, rt.as_transformers_5_0])
def test_digits_stay_words_of_their_own(tmp_path: Path, as_released: Callable[[Any], Any]) -> None:
    """SmolLM is a Llama that names GPT-2's class, which version 5 builds anew without its split of digits."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    _write(tmp_path, "HuggingFaceTB/SmolLM2-135M-Instruct", "llama", {})
    file = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = ["List:\n\n1. one", "a  5 mg"]
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    pieces = file.pre_tokenizer.pre_tokenize_str(texts[0])
    assert loaded.backend_tokenizer.pre_tokenizer.pre_tokenize_str(texts[0]) != pieces  # else it isn't needed any more
    tokenizer = as_released(loaded)
    assert tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(texts[0]) == pieces
    assert tokenizer(texts).input_ids == [file.encode(text).ids for text in texts]


@pytest.mark.parametrize("model", [("qwen3", "Qwen/Qwen3-0.6B"), ("gemma3", "google/gemma-3-1b-it")], ids=str)
def test_others_stay_as_they_are(tmp_path: Path, model: tuple[str, str]) -> None:
    from transformers import AutoTokenizer

    _write(tmp_path, model[1], model[0], {})
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    texts = [TEXT, " a  b\n\n 1234.5<|im_end|> it's <end_of_turn>\n x", "ünïcode ﬁ e\u0301", ""]
    before = loaded(texts).input_ids, loaded.padding_side
    rt.as_transformers_4(loaded)
    assert (loaded(texts).input_ids, loaded.padding_side) == before


# What transformers 4.46.3 and 4.57.6 made of texts where `tokenizer.json` has its added tokens normalised, which are
# then looked for with the space in front; and where it hasn't, as the slow class never had.
SPELT = ("<s>[INST] a </s>", "a </s><s> b", "a<s>b<new>", "</s> <s>x <new>")
NORMALISED = ("<s>[INST]▁a</s>", "▁a</s><s>▁b", "▁a<s>b<new>", "</s><s>x<new>")
AS_WRITTEN = ("<s>▁[INST]▁a▁</s>", "▁a▁</s><s>▁▁b", "▁a<s>▁b<new>", "</s>▁▁<s>▁x▁<new>")


@pytest.mark.parametrize("said", ["nothing", "the same", "the other"])
@pytest.mark.parametrize(
    ("normalised", "given", "wanted"),
    [(True, {}, NORMALISED), (False, {}, AS_WRITTEN), (True, {"use_fast": False}, AS_WRITTEN)],
    ids=str,
)
def test_added_tokens_are_found_as_the_file_says(
    tmp_path: Path, said: str, normalised: bool, given: dict[str, Any], wanted: tuple[str, ...]
) -> None:
    from transformers import AutoTokenizer

    _write_normalised(tmp_path, normalised, {"the same": normalised, "the other": not normalised}.get(said))
    tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained(tmp_path), **given)
    assert _pieces_of(tokenizer) == wanted
    assert tokenizer(SPELT[0]).input_ids[0] == tokenizer.bos_token_id
    if not given:
        tokenizer.save_pretrained(tmp_path / "saved")
        (tmp_path / "saved" / "config.json").write_text((tmp_path / "config.json").read_text())
        for as_released in (rt.as_transformers_4, rt.as_transformers_5_0):
            assert _pieces_of(as_released(AutoTokenizer.from_pretrained(tmp_path / "saved"))) == wanted


def _write_normalised(folder: Path, normalised: bool, settings: bool | None) -> None:
    """A Llama 2 as it was converted in 2023, with a token more; `settings`: of special ones in the other file."""
    _write(folder, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama", {})
    file, other = folder / "tokenizer.json", folder / "tokenizer_config.json"
    written, config = json.loads(file.read_text()), json.loads(other.read_text())
    added = written["added_tokens"]
    added.append(added[-1] | {"id": len(written["model"]["vocab"]), "content": "<new>", "special": False})
    for token in added:
        token["normalized"] = normalised
    file.write_text(json.dumps(written))
    del config["added_tokens_decoder"]
    if settings is not None:
        decoder = {each["id"]: {key: value for key, value in each.items() if key != "id"} for each in added}
        for token in decoder.values():
            token["normalized"] = settings if token["special"] else normalised
        config["added_tokens_decoder"] = decoder
    other.write_text(json.dumps(config))


def _pieces_of(tokenizer: Any) -> tuple[str, ...]:
    rows = tokenizer(list(SPELT), add_special_tokens=False).input_ids
    return tuple(_read(tokenizer.convert_ids_to_tokens(row)) for row in rows)


WORDS = "the request is complete and a word of it is 1 2 3 more than the text"
SPACED = [
    "  two  spaces.   # a\n  b \n",
    "request.  # noqa",
    "",
    "   ",
    "▁ a▁",
    "\tＦｕｌｌ ﬁne e\u0301\u00a0 x\r\n y™ ",
]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "spec",
    [
        {"normalization_rule_name": "identity"},  # removes extra spaces, as sentencepiece's own default does
        {"normalization_rule_name": "nmt_nfkc"},
        {"normalization_rule_name": "nfkc", "remove_extra_whitespaces": False},
        {"normalization_rule_name": "identity", "add_dummy_prefix": False},
    ],
    ids=str,
)
def test_slow_ids_are_sentencepieces(tmp_path: Path, kind: str, spec: dict[str, Any]) -> None:
    """LlamaTokenizer of transformers 4 and `use_fast=False` had the text encoded by sentencepiece."""
    from transformers import AutoTokenizer, LlamaTokenizer

    pieces = _pieces(tmp_path, model_type=kind, **spec)
    for cls in (LlamaTokenizer, AutoTokenizer):
        tokenizer = rt.as_transformers_4(cls.from_pretrained(tmp_path), use_fast=False)
        for text in SPACED:
            assert tokenizer(text, add_special_tokens=False).input_ids == pieces.encode(text), text
    ids = tokenizer("  a  </s>  b  ", add_special_tokens=False).input_ids
    assert ids == [*pieces.encode("  a  "), tokenizer.eos_token_id, *pieces.encode("  b  ")]
    tokenizer.save_pretrained(tmp_path / "saved")


# `legacy: false`: the pieces that LlamaTokenizer of transformers 4.46.3 and 4.57.1 gave.
NEWER = {
    "a  request.  # b ": "▁a▁request.▁#▁b",
    "  a  </s>  b  ": "▁▁a</s>▁b",
    "   ": "",
    "▁ a▁": "▁▁a",
    "</s>a": "</s>a",
}


def test_slow_ids_of_the_newer_behaviour(tmp_path: Path) -> None:
    """Whose SentencePiece puts no space in front."""
    from transformers import AutoTokenizer

    _pieces(tmp_path, model_type="bpe", normalization_rule_name="identity")
    tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained(tmp_path), use_fast=False, legacy=False)
    for text, wanted in NEWER.items():
        ids = tokenizer(text, add_special_tokens=False).input_ids
        assert _read(tokenizer.convert_ids_to_tokens(ids)) == wanted, text


@pytest.mark.parametrize("settings", [{"legacy": True}, {}, {"legacy": False}], ids=str)
def test_a_fast_one_without_its_file_puts_spaces_by_the_settings(tmp_path: Path, settings: dict[str, Any]) -> None:
    """transformers 4 made it from `tokenizer.model`, whose normalizer it left out; pieces as 4.46.3 gave them."""
    from transformers import AutoTokenizer

    _pieces(tmp_path, model_type="bpe", normalization_rule_name="identity")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"} | settings))
    tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained(tmp_path))
    ids = tokenizer(" a  b</s> a", add_special_tokens=False).input_ids
    wanted = "▁a▁▁b</s>▁a" if settings.get("legacy") is False else "▁▁a▁▁b</s>▁▁a"
    assert _read(tokenizer.convert_ids_to_tokens(ids)) == wanted


def _pieces(folder: Path, **spec: Any) -> Any:
    """A SentencePiece model in a checkpoint of Llama's, without `tokenizer.json`."""
    import io

    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([WORDS] * 4), model_writer=written, vocab_size=330, hard_vocab_limit=False,
        byte_fallback=True, character_coverage=1.0, num_threads=1, minloglevel=2, **spec,
    )  # fmt: skip
    (folder / "tokenizer.model").write_bytes(written.getvalue())
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


PROMPT = "<s>[INST] What is it ? [/INST]"
ANSWER = "I do n't know ."


def test_texts_of_pipelines_of_a_release(tmp_path: Path) -> None:
    """Those that TextGenerationPipeline.postprocess of transformers 4.46.3 gave, and 5.12.1."""
    from transformers import AutoTokenizer

    _write(tmp_path, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama", {"clean_up_tokenization_spaces": False})
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokens = tokenizer(PROMPT, add_special_tokens=False).input_ids
    answer = [*tokenizer(ANSWER, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
    said = {
        "4.46.3": (" I don't know.", " I do n't know ."),
        "5.6.2": (" I don't know.", " I do n't know ."),
        "5.8.0": (" I do n't know .", " I do n't know ."),
        None: ("I do n't know .", "I do n't know ."),
    }
    model = SimpleNamespace(porter=SimpleNamespace(path=tmp_path, config={}, generation_json="{}"))
    for release, (cleaned, kept) in said.items():
        pipe = rt.TextGenerationPipeline(model, tokenizer, transformers=release)
        forms: list[dict[str, Any]] = [{}, {"return_full_text": False}, {"clean_up_tokenization_spaces": False}]
        texts = [pipe._record(PROMPT, tokens, answer, own)["generated_text"] for own in forms]
        assert texts == [PROMPT + cleaned, cleaned, PROMPT + kept], release


@pytest.mark.parametrize("asked", [True, False])
def test_decoded_texts_are_cleaned_as_the_checkpoint_asks(tmp_path: Path, asked: bool) -> None:
    from transformers import AutoTokenizer

    _write(tmp_path, "meta-llama/Llama-3.1-8B", "llama", {"clean_up_tokenization_spaces": asked})
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "I know ."
    ids = loaded(text, add_special_tokens=False).input_ids
    assert loaded.decode(ids) == text  # else it isn't needed any more
    for as_released in (rt.as_transformers_4, rt.as_transformers_5_0, rt.as_transformers_5_3):
        tokenizer = as_released(AutoTokenizer.from_pretrained(tmp_path))
        assert [tokenizer.decode(ids), *tokenizer.batch_decode([ids])] == ["I know." if asked else text] * 2
    tokenizer.save_pretrained(tmp_path / "saved")
    assert "for_bpe" not in (tmp_path / "saved" / "tokenizer_config.json").read_text()


def _write(folder: Path, model: str, kind: str, settings: dict[str, Any]) -> None:
    from porter.validate.stand_ins.models.stand_in_tokenizer import write_tokenizer
    from porter.validate.stand_ins.models.stand_in_tokens import tokens_of

    write_tokenizer(folder, tokens_of("llama3" if kind == "llama" else kind, model), None)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    file = folder / "tokenizer_config.json"
    config = {
        key: value for key, value in json.loads(file.read_text()).items() if key not in ("legacy", "padding_side")
    }
    file.write_text(json.dumps(config | settings))


def _read(pieces: list[str]) -> str:
    """The pieces one after another, bytes as what they are."""
    return "".join(chr(int(piece[3:5], 16)) if piece.startswith("<0x") else piece for piece in pieces)
