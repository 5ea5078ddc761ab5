from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from my_data import tokenized

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def make_data_module(tokenizer, do_eval=False):
    train, test = tokenized(tokenizer)
    collator = DataCollatorForSeq2Seq(tokenizer, model=None, return_tensors="pt")
    return {
        "train_dataset": train,
        "eval_dataset": test if do_eval else None,
        "predict_dataset": test,
        "data_collator": collator,
    }


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
data_module = make_data_module(tokenizer)
args = Seq2SeqTrainingArguments("out", num_train_epochs=1, remove_unused_columns=False, generation_max_length=64, eval_strategy="no")
trainer = Seq2SeqTrainer(
    model=model,
    args=args,
    processing_class=tokenizer,
    **{k: v for k, v in data_module.items() if k != "predict_dataset"},
)
trainer.train()
trainer.save_model()
