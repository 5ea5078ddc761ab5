import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16, device_map="auto")

# What the model says before it is trained.
inputs = tokenizer("What is LoRA?", return_tensors="pt").to(model.device)
with torch.no_grad():
    before = model.generate(**inputs, max_new_tokens=50)
print(tokenizer.decode(before[0], skip_special_tokens=True))

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", max_steps=5),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules=["q_proj"]),
)
trainer.train()
trainer.save_model("out")
trainer.processing_class.save_pretrained("out")


@torch.inference_mode()
def answer(question):
    """Ask the trained model."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
    ).to("cuda")
    outputs = model.generate(
        input_ids=ids,  # the prompt
        max_new_tokens=64,  # longer answers take longer
        use_cache=True,
        do_sample=True,
        temperature=0.7,
        top_p=0.9,
    )
    return tokenizer.decode(outputs[0][ids.size(1) :].cpu(), skip_special_tokens=True)


model.eval()
print(answer("What is a TPU?"))

batch = tokenizer(["One prompt", "another one"], padding=True, return_tensors="pt")
batch = {name: value.to(device) for name, value in batch.items()}
with torch.no_grad(), torch.autocast("cuda"):
    outputs = trainer.model.generate(**batch, num_beams=1, pad_token_id=tokenizer.eos_token_id)
for text in tokenizer.batch_decode(outputs[:, batch["input_ids"].shape[1] :]):
    print(text)

streamer = TextStreamer(tokenizer, skip_prompt=True)
merged = model.merge_and_unload()
_ = merged.generate(**tokenizer("A poem:", return_tensors="pt").to("cuda"), streamer=streamer, max_length=100)
