from datasets import load_dataset
from peft import LoraConfig
from transformers import EarlyStoppingCallback, HfArgumentParser
from trl import SFTConfig, SFTTrainer

(training_args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
training_args.load_best_model_at_end = True
rows = load_dataset("trl-lib/Capybara")
trainer = SFTTrainer(
    model="Qwen/Qwen2.5-7B-Instruct",
    args=training_args,
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.add_callback(EarlyStoppingCallback(3, 0.01))
trainer.train()
