"""Fine-tune Qwen3 with QLoRA; every setting says why."""
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"

tokenizer = AutoTokenizer.from_pretrained(MODEL)
# The base, frozen
model = AutoModelForCausalLM.from_pretrained(
    MODEL,  # the small one
    quantization_config=BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",  # normal float
        bnb_4bit_use_double_quant=True,  # saves another half a bit
    ),
    dtype=torch.bfloat16,  # Ampere and later
    device_map="auto",  # all GPUs
)
dataset = load_dataset("trl-lib/Capybara", split="train")

# Adapters as in the QLoRA paper
peft_config = LoraConfig(
    r=64,  # paper value
    lora_alpha=16,
    # every linear layer of a block
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    lora_dropout=0.05,  # a little
    bias="none",  # PEFT's default
    task_type="CAUSAL_LM",
)

training_args = SFTConfig(
    output_dir="out",  # on the big disk

    # How long and how large
    num_train_epochs=1,  # one is enough
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,  # 16 rows a step

    # Optimizer
    optim="adamw_torch_fused",
    learning_rate=2e-4,  # paper value
    lr_scheduler_type="constant_with_warmup",
    warmup_ratio=0.03,  # QLoRA: 3 %
    max_grad_norm=0.3,  # QLoRA
    # adam_beta2=0.999,

    # ---- Memory ----
    gradient_checkpointing=True,  # trades time for memory
    bf16=True,  # Ampere and later

    # Where it is saved and how it reports
    save_steps=100,  # every quarter of an hour
    save_total_limit=2,
    # all of it in one place
    report_to="tensorboard",
    **{
        "logging_steps": 10,  # often enough
        # cut what is longer; the longest tenth of the rows
        "max_length": 2048,
    },
)
trainer = SFTTrainer(
    model,
    args=training_args,
    train_dataset=dataset,  # all of it
    processing_class=tokenizer,
    peft_config=peft_config,  # the trainer puts them in
)
trainer.train()
trainer.save_model()  # the adapter alone
