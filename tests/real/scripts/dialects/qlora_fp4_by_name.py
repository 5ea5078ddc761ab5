"""A model by its name, quantised through model_init_kwargs in bitsandbytes' default format."""

from datasets import Dataset
from peft import LoraConfig
from transformers import BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

turns = [
    {
        "messages": [
            {"role": "user", "content": f"Name number {n}."},
            {"role": "assistant", "content": f"It is the number {n}, which follows {n - 1}."},
        ]
    }
    for n in range(32)
]
training_args = SFTConfig(
    output_dir="outputs",
    model_init_kwargs={"quantization_config": BitsAndBytesConfig(load_in_4bit=True), "dtype": "bfloat16"},
    per_device_train_batch_size=8,
    max_steps=6,
    learning_rate=1e-3,
    logging_steps=1,
    optim="paged_adamw_32bit",
    save_strategy="no",
)
trainer = SFTTrainer(
    "google/gemma-2-2b-it",
    args=training_args,
    train_dataset=Dataset.from_list(turns),
    peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "down_proj"]),
)
trainer.train()
