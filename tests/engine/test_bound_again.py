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


BEHIND = """from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows{more})
trainer.train()
model = get_peft_model(model, LoraConfig.from_pretrained("out"))
"""


def test_adapters_put_in_behind_the_training_are_not_its_own() -> None:
    found = port(BEHIND.format(more=", peft_config=LoraConfig(r=64, target_modules=['q_proj'])"))
    assert "rank=64" in found.after and "rt.apply_lora(model, lora, mesh, seed=42" in found.after
    assert [finding.rule for finding in found.findings if "behind the training" in finding.message] == ["TP202"]
    whole = port(BEHIND.format(more=""))
    assert "apply_lora" not in whole.after and "rt.apply_peft(" not in whole.after


FORMATTED = """from datasets import load_dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer, setup_chat_format
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model, tokenizer = setup_chat_format(model, tokenizer)
trainer = SFTTrainer(model=model, args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"),
    processing_class=tokenizer, peft_config=LoraConfig(task_type="CAUSAL_LM"))
trainer.train()
trainer.save_model("adapter")
del trainer, model
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
"""


def test_a_model_loaded_again_for_the_chat_format_is_tunixs() -> None:
    """rt.setup_chat_format was handed torch's model. The TRL that has it loads float32 where nothing names a type."""
    lines = "model, tokenizer = setup_chat_format(model, tokenizer)\n"
    lines += "model = PeftModel.from_pretrained(model, 'adapter').merge_and_unload()\nmodel.push_to_hub('me/x')\n"
    found = port(FORMATTED + lines)
    assert found.after.endswith(
        'model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.float32)\n'
        "model, tokenizer = rt.setup_chat_format(model, tokenizer)\n"
        "model = rt.merge_and_unload(rt.apply_adapter(model, 'adapter', mesh))\nmodel.push_to_hub('me/x')\n"
    )


def test_a_torch_model_is_given_no_chat_format_of_the_runtime() -> None:
    found = port(FORMATTED + "model, tokenizer = setup_chat_format(model=model, tokenizer=tokenizer)\nprint(model.x)\n")
    assert found.status == "partial" and found.after.count("rt.setup_chat_format(") == 1
    assert [each.rule for each in found.findings if "leaves to torch" in each.message] == ["TP126"]


ASKED = """other = "Qwen/Qwen3-4B"
model = AutoModelForCausalLM.from_pretrained(other)
def ask(text):
    return model.generate(**tokenizer(text, return_tensors="pt"))
print(ask("Hello"))
"""


def test_a_function_called_before_the_model_is_made_has_what_held_its_name_then() -> None:
    text = TRAINING.format(before="").replace("model = AutoModel", f"{ASKED}model = AutoModel", 1)
    ported = port(text)
    assert ported.status == "ported" and "return model.generate(**" in ported.after
    foreign = text.replace("AutoModelForCausalLM.from_pretrained(other)", "OtherModel(other)")
    foreign = foreign.replace("model.generate(", "model.generate_content(")
    assert port(foreign).status == "ported"
    for asked in ("print(ask(text))", "print(ask(text), model.generate_content(text))"):
        again = foreign.replace('print(ask("Hello"))', f"for text in ['a', 'b']:\n    {asked}")
        assert port(again).status == "ported"
    behind = text.replace(ASKED, "").replace("trainer.train()", "trainer.train()" + ASKED[ASKED.index("\ndef") :])
    assert "return rt.generate(model, **" in port(behind).after
