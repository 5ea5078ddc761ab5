"""Fine-tune Gemma 4 on Verilog with LoRA (2 x H100, FSDP)."""

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "google/gemma-4-31B-it"

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def to_text(row):
    return {"prompt": row["prompt"] + " ", "completion": row["response"].split("</think>")[-1].strip()}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)
dataset = load_dataset("zhuyaoyu/CodeV-R1-dataset", split="train").map(to_text, remove_columns=["response"])

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    epochs=1,
    batch_size=4,  # 2 a GPU on 2 GPUs
    processes=2,
    accumulation=4,
    max_length=128,
    seed=42,
)
peft_init = rt.PEFT_INIT
lora = rt.LoraProvider(
    [
        qwix.LoraRule(
            module_path=".*/(q_einsum|k_einsum|attn_vec_einsum|gate_proj|up_proj|down_proj)",
            rank=4,
            alpha=8.0,
            lora_a_initializer=peft_init,
        ),
        qwix.LoraRule(module_path=".*/kv_einsum", rank=8, alpha=16.0, lora_a_initializer=peft_init),
    ]
)
model = rt.apply_lora(
    model,
    lora,
    mesh,
    seed=42,
    targets=r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$",
)
model = rt.remat(model)

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, warmup_steps=2, decay_steps=batches.steps)
optimizer = optax.chain(
    rt.separate_kv(model),
    optax.clip_by_global_norm(0.5),
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
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer)
