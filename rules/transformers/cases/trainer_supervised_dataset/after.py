"""Stanford-Alpaca style: full fine-tuning of a Llama."""
import copy
import json
import logging
from dataclasses import dataclass, field
from typing import Dict, Optional, Sequence

import jax
import optax
import torch
import transformers
from torch.utils.data import Dataset
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime import arguments

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

IGNORE_INDEX = -100
DEFAULT_PAD_TOKEN = "[PAD]"


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="meta-llama/Llama-3.2-1B")


@dataclass
class DataArguments:
    data_path: str = field(default=None, metadata={"help": "Path to the training data."})


@dataclass
class TrainingArguments(arguments.TrainingArguments):
    cache_dir: Optional[str] = field(default=None)
    optim: str = field(default="adamw_torch")
    model_max_length: int = field(default=512, metadata={"help": "Maximum sequence length."})


def safe_save_model_for_hf_trainer(trainer: PeftTrainer, output_dir: str):
    """Collects the state dict and dump to disk."""
    rt.save_model(trainer.model, output_dir, tokenizer=trainer.processing_class)


def _tokenize_fn(strings: Sequence[str], tokenizer: transformers.PreTrainedTokenizer) -> Dict:
    """Tokenize a list of strings."""
    tokenized_list = [
        tokenizer(text, return_tensors="pt", padding="longest", max_length=tokenizer.model_max_length, truncation=True)
        for text in strings
    ]
    input_ids = labels = [tokenized.input_ids[0] for tokenized in tokenized_list]
    input_ids_lens = labels_lens = [
        tokenized.input_ids.ne(tokenizer.pad_token_id).sum().item() for tokenized in tokenized_list
    ]
    return dict(input_ids=input_ids, labels=labels, input_ids_lens=input_ids_lens, labels_lens=labels_lens)


def preprocess(sources, targets, tokenizer) -> Dict:
    examples = [s + t for s, t in zip(sources, targets)]
    examples_tokenized, sources_tokenized = [_tokenize_fn(strings, tokenizer) for strings in (examples, sources)]
    input_ids = examples_tokenized["input_ids"]
    labels = copy.deepcopy(input_ids)
    for label, source_len in zip(labels, sources_tokenized["input_ids_lens"]):
        label[:source_len] = IGNORE_INDEX
    return dict(input_ids=input_ids, labels=labels)


class SupervisedDataset(Dataset):
    """Dataset for supervised fine-tuning."""

    def __init__(self, data_path: str, tokenizer: transformers.PreTrainedTokenizer):
        super(SupervisedDataset, self).__init__()
        logging.warning("Loading data...")
        list_data_dict = [json.loads(line) for line in open(data_path)]
        sources = [f"### Instruction:\n{example['instruction']}\n### Response:" for example in list_data_dict]
        targets = [f"{example['output']}{tokenizer.eos_token}" for example in list_data_dict]
        data_dict = preprocess(sources, targets, tokenizer)
        self.input_ids = data_dict["input_ids"]
        self.labels = data_dict["labels"]

    def __len__(self):
        return len(self.input_ids)

    def __getitem__(self, i) -> Dict[str, torch.Tensor]:
        return dict(input_ids=self.input_ids[i], labels=self.labels[i])


@dataclass
class DataCollatorForSupervisedDataset(object):
    """Collate examples for supervised fine-tuning."""

    tokenizer: transformers.PreTrainedTokenizer

    def __call__(self, instances: Sequence[Dict]) -> Dict[str, torch.Tensor]:
        input_ids, labels = tuple([instance[key] for instance in instances] for key in ("input_ids", "labels"))
        input_ids = torch.nn.utils.rnn.pad_sequence(
            input_ids, batch_first=True, padding_value=self.tokenizer.pad_token_id
        )
        labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORE_INDEX)
        return dict(
            input_ids=input_ids,
            labels=labels,
            attention_mask=input_ids.ne(self.tokenizer.pad_token_id),
        )


def make_supervised_data_module(tokenizer: transformers.PreTrainedTokenizer, data_args) -> Dict:
    """Make dataset and collator for supervised fine-tuning."""
    train_dataset = SupervisedDataset(tokenizer=tokenizer, data_path=data_args.data_path)
    data_collator = DataCollatorForSupervisedDataset(tokenizer=tokenizer)
    return dict(train_dataset=train_dataset, eval_dataset=None, data_collator=data_collator)


def train():
    parser = transformers.HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()

    model = rt.load_model(
        model_args.model_name_or_path,
        mesh,
        **rt.weight_types(
            None, masters=(training_args.deepspeed or training_args.fsdp) and (training_args.bf16 or training_args.fp16)
        ),
    )

    tokenizer = transformers.AutoTokenizer.from_pretrained(
        model_args.model_name_or_path,
        cache_dir=training_args.cache_dir,
        model_max_length=training_args.model_max_length,
        padding_side="right",
        use_fast=False,
    )
    tokenizer.pad_token = tokenizer.eos_token

    data_module = make_supervised_data_module(tokenizer=tokenizer, data_args=data_args)
    batches = rt.TrainerBatches.from_args(
        training_args,
        data_module["train_dataset"],
        data_module["data_collator"],
        mesh,
        mean_over=rt.mean_over(model, "5.12.1"),  # by micro-batch for multimodal models alone
        transformers="5.12.1",  # steps and mean as with this release
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
    trainer = PeftTrainer(
        model, optimizer, rt.training_config(training_args, batches)
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
    trainer.processing_class = tokenizer
    with mesh:
        trainer.train(batches)
    safe_save_model_for_hf_trainer(trainer=trainer, output_dir=training_args.output_dir)


if __name__ == "__main__":
    train()
