import argparse

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt
from porter.runtime.arguments import LoraConfig

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def load_model(name: str):
    model = rt.load_model(name, mesh, dtype=jnp.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(name)
    return model, tokenizer


def get_lora_config(rank: int) -> LoraConfig:
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def create_trainer(model, tokenizer, dataset, args) -> PeftTrainer:
    batches = rt.SFTBatches(
        dataset,
        tokenizer,
        mesh,
        max_steps=20,
        batch_size=8,  # SFTConfig's default
        max_length=1024,  # SFTConfig's default
        seed=42,  # the GPU run's order
    )
    peft_config = get_lora_config(args.rank)
    model = rt.apply_peft(model, peft_config, mesh, seed=42)
    model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

    schedule = optax.linear_schedule(args.lr, 0.0, batches.steps)
    optimizer = optax.chain(
        rt.separate_kv(model),  # PEFT trains K and V apart, also where Tunix holds them in one tensor
        optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
        optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
    )
    trainer = PeftTrainer(
        model,
        optimizer,
        TrainingConfig(
            max_steps=batches.steps,
            gradient_accumulation_steps=batches.accumulation,
            eval_every_n_steps=batches.steps,
            checkpoint_root_directory=rt.fresh_dir(args.out),
            checkpointing_options=ocp.CheckpointManagerOptions(
                save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
            ),
        ),
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
    trainer.batches = batches
    trainer.processing_class = tokenizer
    trainer.output_dir = args.out
    return trainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--out", default="out")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--rank", type=int, default=8)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model)
    dataset = load_dataset("trl-lib/Capybara", split="train")
    trainer = create_trainer(model, tokenizer, dataset, args)
    with mesh:
        trainer.train(trainer.batches)
    rt.save_adapter(trainer.model, f"{args.out}/adapter", tokenizer=trainer.processing_class)
    rt.save_adapter(trainer.model, trainer.output_dir, tokenizer=trainer.processing_class)


if __name__ == "__main__":
    main()
