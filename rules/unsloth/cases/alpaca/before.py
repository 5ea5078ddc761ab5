import torch
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer
from unsloth import FastLanguageModel, is_bfloat16_supported

max_seq_length = 2048
dtype = None  # found by Unsloth
load_in_4bit = True

model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="unsloth/Meta-Llama-3.1-8B-bnb-4bit",
    max_seq_length=max_seq_length,
    dtype=dtype,
    load_in_4bit=load_in_4bit,
)

model = FastLanguageModel.get_peft_model(
    model,
    r=16,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    lora_alpha=16,
    lora_dropout=0,
    bias="none",
    use_gradient_checkpointing="unsloth",
    random_state=3407,
    use_rslora=False,
    loftq_config=None,
)

prompt = "### Instruction:\n{}\n\n### Response:\n{}"


def formatting_prompts_func(examples):
    pairs = zip(examples["instruction"], examples["output"])
    return {"text": [prompt.format(question, answer) + tokenizer.eos_token for question, answer in pairs]}


dataset = load_dataset("yahma/alpaca-cleaned", split="train").map(formatting_prompts_func, batched=True)

trainer = SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    train_dataset=dataset,
    dataset_text_field="text",
    max_seq_length=max_seq_length,
    packing=False,
    args=TrainingArguments(
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        warmup_steps=5,
        max_steps=60,
        learning_rate=2e-4,
        fp16=not is_bfloat16_supported(),
        bf16=is_bfloat16_supported(),
        logging_steps=1,
        optim="adamw_8bit",
        weight_decay=0.01,
        lr_scheduler_type="linear",
        seed=3407,
        output_dir="outputs",
        report_to="none",
    ),
)
trainer_stats = trainer.train()
FastLanguageModel.for_inference(model)
model.save_pretrained("lora_model")
tokenizer.save_pretrained("lora_model")

if False:  # load it again
    model, tokenizer = FastLanguageModel.from_pretrained(model_name="lora_model", max_seq_length=max_seq_length)
if False:
    model.save_pretrained_merged("model", tokenizer, save_method="merged_16bit")
