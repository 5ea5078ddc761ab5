"""Early stopping and the best checkpoint, with a callback of the script's own: the rate is far too high on purpose."""

import random

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, EarlyStoppingCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

random.seed(0)
words = "red green blue amber violet teal olive navy coral ivory".split()
rows = Dataset.from_list([{"text": " ".join(random.choice(words) for _ in range(12))} for _ in range(48)])
held_out = Dataset.from_list([{"text": " ".join(random.choice(words) for _ in range(12))} for _ in range(16)])


class PrintEvaluations(TrainerCallback):
    """One line an evaluation, and a hard stop."""

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print(f"evaluated at {state.global_step}: {metrics['eval_loss']:.4f}, best so far {state.best_metric}")
        if state.global_step >= 30:
            control.should_training_stop = True


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", load_in_4bit=True)
trainer = SFTTrainer(
    model=model,
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
    train_dataset=rows,
    eval_dataset=held_out,
    args=SFTConfig(
        output_dir="outputs",
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        max_steps=40,
        learning_rate=0.05,
        lr_scheduler_type="constant",
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        save_total_limit=2,
        load_best_model_at_end=True,
        logging_steps=5,
        report_to="none",
    ),
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"]),
    callbacks=[EarlyStoppingCallback(early_stopping_patience=2), PrintEvaluations()],
)
trainer.train()
trainer.save_model("outputs/best")
