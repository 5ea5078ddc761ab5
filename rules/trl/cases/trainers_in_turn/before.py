from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype="bfloat16")

# Stage one: general conversations.
first = SFTTrainer(
    model,
    args=SFTConfig("out/first", max_steps=5, learning_rate=1e-4, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
first.train()

# Stage two: our own, at a lower rate, evaluated on what was held out.
rows = load_dataset("json", data_files="rows.jsonl", split="train").train_test_split(0.1)
second = SFTTrainer(
    model,
    args=SFTConfig("out/second", max_steps=3, learning_rate=1e-5, eval_strategy="steps", report_to="none"),
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    processing_class=tokenizer,
)
second.train()
second.save_model("out/last")
