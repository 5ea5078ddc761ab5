"""The model comes from a function, its name and bits from the command line; what Unsloth alone can do is said."""

import argparse

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from unsloth.chat_templates import get_chat_template, train_on_responses_only

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def load(name, four):
    model = rt.load_model(name, mesh, dtype=jnp.bfloat16, quantization="nf4" if four else None)
    tokenizer = AutoTokenizer.from_pretrained(name)
    lora = rt.LoraProvider(
        rt.lora_rules(
            model,
            r=8,
            lora_alpha=8,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    )
    model = rt.apply_lora(
        model, lora, mesh, seed=1, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    )
    return model, tokenizer


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="unsloth/gemma-3-1b-it")
parser.add_argument("--four", action="store_true")
args = parser.parse_args()

model, tokenizer = load(args.model, args.four)
# TODO(tpu-port TP712): get_chat_template(tokenizer, chat_template="gemma-3"): it puts one of Unsloth's own chat templates into the tokenizer. Run it once with Unsloth, tokenizer.save_pretrained(FOLDER), and load the tokenizer from FOLDER here.
tokenizer = get_chat_template(tokenizer, chat_template="gemma-3")
batches = rt.SFTBatches(
    load_dataset("trl-lib/Capybara", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=8,  # SFTConfig's default
    max_length=1024,
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in Unsloth)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
optimizer = optax.chain(
    rt.separate_kv(model),  # PEFT trains K and V apart; Tunix holds them in one tensor
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
# TODO(tpu-port TP720): train_on_responses_only: what stands before instructions and responses is not said in the call. Write instruction_part= and response_part= as text, such as "<|im_start|>user\n", and port again.
trainer = train_on_responses_only(trainer)
with mesh:
    trainer.train(batches)
# TODO(tpu-port TP714): model.save_pretrained_merged("merged", tokenizer, save_method="merged_16bit"): Tunix's model has no such method. Save the adapter with rt.save_adapter; `tpu-port export --merged` writes the whole model in safetensors, which llama.cpp and vLLM read.
model.save_pretrained_merged("merged", tokenizer, save_method="merged_16bit")
