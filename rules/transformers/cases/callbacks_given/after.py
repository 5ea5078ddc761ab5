import contextlib
import os

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig
from porter.runtime.callbacks import TrainerCallback


class SavePeftModelCallback(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        folder = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}", "adapter_model")
        rt.save_adapter(kwargs["model"], folder)
        kwargs["tokenizer"].save_pretrained(folder)
        return control


class Sample(TrainerCallback):
    def __init__(self, prompts):
        self.prompts = prompts

    def on_epoch_begin(self, args, state, control, **kwargs):
        model = kwargs.get("model")
        print(f"epoch {state.epoch}: {rt.count_parameters(model)} parameters")

    def on_evaluate(self, args, state, control, model=None, processing_class=None, **kwargs):
        for prompt in self.prompts:
            print(complete(model, processing_class, prompt))


def complete(model, tokenizer, prompt):
    inputs = tokenizer(prompt, return_tensors="np")
    with contextlib.nullcontext():
        outputs = rt.generate(model, **inputs, max_new_tokens=8, do_sample=False, tokenizer=tokenizer)
    return tokenizer.decode(outputs[0], skip_special_tokens=True)


def main():
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    policy = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
    lora = rt.LoraProvider(
        [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
    )
    policy = rt.apply_lora(policy, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
    rows = load_dataset("trl-lib/Capybara")
    training_args = SFTConfig(output_dir="out", max_steps=10, save_steps=5, eval_strategy="steps", eval_steps=5)
    batches = rt.SFTBatches.from_args(training_args, rows["train"], tokenizer, mesh)
    eval_dataset = rows["test"]
    eval_batches = None
    if eval_dataset is not None and training_args.eval_strategy != "no":
        eval_batches = batches.evaluation(eval_dataset, batch_size=training_args.per_device_eval_batch_size)
    if training_args.gradient_checkpointing:
        policy = rt.remat(policy)

    schedule = rt.hf_schedule(
        training_args.lr_scheduler_type,
        training_args.learning_rate,
        warmup_steps=training_args.warmup_steps,
        steps=batches.steps,
        kwargs=training_args.lr_scheduler_kwargs,
    )
    optimizer = optax.chain(
        rt.clip_by_global_norm(training_args.max_grad_norm),
        rt.hf_optimizer(
            training_args.optim,
            schedule,
            b1=training_args.adam_beta1,
            b2=training_args.adam_beta2,
            eps=training_args.adam_epsilon,
            weight_decay=training_args.weight_decay,
            args=training_args.optim_args,
        ),
    )
    trainer = PeftTrainer(
        policy, optimizer, rt.training_config(training_args, batches, eval=eval_batches is not None)
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(
        rt.training_hooks(
            training_args,
            batches,
            schedule,
            callbacks=[SavePeftModelCallback(), Sample(["Once upon a time"])],
            processing_class=tokenizer,
        ),
    )
    with mesh:
        trainer.train(batches, eval_batches)


main()
