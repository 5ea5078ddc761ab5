"""What a process of the GPU run asks its arguments."""
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_steps=5, report_to="none")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("some/rows", split="train"))
args.distributed_state.wait_for_everyone()
args.distributed_state.distributed_type = "NO"
trainer.train()
rows = args.per_device_train_batch_size * args.n_gpu
print(rows)
