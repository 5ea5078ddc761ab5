"""Flags and YAML decide."""

from dataclasses import dataclass, field

from datasets import load_dataset
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_peft_config


@dataclass
class Extra:
    rows: int = field(default=1000, metadata={"help": "Rows of the dataset to train on."})


def main():
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig, Extra))
    script_args, training_args, model_args, extra = parser.parse_args_and_config()
    dataset = load_dataset(script_args.dataset_name, split=script_args.dataset_train_split)
    trainer = SFTTrainer(
        model=model_args.model_name_or_path,
        args=training_args,
        train_dataset=dataset.select(range(extra.rows)),
        peft_config=get_peft_config(model_args),
    )
    trainer.train()
    trainer.save_model(training_args.output_dir)
    if training_args.push_to_hub:
        trainer.push_to_hub(dataset_name=script_args.dataset_name)


if __name__ == "__main__":
    main()
