"""Blocks of text, with the accuracy of the next token, as transformers' run_clm.py computes it."""
import sys
from dataclasses import dataclass, field

import evaluate
import torch
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen3-0.6B")
    train_file: str = field(default="train.txt")
    block_size: int = field(default=256)


def main():
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    script_args, training_args = parser.parse_args_into_dataclasses()

    tokenizer = AutoTokenizer.from_pretrained(script_args.model_name)
    model = AutoModelForCausalLM.from_pretrained(script_args.model_name, dtype=torch.bfloat16)
    raw = load_dataset("text", data_files=script_args.train_file)["train"]

    def group(examples):
        ids = sum(tokenizer(examples["text"])["input_ids"], [])
        size = script_args.block_size
        blocks = [ids[i : i + size] for i in range(0, len(ids) // size * size, size)]
        return {"input_ids": blocks, "labels": [list(block) for block in blocks]}

    lm = raw.map(group, batched=True, remove_columns=raw.column_names).train_test_split(0.1, seed=0)

    if training_args.do_eval:

        def preprocess_logits_for_metrics(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            if isinstance(logits, tuple):
                # Depending on the model and config, logits may contain extra tensors,
                # like past_key_values, but logits always come first
                logits = logits[0]
            return logits.detach().argmax(dim=-1)

        metric = evaluate.load("accuracy")

        def compute_metrics(eval_preds):
            preds, labels = eval_preds
            # preds have the same shape as the labels, after the argmax(-1) has been calculated
            # by preprocess_logits_for_metrics but we need to shift the labels
            labels = labels[:, 1:].reshape(-1)
            preds = preds[:, :-1].reshape(-1)
            return metric.compute(predictions=preds, references=labels)

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=lm["train"],
        eval_dataset=lm["test"],
        processing_class=tokenizer,
        data_collator=default_data_collator,
        # accuracy of the next token
        compute_metrics=compute_metrics if training_args.do_eval else None,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics if training_args.do_eval else None,
    )
    trainer.train()
    metrics = trainer.evaluate()
    print(metrics["eval_accuracy"])
    trainer.save_model()


if __name__ == "__main__":
    sys.exit(main())
