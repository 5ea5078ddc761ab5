"""Fine-tune Gemma 3 on Verilog with LoRA (2 GPUs, FSDP)."""
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "google/gemma-3-4b-it"


def to_messages(row):
    """Train on the final answer only; the reasoning is stripped."""
    answer = row["response"].split("</think>")[-1].strip()
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)
dataset = load_dataset("json", data_files="codev.jsonl", split="train").select(range(10_000))
dataset = dataset.map(to_messages, remove_columns=dataset.column_names)

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    epochs=1,
    batch_size=2,  # 1 a GPU on 2 GPUs
    accumulation=8,
    processes=2,
    max_length=3072,
    assistant_only_loss=True,
    mean_over="micro_batch",  # a multimodal model's loss in transformers
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_einsum|attn_vec_einsum|gate_proj|up_proj|down_proj)", rank=64, alpha=64.0, lora_a_initializer=rt.PEFT_INIT),
    qwix.LoraRule(module_path=".*/kv_einsum", rank=128, alpha=128.0, lora_a_initializer=rt.PEFT_INIT),  # K and V, 64 each
])
model = rt.apply_lora(
    model, lora, mesh, seed=42, targets=r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$"
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-4, warmup_steps=100, decay_steps=max(batches.steps, 101))
optimizer = optax.chain(
    rt.separate_kv(model),  # PEFT trains K and V apart; Tunix holds them in one tensor
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.001),
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
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(100), max_to_keep=3
        ),
        metrics_logging_options=rt.metrics_options(["tensorboard"], log_dir="out/runs"),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)
