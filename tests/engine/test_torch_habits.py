"""What scripts do to a torch model around training, because a notebook did: each goes or has its counterpart."""

import pytest

from .porting import check_becomes, errors, port

HEAD = """from datasets import load_dataset
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
import torch
"""
LOAD = """model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", dtype="bfloat16")
"""
WRAP = """model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
"""
TRAIN = """trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
)
"""
LAST = "trainer.train()\n"


def test_what_accelerate_prepares_stays_what_it_is() -> None:
    prepared = """accelerator = Accelerator()
model = accelerator.prepare_model(model)
model, tokenizer = accelerator.prepare(model, tokenizer)
"""
    tokenizer = "tokenizer = AutoTokenizer.from_pretrained('meta-llama/Llama-2-7b-hf')\n"
    again = "trainer = accelerator.prepare(trainer)\n"
    check_becomes(
        HEAD + tokenizer + LOAD + WRAP + prepared + TRAIN + again + LAST, gone=("accelerator", "model = model")
    )
    body = "".join(f"    {line}\n" for line in (LOAD + WRAP).splitlines())
    made = f"def make():\n{body}    return model\nmodel = make()\n"
    check_becomes(HEAD + tokenizer + made + prepared + TRAIN + again + LAST, "rt.apply_lora", gone=("accelerator",))


def test_a_name_that_holds_the_models_id_first() -> None:
    named = """model = "meta-llama/Llama-2-7b-hf"
tokenizer = AutoTokenizer.from_pretrained(model, use_fast=True)
model = AutoModelForCausalLM.from_pretrained(model, dtype="bfloat16")
"""
    check_becomes(HEAD + named + WRAP + TRAIN + LAST, "tokenizer = AutoTokenizer.from_pretrained(model, use_fast=True)")


def test_peft_models_that_trl_warned_of() -> None:
    quiet = 'model.warnings_issued = {}\nmodel.warnings_issued["estimate_tokens"] = True\n'
    check_becomes(HEAD + LOAD + WRAP + quiet + TRAIN + LAST, gone=("warnings_issued",))


def test_a_tokenizer_that_is_only_kept_on_the_model_goes() -> None:
    kept = "tokenizer = AutoTokenizer.from_pretrained('meta-llama/Llama-2-7b-hf')\nmodel.tokenizer = tokenizer\n"
    check_becomes(HEAD + LOAD + WRAP + kept + TRAIN + LAST, gone=("model.tokenizer",))
    read = port(HEAD + LOAD + WRAP + kept + TRAIN + LAST + "print(model.tokenizer.vocab_size)\n")
    assert read.status == "partial" and "model.tokenizer" in str(read.findings)


def test_both_counts_of_peft() -> None:
    counted = "trained, whole = model.get_nb_trainable_parameters()\nprint(model.get_nb_trainable_parameters()[0])\n"
    both = "rt.count_parameters(model, trainable=True), rt.count_parameters(model)"
    check_becomes(
        HEAD + LOAD + WRAP + counted + TRAIN + LAST,
        f"trained, whole = {both}\n",
        f"print(({both})[0])\n",
        gone=(".get_nb",),
    )


def test_the_state_may_be_asked_for() -> None:
    asked = """if hasattr(trainer, "state") and trainer.state is not None and hasattr(trainer.state, "log_history"):
    print(trainer.state.log_history)
"""
    check_becomes(
        HEAD + LOAD + WRAP + TRAIN + LAST + asked,
        'if hasattr(trainer.training_hooks, "state") and trainer.training_hooks.state is not None',
        'hasattr(trainer.training_hooks.state, "log_history")',
    )


def test_the_state_may_be_asked_for_with_a_default() -> None:
    asked = 'for line in getattr(getattr(trainer, "state", None), "log_history", []) or []:\n    print(line)\n'
    ported = port(HEAD + LOAD + WRAP + TRAIN + LAST + asked)
    assert ported.status == "ported", ported.findings
    assert 'getattr(getattr(trainer.training_hooks, "state", None), "log_history", [])' in ported.after


@pytest.mark.parametrize(
    ("lines", "goes"),
    [
        ("{train}trainer.optimizer = None\n", True),
        ("trainer.optimizer = None\n{train}", False),
        ("{train}trainer.optimizer = other\n", False),
        ("for _ in range(2):\n    {train}    trainer.optimizer = None\n", False),
    ],
)
def test_an_optimizer_that_is_let_go_behind_the_training(lines: str, goes: bool) -> None:
    """In front of it None asks the Trainer for a new one."""
    ported = port(HEAD + LOAD + WRAP + TRAIN + lines.format(train="trainer.train()\n"))
    assert any("trainer.optimizer" in error for error in errors(ported)) is not goes
    assert ("trainer.optimizer = " in ported.after) is not goes  # nothing of the port reads it


def test_an_attribute_asked_for_without_its_name_is_no_crash() -> None:
    assert "print(hasattr(trainer))" in port(HEAD + LOAD + WRAP + TRAIN + LAST + "print(hasattr(trainer))\n").after


def test_the_configuration_is_saved_with_the_weights() -> None:
    saved = """trainer.save_model("out")
trainer.model.config.use_cache = True
trainer.model.config.save_pretrained("out")
"""
    check_becomes(HEAD + LOAD + WRAP + TRAIN + LAST + saved, gone=(".config.",))


NORMS = """for name, module in {}.named_modules():
    if "norm" in name:
        module = module.to(torch.float32)
"""


