"""The model comes from a function, its name and bits from the command line; what Unsloth alone can do is said."""

import argparse

import unsloth
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
from unsloth import FastModel
from unsloth.chat_templates import get_chat_template, train_on_responses_only


def load(name, four):
    model, tokenizer = FastModel.from_pretrained(model_name=name, max_seq_length=1024, load_in_4bit=four)
    model = FastModel.get_peft_model(model, r=8, lora_alpha=8, random_state=1)
    return model, tokenizer


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="unsloth/gemma-3-1b-it")
parser.add_argument("--four", action="store_true")
args = parser.parse_args()

model, tokenizer = load(args.model, args.four)
tokenizer = get_chat_template(tokenizer, chat_template="gemma-3")
trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    args=SFTConfig(output_dir="out", max_length=1024),
)
trainer = train_on_responses_only(trainer)
trainer.train()
model.save_pretrained_merged("merged", tokenizer, save_method="merged_16bit")
