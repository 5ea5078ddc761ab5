import swanlab
from datasets import load_dataset
from swanlab.integration.huggingface import SwanLabCallback
from trl import SFTConfig, SFTTrainer

swanlab_callback = SwanLabCallback(project="answers", experiment_name="first", config={"rows": 9})
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", report_to="none"),
    train_dataset=load_dataset("org/rows", split="train"),
    callbacks=[swanlab_callback],
)
trainer.train()
swanlab.log({"done": 1})
