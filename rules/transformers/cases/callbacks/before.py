import json

from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import SFTConfig, SFTTrainer


class WriteLosses(TrainerCallback):
    """Keeps the losses in a file."""

    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and logs and "loss" in logs:
            with open(self.path, "a") as file:
                file.write(json.dumps({"step": state.global_step, "loss": logs["loss"]}) + "\n")


class StopWhenLow(TrainerCallback):
    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics=None, **kwargs
    ):
        if metrics["eval_loss"] < 0.1:
            control.should_training_stop = True
        return control


rows = load_dataset("trl-lib/Capybara")
watchers = [WriteLosses("losses.jsonl"), StopWhenLow]
trainer = SFTTrainer(
    model="Qwen/Qwen2.5-7B-Instruct",
    args=SFTConfig(output_dir="out", eval_strategy="epoch", report_to="none"),
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
    callbacks=watchers,
)
trainer.train()
