"""Fine-tune Qwen3 on a Verilog question set with LoRA."""

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def to_messages(row):
    """Train on the final answer only; the reasoning is stripped."""
    answer = row["response"].split("</think>")[-1].strip()
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)
dataset = load_dataset("zhuyaoyu/CodeV-R1-dataset", split="train").map(to_messages, remove_columns=["prompt", "response"])

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=60,
    batch_size=4,
    accumulation=2,
    max_length=128,
    assistant_only_loss=True,
    seed=42,
)
lora = rt.LoraProvider(
    [
        qwix.LoraRule(
            module_path=r".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
            rank=8,
            alpha=16.0,
            dropout=0.05,
            lora_a_initializer=rt.PEFT_INIT,
        )
    ]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)

schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-3, warmup_steps=5, decay_steps=batches.steps)
optimizer = optax.chain(
    rt.separate_kv(model),
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01),
)
trainer = (
    PeftTrainer(
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
    )
    .with_gen_model_input_fn(rt.model_inputs)
    .with_loss_fn(rt.token_loss)
)
trainer.with_training_hooks(rt.log_every(10))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer)
