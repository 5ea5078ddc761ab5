"""LoRA rules that stand where the model is known: behind the config's own statement, whose heading goes along."""

import pytest

from ..engine.porting import port

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

name = input()
model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")

# ---
# Adapters
# ---
lora = LoraConfig(r=16, target_modules=["q_proj"])

BETWEENmodel = get_peft_model(model, lora)
rows = load_dataset("x", split="train")
tokenizer = AutoTokenizer.from_pretrained(name)
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


@pytest.mark.parametrize("between", ["", "print(name)\n"])
def test_the_heading_of_a_config_goes_with_its_rules(between: str) -> None:
    after = port(SCRIPT.replace("BETWEEN", between)).after
    assert f"\n\n{between}# ---\n# Adapters\n# ---\nlora = rt.LoraProvider(" in after


OF_THE_TRAINER = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

name = input()

# Step 2: adapters,
# as in the paper
lora = LoraConfig(r=16, target_modules=["q_proj"])

BETWEENrows = load_dataset("x", split="train")
trainer = SFTTrainer(name, args=SFTConfig("out"), train_dataset=rows, peft_config=lora)
trainer.train()
"""


@pytest.mark.parametrize("between", ["", "# Step 3: the rows\nprint(name)\n"])
def test_the_heading_of_the_trainers_config_stands_above_its_rules(between: str) -> None:
    """It stood above the rows, behind the next step's."""
    after = port(OF_THE_TRAINER.replace("BETWEEN", between)).after
    assert ")\n# Step 2: adapters,\n# as in the paper\nlora = rt.LoraProvider(" in after
    assert after.count("Step 2") == 1 and after.index("Step 2") > after.index("batches = rt.SFTBatches(")
