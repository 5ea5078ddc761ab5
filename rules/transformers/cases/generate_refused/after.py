import jax
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer, StoppingCriteriaList
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-0.6B", mesh)
rt.generation_config(model).eos_token_id = 7
batches = rt.SFTBatches(
    load_dataset("some/rows", split="train"),
    tokenizer,
    mesh,
    max_steps=5,
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # SFTConfig's default optim
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

inputs = tokenizer("One prompt", return_tensors="np")
# TODO(tpu-port TP311): generate(num_beams=4): Tunix's sampler here keeps one completion a row, no beams. Leave it out, or generate in a script of its own from what this one saves.
print(rt.generate(model, **inputs, num_beams=4, tokenizer=tokenizer))
# TODO(tpu-port TP311): generate(typical_p=0.9): the port changes logits by temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size and the shortest length only. Leave it out, or generate in a script of its own from what this one saves.
# TODO(tpu-port TP311): generate(stopping_criteria=StoppingCriteriaList([])): a completion ends with an end token (eos_token_id) or its length. Leave it out, or generate in a script of its own from what this one saves.
print(rt.generate(model, **inputs, no_repeat_ngram_size=2, typical_p=0.9, stopping_criteria=StoppingCriteriaList([]), tokenizer=tokenizer))
# TODO(tpu-port TP311): inputs["input_ids"].expand(2, -1): these token ids are a NumPy array in the port. Write it with NumPy.
# TODO(tpu-port TP311): generate(pixel_values=inputs["input_ids"].expand(2, -1)): the port's generate knows no such setting. Leave it out if it is the model's own.
print(rt.generate(model, **inputs, pixel_values=inputs["input_ids"].expand(2, -1), tokenizer=tokenizer))
# TODO(tpu-port TP311): generate(output_scores=True): the port's generate gives token ids only. Leave it out, or generate in a script of its own from what this one saves.
# TODO(tpu-port TP311): generate(return_dict_in_generate=True): the port's generate gives token ids only. Leave it out, or generate in a script of its own from what this one saves.
scores = rt.generate(model, **inputs, output_scores=True, return_dict_in_generate=True, tokenizer=tokenizer).scores
