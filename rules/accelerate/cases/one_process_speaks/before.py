from accelerate import Accelerator, PartialState
from accelerate.logging import get_logger
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

logger = get_logger(__name__)
state = PartialState()
if state.is_main_process:
    print("rank", PartialState().process_index)
dataset = load_dataset("trl-lib/Capybara", split="train")
logger.info("rows: %d", len(dataset))
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", max_steps=5, report_to="none"), train_dataset=dataset)
trainer.train()
if Accelerator().is_main_process:
    trainer.save_model("out/last")
