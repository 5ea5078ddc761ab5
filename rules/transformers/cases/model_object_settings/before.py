from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    "google/gemma-2-2b-it",
    revision="main",
    attn_implementation="eager",
    device_map={"": 0},
    low_cpu_mem_usage=True,
    use_cache=False,
)
model.gradient_checkpointing_enable()
model.enable_input_require_grads()
model.config.pretraining_tp = 1
tokenizer = AutoTokenizer.from_pretrained("google/gemma-2-2b-it")
print(model.config.hidden_size)
model.resize_token_embeddings(len(tokenizer))
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=10, gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
