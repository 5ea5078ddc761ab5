"""A name that is bound again behind the training, and assignments to several targets."""

from .porting import port

TRAINING = """from datasets import load_dataset
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
{before}trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model("out/adapter")
"""
AGAIN = """model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").eval()
model = PeftModel.from_pretrained(model, "out/adapter")
print(model.generate(**tokenizer("Hello", return_tensors="pt")))
"""


LOADED = """model = rt.load_model("Qwen/Qwen3-0.6B", mesh)
model = rt.apply_adapter(model, "out/adapter", mesh)
print(rt.generate(model, **tokenizer("Hello", return_tensors="np")))
"""


def test_a_model_loaded_again_behind_the_training_is_not_the_trained_one() -> None:
    ported = port(TRAINING.format(before="") + AGAIN)
    assert ported.status == "ported", ported.findings
    assert ported.after.endswith(LOADED)
    other = port(
        TRAINING.format(before="") + AGAIN + "print(model.peft_config)\n"
    )  # torch's, where more is asked of it
    assert other.after.endswith(AGAIN + "print(model.peft_config)\n")
    assert "rt.apply_lora(model, lora, mesh, seed=42" in ported.after


def test_in_a_loop_what_is_bound_later_holds_as_well() -> None:
    lines = (TRAINING.format(before="") + "model = other(model)\n").splitlines()
    looped = "\n".join([*lines[:6], "for fold in range(2):", *(f"    {line}" for line in lines[6:])])
    assert port(looped).status == "partial"


def test_one_of_several_targets_goes() -> None:
    both = "model.config.pad_token_id = tokenizer.pad_token_id = 0  # unknown\n"
    ported = port(TRAINING.format(before=both))
    assert ported.status == "ported"
    assert "\ntokenizer.pad_token_id = 0  # unknown\n" in ported.after
    last = port(TRAINING.format(before="tokenizer.pad_token_id = model.config.pad_token_id = 0\n"))
    assert "\ntokenizer.pad_token_id = 0\n" in last.after


def test_filling_the_adapters_gives_the_model_back() -> None:
    filled = "model = set_peft_model_state_dict(model, weights)\n"
    ported = port(TRAINING.format(before=f"weights = load_weights()\n{filled}"))
    assert ported.status == "ported"
    assert "model = rt.load_adapter(model, weights)" in ported.after
