import jax
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig
from porter.runtime.callbacks import EarlyStoppingCallback

(training_args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
training_args.load_best_model_at_end = True
rows = load_dataset("trl-lib/Capybara")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
model = rt.load_model("Qwen/Qwen2.5-7B-Instruct", mesh, **rt.load_arguments(training_args, frozen=True))
batches = rt.SFTBatches.from_args(training_args, rows["train"], tokenizer, mesh)
eval_dataset = rows["test"]
eval_batches = None
if eval_dataset is not None and training_args.eval_strategy != "no":
    eval_batches = batches.evaluation(eval_dataset, batch_size=training_args.per_device_eval_batch_size)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=training_args.seed, targets=["q_proj", "v_proj"])
if training_args.gradient_checkpointing:
    model = rt.remat(model)

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
training_args.resume_from_checkpoint = None  # as train() is given nothing
trainer = PeftTrainer(
    model, optimizer, rt.training_config(training_args, batches, eval=eval_batches is not None, best=True)
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
trainer.training_hooks.add(EarlyStoppingCallback(3, 0.01))
with mesh:
    trainer.train(batches, eval_batches)
rt.load_best(trainer)
