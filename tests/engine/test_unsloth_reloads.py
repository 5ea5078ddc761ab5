"""Unsloth's model and tokenizer loaded again behind the training, to try them out."""

import pytest

from .porting import port

SCRIPT = """\
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TextStreamer
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-3B-Instruct", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, target_modules=["q_proj", "v_proj"])
rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, train_dataset=rows, processing_class=tokenizer, args=SFTConfig(output_dir="out"))
trainer.train()
{saves}
{again}
"""
ASKS = """\
FastLanguageModel.for_inference({model})
inputs = {tokenizer}("What?", return_tensors="pt").to("cuda")
_ = {model}.generate(**inputs, streamer=TextStreamer({tokenizer}), max_new_tokens=8)"""
BASE = '"unsloth/Llama-3.2-3B-Instruct"'


@pytest.mark.parametrize(
    ("saves", "loads", "model", "tokenizer"),
    [
        ('model.save_pretrained("lora")', '"./lora", load_in_4bit=True', '"nf4"', BASE),
        ('model.save_pretrained("lora")', 'model_name="lora/", max_seq_length=512, dtype=None', '"nf4"', BASE),
        (
            'model.save_pretrained("lora")\ntokenizer.save_pretrained("lora")',
            'model_name="lora", load_in_4bit=False',
            "",
            '"lora"',
        ),
        ('model.push_to_hub("me/lora", token="hf")', '"me/lora", load_in_4bit=True', '"nf4"', BASE),
        (
            'model.push_to_hub("me/lora")\ntokenizer.push_to_hub("me/lora")',
            '"me/lora", load_in_4bit=True',
            '"nf4"',
            '"me/lora"',
        ),
        ('trainer.save_model("lora")', '"lora", load_in_8bit=True', '"int8"', '"lora"'),
    ],
)
@pytest.mark.parametrize("names", [("model", "tokenizer"), ("tuned", "words")])
def test_it_is_tunixs_with_the_tokenizer_that_unsloth_takes(
    saves: str, loads: str, model: str, tokenizer: str, names: tuple[str, str]
) -> None:
    again = f"{names[0]}, {names[1]} = FastLanguageModel.from_pretrained({loads})\n"
    found = port(SCRIPT.format(saves=saves, again=again + ASKS.format(model=names[0], tokenizer=names[1])))
    folder = loads.split(",")[0].removeprefix("model_name=")
    quantised = f", quantization={model}" if model else ""
    assert found.status == "ported" and "unsloth import" not in found.after and "for_inference" not in found.after
    assert f"\n{names[0]} = rt.load_trained({folder}, mesh, dtype=jnp.bfloat16{quantised})\n" in found.after
    line = found.after.split(f"\n{names[1]} = ")[-1].split("\n")[0]
    assert f"AutoTokenizer.from_pretrained({tokenizer})" in line
    assert f"_ = rt.generate({names[0]}, **inputs, " in found.after


@pytest.mark.parametrize(
    "again",
    [
        'pair = FastLanguageModel.from_pretrained("lora")',
        'tuned, words = FastLanguageModel.from_pretrained("lora", fast_inference=True)',
        'tuned, words = FastLanguageModel.from_pretrained("lora", load_in_4bit=len(rows) > 3)',
        'tuned, words = FastLanguageModel.from_pretrained("lora")\ntuned.half_of_it()',
    ],
)
def test_what_has_no_counterpart_is_an_error(again: str) -> None:
    found = port(SCRIPT.format(saves='model.save_pretrained("lora")', again=again))
    assert found.status == "partial" and "load_trained" not in found.after


@pytest.mark.parametrize(
    ("readied", "asks"),
    [
        ("tuned = FastLanguageModel.for_inference(tuned)", "tuned"),
        ("ready = FastLanguageModel.for_inference(tuned)", "ready"),
    ],
)
def test_what_makes_it_ready_gives_it_back(readied: str, asks: str) -> None:
    again = f'tuned, words = FastLanguageModel.from_pretrained("lora")\n{readied}\n'
    again += f'print({asks}.generate(**words("What?", return_tensors="pt")))'
    found = port(SCRIPT.format(saves='model.save_pretrained("lora")', again=again))
    assert found.status == "ported" and "for_inference" not in found.after and "import unsloth" not in found.after
    assert f"rt.generate({asks}, **words(" in found.after and ("ready = tuned\n" in found.after) == (asks == "ready")


def test_the_trained_model_made_ready_under_another_name() -> None:
    asks = (
        'ready = FastLanguageModel.for_inference(model)\nprint(ready.generate(**tokenizer("a", return_tensors="pt")))'
    )
    found = port(SCRIPT.format(saves="", again=asks))
    assert found.status == "ported" and "ready = model\n" in found.after and "rt.generate(ready, " in found.after


def test_what_is_merged_into_four_bits_and_saved_is_said() -> None:
    again = """\
from peft import PeftModel
base, words = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-3B-Instruct", load_in_4bit=BITS)
whole = PeftModel.from_pretrained(base, "lora").merge_and_unload()
whole.save_pretrained("whole")"""
    text = SCRIPT.format(saves='model.save_pretrained("lora")', again=again)
    for bits, said in (("True", 1), ("False", 0)):
        found = port(text.replace("BITS", bits))
        assert found.status == "ported" and "whole = rt.merge_and_unload(rt.apply_adapter(base, " in found.after
        assert len([f for f in found.findings if "rounds what it merges" in f.message]) == said


@pytest.mark.parametrize(
    ("reads", "goes"),
    [
        ("END = pieces.eos_token", True),
        ("def text(row):\n    return pieces.apply_chat_template(row, tokenize=False)", True),
        ("END = pieces.pad_token", False),  # Unsloth gives it another
        ("ids = pieces('a', padding=True)", False),
        ("END = pieces.eos_token\nprint(other)", False),
    ],
)
def test_a_pair_of_which_the_tokenizer_alone_is_used(reads: str, goes: bool) -> None:
    """`unsloth is still used here` was said of it."""
    load = f'NAME = "unsloth/Llama-3.2-3B-Instruct"\nother, pieces = FastLanguageModel.from_pretrained(NAME)\n{reads}\n'
    script = SCRIPT.format(saves="", again="")
    ported = port(script.replace("model, tokenizer", f"{load}model, tokenizer", 1))
    kept = "other, pieces = FastLanguageModel.from_pretrained(NAME)" in ported.after
    assert (kept, ported.status) == ((False, "ported") if goes else (True, "partial"))
    assert ("pieces = rt.as_transformers" in ported.after or "pieces = AutoTokenizer" in ported.after) == goes
    assert any("loads the tokenizer alone" in finding.message for finding in ported.findings) == goes
