import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from transformers.integrations import WandbCallback
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt
from porter.runtime.callbacks import TrainerCallback


class Sample(TrainerCallback):
    # TODO(tpu-port TP360): Sample: on_step_end uses model, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
    def on_step_end(self, args, state, control, model=None, **kwargs):
        # TODO(tpu-port TP360): Sample: it reads args.eval_steps, a config that is spread over the port, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
        if state.global_step % args.eval_steps == 0:
            # TODO(tpu-port TP360): Sample: it sets control.should_save, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
            control.should_save = True
            # TODO(tpu-port TP360): Sample: it reads processing_class, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
            print(model.generate(kwargs["processing_class"]("Hello", return_tensors="pt")))

    # TODO(tpu-port TP360): Sample: on_optimizer_step, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
    def on_optimizer_step(self, args, state, control, **kwargs):
        print(state.total_flos)


# TODO(tpu-port TP360): callback WandbCallback: it is PyTorch code around the Trainer. Leave it out, or write what it does in a TrainerCallback of this file.
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
model_2 = rt.load_model("Qwen/Qwen2.5-7B-Instruct", mesh, dtype=jnp.bfloat16)
batches = rt.SFTBatches(
    load_dataset("trl-lib/Capybara", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model_2 = rt.apply_lora(model_2, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
model_2 = rt.remat(model_2)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model_2,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, callbacks=[Sample(), WandbCallback()])
)
with mesh:
    trainer.train(batches)
