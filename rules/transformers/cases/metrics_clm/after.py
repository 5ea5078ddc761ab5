"""Blocks of text, with the accuracy of the next token, as transformers' run_clm.py computes it."""
import sys
from dataclasses import dataclass, field

import evaluate
import jax
import jax.numpy as jnp
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser, default_data_collator

from porter import runtime as rt
from porter.runtime.arguments import TrainingArguments


@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen3-0.6B")
    train_file: str = field(default="train.txt")
    block_size: int = field(default=256)


def main():
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    script_args, training_args = parser.parse_args_into_dataclasses()

    tokenizer = AutoTokenizer.from_pretrained(script_args.model_name)
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(
        script_args.model_name,
        mesh,
        **rt.weight_types(
            jnp.bfloat16,
            masters=(training_args.deepspeed or training_args.fsdp) and (training_args.bf16 or training_args.fp16),
        ),
    )
    raw = load_dataset("text", data_files=script_args.train_file)["train"]

    def group(examples):
        ids = sum(tokenizer(examples["text"])["input_ids"], [])
        size = script_args.block_size
        blocks = [ids[i : i + size] for i in range(0, len(ids) // size * size, size)]
        return {"input_ids": blocks, "labels": [list(block) for block in blocks]}

    lm = raw.map(group, batched=True, remove_columns=raw.column_names).train_test_split(0.1, seed=0)

    if training_args.do_eval:

        def preprocess_logits_for_metrics(logits: jax.Array, labels: jax.Array) -> jax.Array:
            if isinstance(logits, tuple):
                # Depending on the model and config, logits may contain extra tensors,
                # like past_key_values, but logits always come first
                logits = logits[0]
            return logits.argmax(axis=-1)

        metric = evaluate.load("accuracy")

        def compute_metrics(eval_preds):
            preds, labels = eval_preds
            # preds have the same shape as the labels, after the argmax(-1) has been calculated
            # by preprocess_logits_for_metrics but we need to shift the labels
            labels = labels[:, 1:].reshape(-1)
            preds = preds[:, :-1].reshape(-1)
            return metric.compute(predictions=preds, references=labels)

    batches = rt.TrainerBatches.from_args(
        training_args,
        lm["train"],
        default_data_collator,
        mesh,
        mean_over=rt.mean_over(model, "5.12.1"),  # by micro-batch for multimodal models alone
        transformers="5.12.1",  # steps and mean as with this release
    )
    eval_dataset = lm["test"]
    eval_batches = None
    if eval_dataset is not None:
        eval_batches = batches.evaluation(eval_dataset, batch_size=training_args.per_device_eval_batch_size)
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
            mask=rt.decay_mask,  # not on norms and biases
            args=training_args.optim_args,
        ),
    )
    training_args.resume_from_checkpoint = None  # as train() is given nothing
    trainer = rt.MetricsTrainer(
        model,
        optimizer,
        rt.training_config(training_args, batches, eval=eval_batches is not None),
        # accuracy of the next token
        compute_metrics=compute_metrics if training_args.do_eval else None,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics if training_args.do_eval else None,
        include_for_metrics=training_args.include_for_metrics,
        prediction_loss_only=training_args.prediction_loss_only,
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
    with mesh:
        trainer.train(batches, eval_batches if training_args.eval_strategy != "no" else None)
    metrics = rt.evaluate(trainer, eval_batches)
    print(metrics["eval_accuracy"])
    rt.save_model(model, training_args.output_dir, tokenizer=tokenizer)


if __name__ == "__main__":
    sys.exit(main())
