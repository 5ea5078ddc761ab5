import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-4B", mesh, dtype=jnp.bfloat16)
tokenizer = rt.pad_as_unsloth(AutoTokenizer.from_pretrained("Qwen/Qwen3-4B"), model, "2026.8.19")
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=32, alpha=32.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(
    model, lora, mesh, seed=3407, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
)


def to_text(rows):
    return {"text": [tokenizer.apply_chat_template(row, tokenize=False) for row in rows["messages"]]}


dataset = load_dataset("HuggingFaceH4/no_robots", split="train").map(to_text, batched=True)

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=30,
    batch_size=8,  # SFTConfig's default
    max_length=2048,
    label_mask=rt.ResponsesOnly("<|im_start|>user\n", "<|im_start|>assistant\n", tokenizer),
    seed=42,  # the GPU run's order
    trl="0.24.0",  # prepare the rows as this release did
    unsloth_counts="2026.8.19",  # a step's loss is over the tokens that are predicted, as Unsloth's Trainer counts
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in Unsloth)

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
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
# Only the answers count
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)
rt.merge_and_unload(model).save_pretrained("out/merged")
tokenizer.save_pretrained("out/merged")
