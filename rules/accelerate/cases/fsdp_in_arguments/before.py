from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    "out",
    max_steps=100,
    fsdp="full_shard auto_wrap",
    fsdp_config={"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"], "activation_checkpointing": True},
    gradient_checkpointing=False,
    report_to="none",
)
trainer = SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
