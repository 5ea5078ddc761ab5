"""Full fine-tuning against a reference of its own, evaluated."""

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer


def main():
    ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    model = AutoModelForCausalLM.from_pretrained("me/qwen2.5-sft")
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    data = load_dataset("json", data_files="pairs.jsonl", split="train").train_test_split(0.1, seed=1)
    trainer = DPOTrainer(
        model,
        ref_model,
        DPOConfig(
            output_dir="dpo",
            loss_type="aot",
            eval_strategy="steps",
            eval_steps=50,
            precompute_ref_log_probs=True,
            truncation_mode="keep_end",
        ),
        train_dataset=data["train"],
        eval_dataset=data["test"],
        processing_class=tokenizer,
    )
    trainer.train()


main()
