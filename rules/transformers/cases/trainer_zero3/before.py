import logging
import os
import pathlib
from dataclasses import dataclass, field
from typing import Optional

import torch
import transformers
from datasets import load_dataset
from deepspeed import zero
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
from peft import LoraConfig, get_peft_model
from transformers import Trainer, deepspeed


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="Qwen/Qwen2.5-0.5B")
    use_lora: bool = True


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: Optional[str] = field(default=None)


def on_the_host(param):
    if hasattr(param, "ds_id"):
        assert param.ds_status == ZeroParamStatus.NOT_AVAILABLE
        with zero.GatheredParameters([param]):
            return param.data.detach().cpu().clone()
    return param.detach().cpu().clone()


def adapter_weights(named_parameters):
    """What LoRA trains, gathered from where ZeRO-3 has split it."""
    return {name: on_the_host(value) for name, value in named_parameters if "lora_" in name}


def train():
    parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()

    device_map = None
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    ddp = world_size != 1
    if ddp:
        device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}
    if model_args.use_lora and (len(training_args.fsdp) > 0 or deepspeed.is_deepspeed_zero3_enabled()):
        logging.warning("FSDP and ZeRO-3 gather the base model's weights, too.")

    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_args.model_name_or_path,
        cache_dir=training_args.cache_dir,
        device_map=device_map,
        low_cpu_mem_usage=not deepspeed.is_deepspeed_zero3_enabled(),
        torch_dtype=torch.bfloat16,
    )
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    # norms in float32
    for param in filter(lambda p: p.requires_grad, model.parameters()):
        param.data = param.data.to(torch.float32)

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    rows = load_dataset("json", data_files="rows.jsonl", split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512), remove_columns=["text"])
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    trainer = Trainer(model=model, args=training_args, train_dataset=rows, data_collator=collate)

    if list(pathlib.Path(training_args.output_dir).glob("checkpoint-*")):
        trainer.train(resume_from_checkpoint=True)
    else:
        trainer.train()
    trainer.save_state()

    if deepspeed.is_deepspeed_zero3_enabled():
        # whole parameters; save_pretrained takes the adapter's
        state_dict_zero3 = trainer.model_wrapped._zero3_consolidated_16bit_state_dict()
        if training_args.local_rank == 0:
            state_dict = state_dict_zero3
    else:
        # the adapter alone
        state_dict = adapter_weights(model.named_parameters())

    if training_args.local_rank == 0:
        model.save_pretrained(training_args.output_dir, state_dict=state_dict)


if __name__ == "__main__":
    train()
