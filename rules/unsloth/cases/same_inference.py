from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("lora_model", max_seq_length=2048)
FastLanguageModel.for_inference(model)
print(tokenizer.decode(model.generate(**tokenizer("Hello", return_tensors="pt").to("cuda"))[0]))
