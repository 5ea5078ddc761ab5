import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig

args = SFTConfig(output_dir="out", max_steps=5, report_to="none")
# TODO(tpu-port TP190): args.set_lr_scheduler(name="cosine", warmup_steps=2): the ported config has the fields, but not this. Set or read the fields themselves.
args = args.set_lr_scheduler(name="cosine", warmup_steps=2)
print(jax.devices()[0], 1)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, **rt.load_arguments(args))
batches = rt.SFTBatches.from_args(args, load_dataset("trl-lib/Capybara", split="train"), tokenizer, mesh)
if args.gradient_checkpointing:
    model = rt.remat(model)

schedule = rt.hf_schedule(
    args.lr_scheduler_type,
    args.learning_rate,
    warmup_steps=args.warmup_steps,
    steps=batches.steps,
    kwargs=args.lr_scheduler_kwargs,
)
optimizer = optax.chain(
    rt.clip_by_global_norm(args.max_grad_norm),
    rt.hf_optimizer(
        args.optim,
        schedule,
        b1=args.adam_beta1,
        b2=args.adam_beta2,
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
        mask=rt.decay_mask,  # not on norms and biases
        args=args.optim_args,
    ),
)
args.resume_from_checkpoint = None  # as train() is given nothing
trainer = PeftTrainer(
    model, optimizer, rt.training_config(args, batches)
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.training_hooks(args, batches, schedule))
with mesh:
    trainer.train(batches)
