"""A typer command with an argument, options, and adapters by condition; the port keeps the command line."""

from pathlib import Path
from typing import Annotated

import typer
from datasets import load_dataset
from peft import LoraConfig, TaskType
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="rows with instruction and output")],
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("out"),
    model_name: Annotated[str, typer.Option(help="base model")] = "Qwen/Qwen3-0.6B",
    lr: Annotated[float, typer.Option(min=0.0)] = 1e-3,
    steps: int = 6,
    batch_size: int = 2,
    rank: Annotated[int | None, typer.Option(help="LoRA rank; all weights without")] = 8,
    packing: bool = typer.Option(False, "--packing/--no-packing"),
    seed: int = 5,
):
    """Fine-tune MODEL_NAME on DATA."""
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForCausalLM.from_pretrained(model_name, dtype="float32")
    dataset = load_dataset(data, split="train")

    def to_messages(row):
        return {
            "messages": [
                {"role": "user", "content": row["instruction"]},
                {"role": "assistant", "content": row["output"]},
            ]
        }

    dataset = dataset.map(to_messages, remove_columns=dataset.column_names)
    peft_config = None
    if rank is not None:
        peft_config = LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj"], task_type=TaskType.CAUSAL_LM
        )
    config = SFTConfig(
        output_dir=str(output),
        learning_rate=lr,
        max_steps=steps,
        per_device_train_batch_size=batch_size,
        packing=packing,
        max_length=64,
        seed=seed,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    trainer = SFTTrainer(model, config, train_dataset=dataset, processing_class=tokenizer, peft_config=peft_config)
    trainer.train()
    trainer.save_model(str(output / "final"))
    typer.echo(f"saved to {output / 'final'}")


if __name__ == "__main__":
    app()
