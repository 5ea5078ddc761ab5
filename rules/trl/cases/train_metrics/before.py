import logging

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

logger = logging.getLogger(__name__)

dataset = load_dataset("trl-lib/Capybara", split="train")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B", args=SFTConfig(output_dir="out", max_steps=10, report_to="none"), train_dataset=dataset
)
train_result = trainer.train()
metrics = train_result.metrics
metrics["train_samples"] = len(dataset)
trainer.log_metrics("train", metrics)
trainer.model.config.use_cache = True
logger.info("loss %f after %d steps: %s", train_result.training_loss, train_result.global_step, metrics)
