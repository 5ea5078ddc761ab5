import argparse

from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output-dir", default="out")
    args = parser.parse_args()

    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate, mixed_precision="bf16")
    set_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model)

    def tokenize(rows):
        ids = tokenizer(rows["output"], truncation=True, max_length=64, padding="max_length")
        ids["labels"] = ids["input_ids"].copy()
        return ids

    with accelerator.main_process_first():
        dataset = load_dataset("json", data_files="train.jsonl", split="train")
        dataset = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)
    train_dataloader = DataLoader(
        dataset, shuffle=True, collate_fn=default_data_collator, batch_size=args.batch_size, pin_memory=True
    )
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    lr_scheduler = get_scheduler(
        "cosine", optimizer=optimizer, num_warmup_steps=0, num_training_steps=len(train_dataloader) * args.epochs
    )
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, lr_scheduler
    )

    for epoch in range(args.epochs):
        model.train()
        for batch in train_dataloader:
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {loss.item()}")

    accelerator.wait_for_everyone()
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
