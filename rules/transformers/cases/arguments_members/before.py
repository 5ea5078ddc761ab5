from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_steps=5, report_to="none")
print(args.learning_rate, args.world_size)
if args.local_rank == 0:
    print("one of", args.process_index)
with args.main_process_first(desc="data"):
    rows = load_dataset("trl-lib/Capybara", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
model = model.to("cuda")
trainer = SFTTrainer(model, args=args, train_dataset=rows)
trainer.train()
if args.should_save:
    trainer.save_model(args.output_dir)
