"""Adapters put into the trained model's base once more: PEFT replaces those that were trained."""

import pytest

from .porting import port, sft_script

IMPORTS = "from peft import LoraConfig, PeftModel, get_peft_model"
TRAINER = ', peft_config=LoraConfig(r=8, target_modules=["q_proj"])'
USES = "ids = tokenizer('a', return_tensors='pt')\nprint(tuned.generate(**ids))\ntuned.push_to_hub('me/x')\n"


def behind(lines: str, between: str = "", trainer: str = TRAINER) -> tuple[str, str, list[str]]:
    """The port of a script that trains adapters, saves them and runs `lines`: status, text and what TP202 warns of."""
    after = f"trainer.train()\ntrainer.model.save_pretrained('out')\n{lines}\n{USES}"
    found = port(
        sft_script(
            "tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')",
            imports=IMPORTS,
            between=between,
            trainer=trainer,
            after=after,
        )
    )
    said = [f.message for f in found.findings if f.rule == "TP202" and f.severity == "warning"]
    return found.status, found.after, said


@pytest.mark.parametrize("config", ["config = LoraConfig.from_pretrained('out')\n", ""])
def test_new_ones_take_the_place_of_the_trained_and_that_is_said(config: str) -> None:
    given = "config" if config else "LoraConfig.from_pretrained('out')"
    status, after, said = behind(f"{config}tuned = get_peft_model(model, {given})")
    assert status == "ported" and "tuned = rt.renew_adapters(model, seed=42)\n" in after
    assert (
        "rt.generate(model, " in after
        and "rt.push_to_hub(model, 'me/x')" in after
        and "from_pretrained('out')" not in after
    )
    assert len(said) == 1 and "is the base model" in said[0]


def test_those_of_a_folder_take_their_place() -> None:
    status, after, said = behind("tuned = PeftModel.from_pretrained(model, 'out/best')")
    assert status == "ported" and "tuned = rt.load_adapter(model, 'out/best')\n" in after and not said
    assert "rt.generate(model, " in after and "rt.push_to_hub(model, 'me/x')" in after and "peft import" not in after


@pytest.mark.parametrize("where", ["trainer.train()\n", "trainer.train()\nif rows:\n    "])
def test_they_are_merged_on_the_spot(where: str) -> None:
    merged = "whole = PeftModel.from_pretrained(model, 'out/best').merge_and_unload()"
    lora = ', peft_config=LoraConfig(r=8, target_modules=["q_proj"])'
    found = port(sft_script(imports=IMPORTS, before="rows = [1]", trainer=lora, after=f"{where}{merged}"))
    assert found.status == "ported" and "PeftModel" not in found.after
    assert "whole = rt.merge_and_unload(rt.load_adapter(model, 'out/best'))" in found.after


def test_the_base_and_the_model_have_names_of_their_own() -> None:
    between = 'adapted = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"]))'
    script = sft_script(
        imports=IMPORTS, between=between, after="trainer.train()\ntuned = PeftModel.from_pretrained(model, 'out/best')"
    ).replace("SFTTrainer(\n    model,", "SFTTrainer(\n    adapted,")
    found = port(f"{script}\ntuned.save_pretrained('last')\n")
    assert found.status == "ported" and "tuned = rt.load_adapter(adapted, 'out/best')\n" in found.after
    assert "rt.save_adapter(adapted, 'last')" in found.after


@pytest.mark.parametrize(
    "lines",
    [
        "tuned = PeftModel.from_pretrained(trainer.model, 'out/best')",  # PEFT nests these: its names don't fit
        "tuned = PeftModel.from_pretrained(model, 'out/best', adapter_name='second')",
        "for name in ('a', 'b'):\n    tuned = PeftModel.from_pretrained(model, name)",
    ],
)
def test_what_does_something_else_is_an_error(lines: str) -> None:
    status, after, _ = behind(lines)
    assert status == "partial" and "rt.load_adapter" not in after


def test_in_front_of_the_training_they_are_its_own() -> None:
    found = port(
        sft_script(imports=IMPORTS, between="model = PeftModel.from_pretrained(model, 'a', is_trainable=True)")
    )
    assert "rt.apply_adapter(model, 'a', mesh" in found.after


@pytest.mark.parametrize("name", ["train", "fit"])
def test_a_method_that_is_called_train_comes_to_its_trainer_once(name: str) -> None:
    text = f"""\
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


class Tuner:
    def load(self):
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def {name}(self):
        rows = load_dataset("x", split="train")
        trainer = SFTTrainer(model=self.model, args=SFTConfig("out"), train_dataset=rows{TRAINER})
        trainer.train()


tuner = Tuner()
tuner.load()
tuner.{name}()
"""
    found = port(text)
    assert found.status == "ported", found.findings
