"""Several rewards with weights, the loss of Dr. GRPO, generation batches that last several optimizer steps."""

import jax
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "meta-llama/Llama-3.2-1B"


def reward_overlap(prompts, completions, answer, **kwargs):
    """Letters that the answer has too; nothing for rows without one."""
    return [len(set(said) & set(gold)) / 10 if gold else None for said, gold in zip(completions, answer)]


async def reward_length(completion_ids, **kwargs):
    return [-abs(len(ids) - 12) / 12 for ids in completion_ids]


def reward_lower(completions, **kwargs):
    return [float(completion.islower()) for completion in completions]


tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh)
dataset = load_dataset("json", data_files="questions.jsonl", split="train")
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=4, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
batches = rt.GRPOBatches(
    dataset,
    tokenizer,
    mesh,
    model,
    reward_funcs=[reward_overlap, reward_length, reward_lower],
    loss=rt.PolicyLoss("dr_grpo", epsilon_high=0.28),
    max_steps=10,
    batch_size=4,
    accumulation=2,
    num_generations=8,
    steps_per_generation=4,
    max_completion_length=16,
    top_p=0.95,
    top_k=50,
    reward_weights=[1.0, 0.5, 0.25],
    scale_rewards="none",
    seed=42,  # the GPU run's order
)

schedule = optax.constant_schedule(1e-3)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # GRPOConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(batches.loss)
trainer.with_training_hooks(
    rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, metrics=batches.metrics)
)
with mesh:
    trainer.train(batches)
