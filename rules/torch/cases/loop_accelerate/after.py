import argparse
import contextlib
import math

import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, default_data_collator, set_seed
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output-dir", default="out")
    args = parser.parse_args()

    set_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(args.model, mesh)

    def tokenize(rows):
        ids = tokenizer(rows["text"], truncation=True, max_length=64, padding="max_length")
        ids["labels"] = ids["input_ids"].copy()
        return ids

    with contextlib.nullcontext():
        dataset = load_dataset("json", data_files="train.jsonl", split="train")
        dataset = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)

    batches = rt.TrainerBatches(
        dataset,
        default_data_collator,
        mesh,
        epochs=args.epochs,
        batch_size=args.batch_size,
        accumulation=args.accumulate,
        remove_unused_columns=False,
        mean_over="micro_batch",
        seed=args.seed,  # another order than the GPU run's
    )

    schedule = optax.cosine_decay_schedule(args.lr, math.ceil(len(dataset) / args.batch_size) * args.epochs)
    optax_optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01),
    )
    trainer = PeftTrainer(
        model,
        optax_optimizer,
        TrainingConfig(
            max_steps=batches.steps,
            gradient_accumulation_steps=batches.accumulation,
            eval_every_n_steps=batches.steps,
        ),
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
    with mesh:
        trainer.train(batches)

    unwrapped = model
    rt.save_model(model, args.output_dir)


if __name__ == "__main__":
    main()
