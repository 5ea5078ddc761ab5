"""Fine-tune Qwen3 on a Verilog question set with LoRA."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"


def to_messages(row):
    """Train on the final answer only; the reasoning is stripped."""
    answer = row["response"].split("</think>")[-1].strip()
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
dataset = load_dataset("zhuyaoyu/CodeV-R1-dataset", split="train").map(to_messages, remove_columns=["prompt", "response"])

args = SFTConfig(
    output_dir="out",
    max_steps=60,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=2e-3,
    lr_scheduler_type="cosine",
    warmup_steps=5,
    weight_decay=0.01,
    max_length=128,
    assistant_only_loss=True,
    logging_steps=10,
    report_to="tensorboard",
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out/adapter")
