import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer

from porter import runtime as rt
from porter.runtime.arguments import DPOConfig, ModelConfig, ScriptArguments, TrlParser, get_peft_config

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, DPOConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    dataset = load_dataset(script_args.dataset_name)
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    model = rt.load_model(
        model_args.model_name_or_path,
        mesh,
        **rt.load_arguments(training_args, frozen=get_peft_config(model_args) is not None),
    )
    batches = rt.PreferenceBatches.from_args(training_args, dataset[script_args.dataset_train_split], tokenizer, mesh)
    peft_config = get_peft_config(model_args)
    if peft_config is not None:
        model = rt.apply_peft(
            model, peft_config, mesh, seed=training_args.seed, dropout=not training_args.disable_dropout
        )
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
        rt.separate_kv(model),
        rt.clip_by_global_norm(training_args.max_grad_norm),
        rt.hf_optimizer(
            training_args.optim,
            schedule,
            b1=training_args.adam_beta1,
            b2=training_args.adam_beta2,
            eps=training_args.adam_epsilon,
            weight_decay=training_args.weight_decay,
            mask=rt.decay_mask,
            args=training_args.optim_args,
        ),
    )
    training_args.resume_from_checkpoint = None  # as train() is given nothing
    trainer = rt.PreferenceTrainer(
        model, optimizer, rt.training_config(training_args, batches), loss=rt.preference_loss(training_args)
    )
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
    with mesh:
        trainer.train(batches)
    rt.save_model(model, training_args.output_dir, tokenizer=tokenizer)
