"""Full fine-tuning against a reference of its own, evaluated."""

import jax
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt


def main():
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    ref_model = rt.load_model("Qwen/Qwen2.5-0.5B-Instruct", mesh)
    model = rt.load_model("me/qwen2.5-sft", mesh)
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    data = load_dataset("json", data_files="pairs.jsonl", split="train").train_test_split(0.1, seed=1)
    batches = rt.PreferenceBatches(
        data["train"],
        tokenizer,
        mesh,
        epochs=3.0,  # DPOConfig's default
        batch_size=8,  # DPOConfig's default
        max_length=1024,  # DPOConfig's default
        truncation_mode="keep_end",
        whole_micro_batches=True,  # aot compares the pairs of a micro-batch
        seed=42,  # the GPU run's order
    )
    eval_batches = batches.evaluation(data["test"], batch_size=8)
    model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

    schedule = optax.linear_schedule(1e-6, 0.0, batches.steps)  # DPOConfig's default learning_rate
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),  # DPOConfig's default max_grad_norm
        rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # DPOConfig's default optim
    )
    trainer = rt.PreferenceTrainer(
        model,
        optimizer,
        TrainingConfig(
            max_steps=batches.steps,
            gradient_accumulation_steps=batches.accumulation,
            eval_every_n_steps=rt.interval(50, batches.steps, last=True),
            checkpoint_root_directory=rt.fresh_dir("dpo"),
            checkpointing_options=ocp.CheckpointManagerOptions(
                save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
            ),
        ),
        loss=rt.dpo_loss(
            beta=0.1,  # DPOConfig's default
            loss_type="aot",
        ),
        ref_model=ref_model,
    )
    trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
    with mesh:
        trainer.train(batches, eval_batches)


main()
