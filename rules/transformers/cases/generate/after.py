import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, TextStreamer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)

# What the model says before it is trained.
inputs = tokenizer("What is LoRA?", return_tensors="np")
with mesh:
    before = rt.generate(model, **inputs, max_new_tokens=50)
print(tokenizer.decode(before[0], skip_special_tokens=True))

batches = rt.SFTBatches(
    load_dataset("some/rows", split="train"),
    tokenizer,
    mesh,
    max_steps=5,
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider([qwix.LoraRule(module_path=".*/q_proj", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)])
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj"])
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
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out", tokenizer=tokenizer)
tokenizer.save_pretrained("out")


def answer(question):
    """Ask the trained model."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="np",
        return_dict=False,
    )
    outputs = rt.generate(
        model,
        input_ids=ids,  # the prompt
        max_new_tokens=64,  # longer answers take longer
        do_sample=True,
        temperature=0.7,
        top_p=0.9,
        tokenizer=tokenizer,
    )
    return tokenizer.decode(outputs[0][ids.shape[1] :], skip_special_tokens=True)


print(answer("What is a TPU?"))

batch = tokenizer(["One prompt", "another one"], padding=True, return_tensors="np")
with mesh:
    outputs = rt.generate(model, **batch, pad_token_id=tokenizer.eos_token_id, tokenizer=tokenizer)
for text in tokenizer.batch_decode(outputs[:, batch["input_ids"].shape[1] :]):
    print(text)

streamer = TextStreamer(tokenizer, skip_prompt=True)
merged = rt.merge_and_unload(model)
_ = rt.generate(merged, **tokenizer("A poem:", return_tensors="np"), streamer=streamer, max_length=100, tokenizer=tokenizer)
