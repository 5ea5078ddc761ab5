from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


class FineTuner:
    """Loads, trains and saves one model."""

    def __init__(self, model_name: str, output_dir: str = "out"):
        self.model_name = model_name
        self.output_dir = output_dir
        self.model = None
        self.tokenizer = None
        self.trainer = None

    def load(self):
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_name)
        self.model = AutoModelForCausalLM.from_pretrained(self.model_name, torch_dtype="bfloat16")
        self.model.config.use_cache = False
        self.lora_config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])

    def configure(self, epochs: int):
        self.args = SFTConfig(output_dir=self.output_dir, num_train_epochs=epochs, report_to="none")

    def train(self, dataset):
        self.trainer = SFTTrainer(
            model=self.model,
            args=self.args,
            train_dataset=dataset,
            processing_class=self.tokenizer,
            peft_config=self.lora_config,
        )
        self.trainer.train()

    def save(self):
        self.trainer.save_model()
        self.tokenizer.save_pretrained(self.output_dir)
        self.model.save_pretrained("out/again")


tuner = FineTuner("Qwen/Qwen3-0.6B")
tuner.load()
tuner.configure(epochs=1)
tuner.train(load_dataset("trl-lib/Capybara", split="train"))
tuner.save()
