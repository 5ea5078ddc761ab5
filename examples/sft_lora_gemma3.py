"""Fine-tune Gemma 3 on Verilog with LoRA (2 GPUs, FSDP)."""
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "google/gemma-3-4b-it"


def to_messages(row):
    """Train on the final answer only; the reasoning is stripped."""
    answer = row["response"].split("</think>")[-1].strip()
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16, attn_implementation="eager")
dataset = load_dataset("json", data_files="codev.jsonl", split="train").select(range(10_000))
dataset = dataset.map(to_messages, remove_columns=dataset.column_names)

args = SFTConfig(
    output_dir="out",
    num_train_epochs=1,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=8,
    learning_rate=1e-4,
    lr_scheduler_type="cosine",
    warmup_steps=100,
    weight_decay=0.001,
    max_length=3072,
    assistant_only_loss=True,
    gradient_checkpointing=True,
    logging_steps=10,
    save_steps=100,
    save_total_limit=3,
    report_to="tensorboard",
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(
        r=64,
        lora_alpha=64,
        target_modules=r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$",
    ),
)
trainer.train()
trainer.save_model("out/adapter")
