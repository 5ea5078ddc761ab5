"""The set of releases that a script gets."""

from __future__ import annotations

import pytest

from porter.releases.history import history
from porter.releases.sets import release_set
from porter.releases.versions import fits

OLD_SFT = (
    "from trl import SFTTrainer\n"
    "if __name__ == '__main__':\n    SFTTrainer(model=m, tokenizer=t, max_seq_length=512, dataset_text_field='text')\n"
)


def versions(text: str, **pins: str) -> dict[str, str]:
    return {library: chosen.version for library, chosen in release_set(text, pins).items()}


def test_nothing_dates_it() -> None:
    found = release_set("from trl import SFTTrainer\nSFTTrainer(model=m)\n")
    assert {library: chosen.version for library, chosen in found.items()} == {
        library: history().releases(library)[-1] for library in found
    }
    assert all(not chosen.contradictions for chosen in found.values())


def test_a_keyword_dates_it_and_metadata_chooses_what_goes_with_it() -> None:
    """TRL 0.12.2 itself asks for transformers < 4.47."""
    found = release_set(OLD_SFT)
    assert (found["trl"].version, found["transformers"].version) == ("0.12.2", "4.46.3")
    assert "max_seq_length" in found["trl"].why or "dataset_text_field" in found["trl"].why
    assert "line 3" in found["trl"].why


def test_a_pin_is_kept_and_the_rest_is_of_its_day() -> None:
    found = versions(OLD_SFT, trl="==0.8.6")
    assert found["trl"] == "0.8.6"
    assert fits(found["transformers"], ">=", "4.40") and fits(found["transformers"], "<", "4.42")
    assert fits(found["peft"], "<=", "0.11.1") and fits(found["accelerate"], "<", "0.31")


def test_a_pin_on_transformers_dates_trl() -> None:
    found = versions(OLD_SFT, transformers="==4.40.2")
    assert found["transformers"] == "4.40.2"
    assert found["trl"] == "0.8.6"


def test_pins_that_contradict_the_script_are_kept_and_said() -> None:
    found = release_set(OLD_SFT, {"trl": "==1.16.0"})["trl"]
    assert found.version == "1.16.0"
    assert any("SFTTrainer(max_seq_length=) (gone in 0.13.0)" in said for said in found.contradictions)


def test_pins_against_trls_own_requirements_are_said() -> None:
    found = release_set(OLD_SFT, {"trl": "==0.12.1", "transformers": "==4.40.2"})["transformers"]
    assert found.version == "4.40.2"
    assert any("asks for transformers" in said for said in found.contradictions)


def test_a_keyword_of_transformers_dates_both() -> None:
    text = "from trl import DPOConfig, DPOTrainer\nDPOTrainer(model=m, args=DPOConfig(evaluation_strategy='no'))\n"
    found = release_set(text)
    assert found["transformers"].version == "4.50.3"
    assert "evaluation_strategy" in found["transformers"].why
    assert history().date("trl", found["trl"].version) < history().date("transformers", "4.52.1")


def test_a_script_without_trl_is_led_by_transformers() -> None:
    found = release_set("from transformers import Trainer\nTrainer(model=m, tokenizer=t)\n")
    assert found["transformers"].version == "4.57.6"
    assert "Trainer(tokenizer=)" in found["transformers"].why


def test_a_keyword_that_only_warns_dates_to_before() -> None:
    text = "from trl import GRPOConfig\nGRPOConfig(max_prompt_length=512)\n"
    assert versions(text)["trl"] == "0.25.1"


def test_peft_by_its_own_evidence() -> None:
    text = "from peft import LoraConfig, prepare_model_for_int8_training\nfrom transformers import Trainer\nTrainer()\n"
    assert versions(text)["peft"] == "0.9.0"


def test_a_withdrawn_release_is_read_as_its_neighbour() -> None:
    found = release_set(OLD_SFT, {"transformers": "==4.46.0"})["transformers"]
    assert found.version == "4.46.1"
    assert "withdrawn" in found.why


def test_nothing_of_one_day_takes_the_nearest() -> None:
    """transformers 4.31 is older than the first recorded TRL; 0.12.2's metadata has no lower bound."""
    assert versions("from trl import DPOTrainer\n", transformers="==4.31.0")["trl"] == "0.7.1"


def test_a_pin_that_no_release_is() -> None:
    with pytest.raises(ValueError, match=r"trl==0\.99: no release between 0\.7\.0 and 1\.16\.0"):
        release_set(OLD_SFT, {"trl": "==0.99"})


@pytest.mark.parametrize(
    ("release", "sign", "version", "expected"),
    [
        ("0.8.6", "==", "0.8.*", True),
        ("0.8.6", "==", "0.8", False),
        ("0.8.0", "==", "0.8", True),
        ("0.9.2", "~=", "0.8.3", False),
        ("0.9.2", "~=", "0.8", True),
        ("4.46.3", "<", "4.47.0", True),
        ("5.1.0", "!=", "5.1.0", False),
        ("0.11.4", "!=", "0.11.*", False),
    ],
)
def test_bounds(release: str, sign: str, version: str, expected: bool) -> None:
    assert fits(release, sign, version) is expected


@pytest.mark.parametrize(
    ("keyword", "least"), [("attn_implementation", "4.36.0"), ("use_flash_attention_2", "4.34.0"), ("dtype", "4.56.0")]
)
def test_what_loads_a_model_needs_a_release_that_knows_its_keyword(keyword: str, least: str) -> None:
    """from_pretrained takes any keyword and hands on what it doesn't know: the model's class ends with a TypeError."""
    text = f"from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_pretrained('x', {keyword}=1)\n"
    assert release_set(text, {"trl": "==0.7.1"})["transformers"].version == least
    assert release_set(text, {"transformers": "==4.31.0"})["transformers"].contradictions


def test_peft_is_of_the_day_of_a_pinned_accelerate() -> None:
    """Newer ones import what it doesn't have yet."""
    chosen = release_set("import peft", {"transformers": "==4.37.2", "accelerate": "==0.24.1"})
    assert (chosen["accelerate"].version, chosen["peft"].version) == ("0.24.1", "0.6.2")
