import numpy as np
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoTokenizer, EarlyStoppingCallback, EvalPrediction
from trl import SFTConfig, SFTTrainer

rows = load_dataset("trl-lib/Capybara")
tokenizer = AutoTokenizer.from_pretrained("google/gemma-3-4b-it")


def answered(prediction: EvalPrediction) -> dict[str, float]:
    """Share of the answers that are right as a whole."""
    predicted, labels = prediction.predictions[:, :-1], prediction.label_ids[:, 1:]
    right = (predicted == labels) | (labels == -100)
    return {"exact_match": float(right.all(axis=1).mean()), "accuracy": float(np.mean(right[labels != -100]))}


args = SFTConfig(
    output_dir="out",
    eval_strategy="steps",
    eval_steps=50,
    save_steps=50,
    save_total_limit=2,
    per_device_eval_batch_size=4,
    load_best_model_at_end=True,
    metric_for_best_model="exact_match",  # the higher the better
    report_to="none",
)
trainer = SFTTrainer(
    model="google/gemma-3-4b-it",
    args=args,
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
    compute_metrics=answered,
    preprocess_logits_for_metrics=lambda logits, labels: torch.argmax(logits, dim=-1),
    callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
)
trainer.train()
