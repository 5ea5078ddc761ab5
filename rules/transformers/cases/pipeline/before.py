import transformers
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="auto")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", max_steps=5),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=tokenizer,
)
trainer.train()

pipe = pipeline("text-generation", model=model, tokenizer=tokenizer, device_map="auto", max_new_tokens=50)
prompt = pipe.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
print(pipe(prompt, do_sample=False, disable_compile=True)[0]["generated_text"][len(prompt) :])

chat = transformers.pipeline(task="text-generation", model=trainer.model, tokenizer=tokenizer, torch_dtype="auto")
print(chat([{"role": "user", "content": "Hi"}], return_full_text=False, num_beams=2))

other = pipeline("text-generation", model="openai-community/gpt2")
classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
