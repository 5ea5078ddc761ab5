import math

from datasets import load_dataset
import jax
import jax.numpy as jnp
import optax
import qwix
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("unsloth/Llama-3.2-1B-Instruct", mesh, dtype=jnp.bfloat16, quantization="nf4")
tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained("unsloth/Llama-3.2-1B-Instruct"))
tokenizer.padding_side = "right"
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=16, alpha=16.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(
    model, lora, mesh, seed=3407, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
)
tokenizer = rt.get_chat_template(tokenizer, chat_template="llama-3.1")


def to_text(rows):
    return {"text": [tokenizer.apply_chat_template(turns, tokenize=False) for turns in rows["conversations"]]}


dataset = rt.standardize_data_formats(load_dataset("mlabonne/FineTome-100k", split="train")).map(to_text, batched=True)
batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=60,
    batch_size=4,  # Unsloth's default
    accumulation=2,  # Unsloth's default
    max_length=4096,  # the model's max_seq_length, as in Unsloth
    label_mask=rt.ResponsesOnly(tokenizer=tokenizer),
    seed=3407,  # the GPU run's order
    trl="0.24.0",  # prepare the rows as this release did
    unsloth_counts="2026.8.19",  # a step's loss is over the tokens that are predicted, as Unsloth's Trainer counts
    unsloth="2026.8.19",  # texts are tokenised as Unsloth does: no end token is added
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in Unsloth)

warmup_steps = math.ceil(0.1 * batches.steps)  # Unsloth's default
# Unsloth's default learning_rate
schedule = optax.warmup_cosine_decay_schedule(0.0, 5e-5, warmup_steps=warmup_steps, decay_steps=batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(
        schedule,
        b1=0.9,
        b2=0.999,
        eps=1e-8,
        weight_decay=0.001,  # Unsloth's default
    ),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(
        1, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, output_dir="unsloth_training_checkpoints"
    ),
)
print(tokenizer.decode(batches.train_dataset[5]["input_ids"]))
with mesh:
    trainer.train(batches)
stats = rt.train_result(trainer, batches)
print(f"{stats.metrics['train_runtime']} seconds")
tokenizer.push_to_hub("me/llama")
