from dataclasses import dataclass, field

import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig


@dataclass
class ScriptArguments:
    model_name: str = field(default="google/gemma-2b", metadata={"help": "the model"})
    lora_r: int = field(default=64)
    lora_alpha: int = field(default=16)


def main():
    parser = HfArgumentParser((ScriptArguments, SFTConfig))
    script_args, training_args = parser.parse_args_into_dataclasses()
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(script_args.model_name, mesh)
    tokenizer = AutoTokenizer.from_pretrained(script_args.model_name)
    batches = rt.SFTBatches.from_args(
        training_args,
        load_dataset("trl-lib/Capybara", split="train"),
        tokenizer,
        mesh,
        mean_over=rt.mean_over(model, "5.12.1"),  # by micro-batch for multimodal models alone
    )
    peft_config = rt.LoraProvider(
        rt.lora_rules(
            model,
            r=script_args.lora_r,
            lora_alpha=script_args.lora_alpha,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        ),
    )
    model = rt.apply_lora(
        model, peft_config, mesh, seed=training_args.seed, targets=["q_proj", "k_proj", "v_proj", "o_proj"]
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
        rt.separate_kv(model),  # PEFT trains K and V apart, also where Tunix holds them in one tensor
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
        model, optimizer, rt.training_config(training_args, batches)
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
    with mesh:
        trainer.train(batches)
    rt.save_adapter(model, training_args.output_dir, tokenizer=tokenizer)


main()
