"""Rows padded to one length by the tokeniser, whose padding nobody took out of the labels; stacked by a lambda.

A callback looks at what it is told, and fails where it isn't what transformers tells it.
"""

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainerCallback, TrainingArguments

model_name = "Qwen/Qwen2.5-0.5B"
tokenizer = AutoTokenizer.from_pretrained(model_name)
model = AutoModelForCausalLM.from_pretrained(model_name, attn_implementation="eager")

peft_config = LoraConfig(
    r=8,
    lora_alpha=16,
    lora_dropout=0.0,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    task_type="CAUSAL_LM",
)
model = get_peft_model(model, peft_config)


class Watch(TrainerCallback):
    def __init__(self):
        self.begun, self.ended, self.epochs = [], [], []

    def on_epoch_begin(self, args, state, control, **kwargs):
        self.epochs.append(state.epoch)

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if model is None:
            raise ValueError("a callback is given the model")
        self.begun.append(state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        self.ended.append(state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        steps = list(range(state.global_step))
        if self.begun != steps or self.ended != [step + 1 for step in steps] or self.epochs != [0]:
            raise ValueError(f"begun {self.begun}, ended {self.ended}, epochs {self.epochs} of {state.global_step}")
        kwargs["model"].save_pretrained(f"{args.output_dir}/last")


def tokenize_function(examples):
    texts = [f"{question} {answer}" for question, answer in zip(examples["instruction"], examples["output"])]
    return tokenizer(texts, truncation=True, padding="max_length", max_length=56)


dataset = load_dataset("json", data_files="rows.jsonl", split="train")
dataset = dataset.map(tokenize_function, batched=True)
dataset.set_format("torch", columns=["input_ids", "attention_mask"])

training_args = TrainingArguments(
    output_dir="padded",
    num_train_epochs=1,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=2,
    weight_decay=0.01,
    max_grad_norm=0.3,
    logging_steps=2,
    save_strategy="no",
    report_to=[],
)
trainer = Trainer(
    model=model,
    args=training_args,
    train_dataset=dataset,
    data_collator=lambda data: {
        "input_ids": torch.stack([f["input_ids"] for f in data]),
        "attention_mask": torch.stack([f["attention_mask"] for f in data]),
        "labels": torch.stack([f["input_ids"] for f in data]),
    },
    callbacks=[Watch],
)
trainer.train()
trainer.model.save_pretrained("padded/adapter")
