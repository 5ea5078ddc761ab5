"""DataCollatorForLanguageModeling with the end token as padding, which leaves every end token untrained."""

from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


class FineTuner:
    """All of it in one class."""

    def __init__(self, model_name: str = "Qwen/Qwen3-0.6B"):
        self.tokenizer = AutoTokenizer.from_pretrained(model_name)
        self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model_name = model_name

    def tokenize(self, row):
        return self.tokenizer(row["instruction"] + row["output"] + self.tokenizer.eos_token, truncation=True, max_length=60)

    def run(self):
        data = load_dataset("json", data_files="texts.jsonl", split="train").map(self.tokenize)
        model = AutoModelForCausalLM.from_pretrained(self.model_name)
        model.config.use_cache = False
        model.gradient_checkpointing_enable()
        model = get_peft_model(
            model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", bias="none")
        )
        training_args = TrainingArguments(
            output_dir="lm",
            per_device_train_batch_size=2,
            gradient_accumulation_steps=3,
            num_train_epochs=2,
            learning_rate=2e-3,
            warmup_ratio=0.1,
            logging_steps=1,
            save_steps=50,
            dataloader_drop_last=True,
            data_seed=5,
            report_to="none",
        )
        trainer = Trainer(
            model=model,
            train_dataset=data,
            args=training_args,
            data_collator=DataCollatorForLanguageModeling(self.tokenizer, mlm=False, pad_to_multiple_of=8),
        )
        trainer.train()
        trainer.save_model("lm/final")


if __name__ == "__main__":
    FineTuner().run()
