import numpy as np
import torch
from helpers import shrink
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from data import collate, held_out, rows


def preprocess(logits, labels):
    values, best = logits.max(dim=-1)
    best[labels == -100] = 0
    return torch.stack([best, logits.topk(2).indices[..., 1]], dim=-1)


def compute_metrics(prediction):
    return {"second": float(np.mean(prediction.predictions[:, :-1, 1] == prediction.label_ids[:, 1:]))}


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
trainer = Trainer(
    model,
    TrainingArguments(
        "out",
        eval_strategy="epoch",
        save_strategy="no",
        include_for_metrics=["inputs", "loss"],
        batch_eval_metrics=True,
    ),
    data_collator=collate,
    train_dataset=rows,
    eval_dataset=held_out,
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=preprocess,
)
trainer.train()

again = Trainer(
    model,
    TrainingArguments("again", eval_strategy="epoch", save_strategy="no"),
    data_collator=collate,
    train_dataset=rows,
    eval_dataset=held_out,
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=shrink,
)
again.train()
