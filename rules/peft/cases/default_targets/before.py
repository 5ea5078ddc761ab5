from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

peft_config = LoraConfig(task_type="CAUSAL_LM")
trainer = SFTTrainer(
    model="meta-llama/Llama-3.2-3B",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none", model_init_kwargs={"dtype": "float32"}, bf16=False),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=peft_config,
)
trainer.train()
trainer.model.print_trainable_parameters()
trainer.save_model("out/adapter")