def test_norms_are_cast_to_float32() -> None:
    check_becomes(HEAD + LOAD + WRAP + TRAIN + NORMS.format("trainer.model") + LAST, gone=("named_modules", "torch."))
    check_becomes(HEAD + LOAD + WRAP + NORMS.format("model") + TRAIN + LAST, gone=("named_modules", "torch."))
    whole = port(HEAD + LOAD + NORMS.format("model") + TRAIN + LAST)  # there the norms are trained, in float32
    assert whole.status == "partial" and "named_modules" in whole.after


def test_casts_that_do_more_stay() -> None:
    counted = NORMS.format("model") + "        count += 1\n"
    assert "named_modules" in port(HEAD + LOAD + WRAP + "count = 0\n" + counted + TRAIN + LAST).after
    freezes = """for parameter in model.parameters():
    parameter.requires_grad = False
    parameter.data = parameter.data.float()
"""
    assert "parameters()" in port(HEAD + LOAD + WRAP + freezes + TRAIN + LAST).after  # it freezes the adapters
    check_becomes(HEAD + LOAD + freezes + WRAP + TRAIN + LAST, gone=("parameters()",))


def test_a_head_that_casts_its_logits() -> None:
    head = """class CastOutputToFloat(torch.nn.Sequential):
    def forward(self, x): return super().forward(x).to(torch.float32)
model.lm_head = CastOutputToFloat(model.lm_head)
"""
    check_becomes(HEAD + LOAD + head + WRAP + TRAIN + LAST, gone=("lm_head", "CastOutputToFloat"))
    scaled = head.replace("super().forward(x)", "(2 * super().forward(x))")
    assert "CastOutputToFloat(model.lm_head)" in port(HEAD + LOAD + scaled + WRAP + TRAIN + LAST).after


def test_adapters_cast_to_16_bits_are_named() -> None:
    cast = """for name, module in model.named_modules():
    if isinstance(module, torch.nn.Linear):
        module = module.to(torch.bfloat16)
"""
    found = port(HEAD + LOAD + WRAP + cast + TRAIN + LAST)
    assert any("casts layers to 16 bits" in finding.message for finding in found.recipe.findings)


def test_unsloth_hands_on_keywords() -> None:
    text = (
        """from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False, cache_dir="hub")
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"], use_dora={dora})
"""
        + TRAIN
        + LAST
    )
    check_becomes(text.format(dora=False), gone=("dora", "cache_dir"))
    refused = port(text.format(dora=True))
    assert any("use_dora" in f.message and f.severity == "error" for f in refused.recipe.findings)


def test_rewards_that_lead_back_to_themselves() -> None:
    text = """from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
def length(completions, **kwargs):
    return [float(len(text)) for text in completions]
rewards = length
if not isinstance(rewards, list):
    rewards = [rewards]
trainer = GRPOTrainer("meta-llama/Llama-2-7b-hf", reward_funcs=rewards, args=GRPOConfig("out"),
    train_dataset=load_dataset("some/rows", split="train"))
trainer.train()
"""
    check_becomes(text, "reward")


def test_an_adapter_put_on_the_trained_model_is_no_other_start() -> None:
    again = "from peft import PeftModel\ntuned = PeftModel.from_pretrained(model, 'out')\n"
    behind = port(HEAD + LOAD + WRAP + TRAIN + LAST + again).recipe.findings
    assert any("has the adapters that it was trained with" in finding.message for finding in behind)
    before = port(HEAD + LOAD + again + WRAP + TRAIN + LAST).recipe.findings
    assert any("trains the model without this adapter" in finding.message for finding in before)


def test_an_optimizer_that_is_no_more_was_known_to_its_release() -> None:
    old = TRAIN.replace("SFTConfig(", 'TrainingArguments(optim="adamw_hf", output_dir=').replace("max_steps=5, ", "")
    text = HEAD.replace("SFTConfig, ", "") + "from transformers import TrainingArguments\n" + LOAD + old + LAST
    found = port(text)
    row = next(row for row in found.recipe.fields if row.source.endswith(".optim"))
    assert row.fate == "exact" and "rt.adamw_hf(" in found.after


def test_the_default_optimizer_of_an_old_release_is_its_own_adamw() -> None:
    old = TRAIN.replace("SFTConfig(", "TrainingArguments(output_dir=").replace("max_steps=5, ", "")
    text = HEAD.replace("SFTConfig, ", "") + "from transformers import TrainingArguments\n" + LOAD + old + LAST
    for version, made in (("4.31.0", "rt.adamw_hf("), ("4.33.3", "optax.adamw(")):
        found = port(
            f"# /// script\n# dependencies = ['transformers=={version}']\n# ///\n{text}".replace(
                " dtype=", " torch_dtype="
            )
        )
        assert made in found.after, version


def test_a_port_that_still_imports_trl_is_left_to_a_person() -> None:
    lines = "import inspect\nfrom datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n"
    lines += "known = inspect.signature(SFTTrainer.__init__).parameters\nprint(list(known))\n"
    lines += 'rows = load_dataset("x")["train"]\n'
    lines += 'trainer = SFTTrainer("meta-llama/Llama-2-7b-hf", args=SFTConfig("out"), train_dataset=rows)\n'
    ported = port(lines + "trainer.train()\n")
    assert ported.status == "partial" and "# TODO(tpu-port TP001): trl is still used here" in ported.after
