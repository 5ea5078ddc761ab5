from dataclasses import dataclass, field

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, TrainingArguments
from trl import DPOTrainer


@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen2.5-0.5B")
    beta: float = field(default=0.1)


parser = HfArgumentParser((ScriptArguments, TrainingArguments))
args, training_args = parser.parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(args.model_name)
tokenizer = AutoTokenizer.from_pretrained(args.model_name)
trainer = DPOTrainer(
    model,
    ref_model=None,
    args=training_args,
    beta=args.beta,
    max_length=512,
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    processing_class=tokenizer,
)
trainer.train()
