"""Two trainers in turn on one model: general rows first, then our own with a config that is changed for it."""

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
general = Dataset.from_list([{"text": f"Sentence {i} is a general one." * (1 + i % 3)} for i in range(24)])
ours = Dataset.from_list([{"text": f"Sentence {i} is ours."} for i in range(16)])

args = SFTConfig("out/general", max_steps=4, learning_rate=1e-3, per_device_train_batch_size=4, max_length=64, report_to="none")
args.bf16 = False
trainer = SFTTrainer(model, args=args, train_dataset=general, processing_class=tokenizer)
trainer.train()

args.output_dir = "out/ours"
args.learning_rate = 1e-4
trainer = SFTTrainer(model, args=args, train_dataset=ours, processing_class=tokenizer)
trainer.train()
trainer.save_model("out/ours/last")
