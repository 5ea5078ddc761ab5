"""In the style of run_clm.py: texts run together and cut into blocks, full fine-tuning, default_data_collator."""

import argparse
from itertools import chain

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator, set_seed


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--block_size", type=int, default=40)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--do_eval", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    set_seed(11)
    raw_datasets = load_dataset("json", data_files={"train": args.train_file})
    raw_datasets = raw_datasets["train"].train_test_split(test_size=0.2, seed=11)

    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
    block_size = min(args.block_size, tokenizer.model_max_length)

    tokenized_datasets = raw_datasets.map(
        lambda examples: tokenizer(examples["output"]), batched=True, remove_columns=["instruction", "output"]
    )

    # Main data processing function that will concatenate all texts and generate chunks of block_size.
    def group_texts(examples):
        concatenated_examples = {k: list(chain(*examples[k])) for k in examples.keys()}
        total_length = len(concatenated_examples[list(examples.keys())[0]])
        total_length = (total_length // block_size) * block_size
        result = {
            k: [t[i : i + block_size] for i in range(0, total_length, block_size)]
            for k, t in concatenated_examples.items()
        }
        result["labels"] = result["input_ids"].copy()
        return result

    lm_datasets = tokenized_datasets.map(group_texts, batched=True)

    training_args = TrainingArguments(
        output_dir="clm",
        per_device_train_batch_size=3,
        per_device_eval_batch_size=2,
        max_steps=5,
        learning_rate=args.learning_rate,
        weight_decay=0.1,
        lr_scheduler_type="cosine",
        warmup_steps=1,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        seed=11,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=lm_datasets["train"],
        eval_dataset=lm_datasets["test"],
        processing_class=tokenizer,
        data_collator=default_data_collator,
    )
    trainer.train()
    trainer.save_model()
    if args.do_eval:
        metrics = trainer.evaluate()
        print(metrics["eval_loss"])


if __name__ == "__main__":
    main()
