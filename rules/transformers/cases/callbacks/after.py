import json

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt
from porter.runtime.arguments import TrainingArguments
from porter.runtime.callbacks import TrainerCallback, TrainerControl, TrainerState


class WriteLosses(TrainerCallback):
    """Keeps the losses in a file."""

    def __init__(self, path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and logs and "loss" in logs:
            with open(self.path, "a") as file:
                file.write(json.dumps({"step": state.global_step, "loss": logs["loss"]}) + "\n")


class StopWhenLow(TrainerCallback):
    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics=None, **kwargs
    ):
        if metrics["eval_loss"] < 0.1:
            control.should_training_stop = True
        return control


rows = load_dataset("trl-lib/Capybara")
watchers = [WriteLosses("losses.jsonl"), StopWhenLow]
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
model = rt.load_model("Qwen/Qwen2.5-7B-Instruct", mesh, dtype=jnp.bfloat16)
batches = rt.SFTBatches(
    rows["train"],
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(rows["test"], batch_size=8)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps_per_epoch,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, callbacks=watchers, by_epoch=["eval"])
)
with mesh:
    trainer.train(batches, eval_batches)
