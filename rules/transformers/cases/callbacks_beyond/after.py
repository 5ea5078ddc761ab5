import jax
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from transformers.integrations import WandbCallback
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig
from porter.runtime.callbacks import TrainerCallback


class Sample(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % args.eval_steps == 0:
            # TODO(tpu-port TP360): Sample: it sets control.should_save, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
            control.should_save = True
            print(rt.generate(model, kwargs["processing_class"]("Hello", return_tensors="np"), tokenizer=tokenizer))

    # TODO(tpu-port TP360): Sample: on_optimizer_step, which Tunix's hooks don't have. Do without it, or do it beside trainer.train.
    def on_optimizer_step(self, args, state, control, **kwargs):
        print(state.total_flos)


# TODO(tpu-port TP360): callback WandbCallback: its class is not of this file, and only the Trainer calls its events. Leave it out, or write what it does in a TrainerCallback of this file.
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
training_args = SFTConfig(output_dir="out", report_to="none")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
model_2 = rt.load_model("Qwen/Qwen2.5-7B-Instruct", mesh, **rt.load_arguments(training_args, frozen=True))
batches = rt.SFTBatches.from_args(training_args, load_dataset("trl-lib/Capybara", split="train"), tokenizer, mesh)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model_2 = rt.apply_lora(model_2, lora, mesh, seed=training_args.seed, targets=["q_proj", "v_proj"])
if training_args.gradient_checkpointing:
    model_2 = rt.remat(model_2)

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
    model_2, optimizer, rt.training_config(training_args, batches)
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.training_hooks(
        training_args, batches, schedule, callbacks=[Sample(), WandbCallback()], processing_class=tokenizer
    ),
)
with mesh:
    trainer.train(batches)
