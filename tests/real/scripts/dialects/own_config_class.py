"""The script's own dataclass extends SFTConfig; its parser, values changed later, resuming decided behind the trainer."""

from dataclasses import dataclass, field

from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, set_seed
from trl import SFTConfig, SFTTrainer


@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen3-0.6B", metadata={"help": "The base model."})
    lora_r: int = field(default=4)


@dataclass
class TrainingConfig(SFTConfig):
    learning_rate: float = field(default=1e-3)
    train_rows: int = field(default=24, metadata={"help": "How many rows to make."})


class Trainer(SFTTrainer):
    """Ours, for now."""


def main():
    parser = HfArgumentParser((ScriptArguments, TrainingConfig))
    script_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)
    training_args.gradient_checkpointing_kwargs = {"use_reentrant": False}
    if training_args.max_steps < 0:
        training_args.max_steps = 4

    tokenizer = AutoTokenizer.from_pretrained(script_args.model_name)
    model = AutoModelForCausalLM.from_pretrained(script_args.model_name, dtype="float32")
    config = LoraConfig(r=script_args.lora_r, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    print(sum(p.numel() for p in model.parameters() if p.requires_grad))

    rows = [{"text": f"Question {i}: how long is a row? Answer: {i % 7} words."} for i in range(training_args.train_rows)]
    trainer = Trainer(model=model, args=training_args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)

    checkpoint = None
    if training_args.resume_from_checkpoint is not None:
        checkpoint = training_args.resume_from_checkpoint
    trainer.train(resume_from_checkpoint=checkpoint)
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model()


if __name__ == "__main__":
    main()
