import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

max_seq_length = 2048

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("unsloth/Meta-Llama-3.1-8B", mesh, dtype=jnp.bfloat16, quantization="nf4")
tokenizer = AutoTokenizer.from_pretrained("unsloth/Meta-Llama-3.1-8B")
tokenizer.padding_side = "left"

lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=16, alpha=16.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(
    model, lora, mesh, seed=3407, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
)

prompt = "### Instruction:\n{}\n\n### Response:\n{}"


def formatting_prompts_func(examples):
    pairs = zip(examples["instruction"], examples["output"])
    return {"text": [prompt.format(question, answer) + tokenizer.eos_token for question, answer in pairs]}


dataset = load_dataset("yahma/alpaca-cleaned", split="train").map(formatting_prompts_func, batched=True)

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=60,
    batch_size=2,
    accumulation=4,
    max_length=max_seq_length,
    seed=3407,  # the GPU run's order
    trl="0.12.2",  # prepare the rows as this release did
    unsloth_counts="2024.12.12",  # a step's loss is over the tokens that are predicted, as Unsloth's Trainer counts
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time

schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 2e-4, 5), optax.linear_schedule(2e-4, 0.0, batches.steps - 5)], [5]
)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # TrainingArguments' default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("outputs"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(
        1,
        schedule=schedule,
        steps_per_epoch=batches.steps_per_epoch,
        transformers="4.46",  # its lines have the next step's rate
    ),
)
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "lora_model")
tokenizer.save_pretrained("lora_model")

