"""A class loads in one method, configures in another, trains in a third and saves in a fourth."""

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


class FineTuner:
    def __init__(self, model_name, output_dir):
        self.model_name = model_name
        self.output_dir = output_dir
        self.trainer = None

    def load(self):
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_name)
        self.model = AutoModelForCausalLM.from_pretrained(self.model_name, dtype="float32")
        self.model.config.use_cache = False
        self.lora_config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])

    def configure(self, learning_rate):
        self.args = SFTConfig(
            output_dir=self.output_dir,
            max_steps=4,
            learning_rate=learning_rate,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            max_length=64,
            report_to="none",
        )

    def prepare(self, texts):
        return Dataset.from_list([{"text": text} for text in texts])

    def train(self, texts):
        self.trainer = SFTTrainer(
            model=self.model,
            args=self.args,
            train_dataset=self.prepare(texts),
            processing_class=self.tokenizer,
            peft_config=self.lora_config,
        )
        self.trainer.train()

    def save(self):
        self.trainer.save_model()
        self.tokenizer.save_pretrained(self.output_dir)


if __name__ == "__main__":
    tuner = FineTuner("Qwen/Qwen3-0.6B", "out")
    tuner.load()
    tuner.configure(learning_rate=1e-3)
    tuner.train([f"The capital of country {i} is city {i * 7 % 23}." * (1 + i % 3) for i in range(24)])
    tuner.save()
