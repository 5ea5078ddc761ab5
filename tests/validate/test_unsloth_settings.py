"""What Unsloth's preference trainers take: fields of their config as keywords, which TRL has lost."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_settings_given_to_a_trainer_are_its_configs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import transformers
    import trl

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import taking_settings

    found: dict[str, Any] = {}

    def init(self: Any, model: Any = None, args: Any = None, processing_class: Any = None) -> None:
        found.update(args=args, processing_class=processing_class)

    made = taking_settings(init, "DPOConfig")
    config = trl.DPOConfig(str(tmp_path), learning_rate=3e-6, bf16=False)
    made(None, args=config, beta=0.3, max_length=77, tokenizer="words")
    assert found["args"] is config and (config.beta, config.max_length, found["processing_class"]) == (0.3, 77, "words")
    plain = transformers.TrainingArguments(str(tmp_path), learning_rate=4e-6, bf16=False)
    made(None, args=plain, beta=0.2)
    assert isinstance(found["args"], trl.DPOConfig) and (found["args"].beta, found["args"].learning_rate) == (0.2, 4e-6)
    with pytest.raises(TypeError, match="nonsense"):
        made(None, args=config, nonsense=1)


def test_an_older_trl_makes_its_config_of_plain_arguments(tmp_path: Any) -> None:
    """As TRL 0.24 does beside a transformers that has no push_to_hub_token."""
    import transformers
    import trl

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.newer_transformers import without_hub_token

    args = without_hub_token(transformers.TrainingArguments(str(tmp_path), bf16=False, seed=7))
    fields = args.to_dict()
    assert fields.pop("push_to_hub_token") is None and fields["seed"] == 7
    with pytest.raises(KeyError):
        fields.pop("nothing")
    config = trl.SFTConfig(str(tmp_path), bf16=False)
    assert without_hub_token(config) is config and type(config.to_dict()) is dict


def test_a_release_that_loses_keywords_beside_the_arguments_loses_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    import transformers
    import trl

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import loses_keywords

    plain = transformers.TrainingArguments(str(tmp_path), bf16=False)
    config = trl.SFTConfig(str(tmp_path), bf16=False)
    for number, (release, lost) in enumerate(
        {"2025.5.7": (False, False), "2026.6.8": (True, True), "2026.8.19": (True, False), "": (False, False)}.items()
    ):
        script = tmp_path / f"train{number}.py"
        script.write_text(f"# pip install unsloth=={release}\nimport unsloth\n" if release else "import unsloth\n")
        monkeypatch.setattr("sys.argv", [str(script)])
        assert (loses_keywords(plain), loses_keywords(config), loses_keywords(None)) == (*lost, False)


def test_the_release_that_porting_reads_stands_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A notebook's outputs name it, and the program that runs has none."""
    from porter.validate.torch_side.gpu_libraries.unsloth_parts import trl as parts

    script = tmp_path / "train.py"
    script.write_text("import unsloth\n")
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setattr(parts, "_told", "")
    parts.tell_release("2024.12.12")
    assert parts.release() == "2024.12.12"
    parts.tell_release("")
    newest = parts.release()
    assert newest != "2024.12.12"
    parts.tell_release("", "2025-02-25")  # its last commit
    assert parts.release() == "2025.2.15"
    parts.tell_release("", "2030-01-01")
    assert parts.release() == newest
    parts.tell_release("")


def test_a_collator_without_labels_is_one_that_makes_them() -> None:
    import datasets
    import tokenizers
    import transformers

    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import with_labels

    words = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()))
    words.pad_token = "[PAD]"
    given = {
        "data_collator": transformers.DataCollatorForSeq2Seq(words),
        "train_dataset": datasets.Dataset.from_list([{"input_ids": [1]}]),
    }
    made = with_labels(given, words)["data_collator"]
    assert isinstance(made, transformers.DataCollatorForLanguageModeling) and not made.mlm
    labelled = {**given, "train_dataset": datasets.Dataset.from_list([{"input_ids": [1], "labels": [1]}])}
    assert with_labels(labelled, words) is labelled
