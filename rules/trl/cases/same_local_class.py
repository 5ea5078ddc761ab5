"""A class of that name, but not TRL's."""


class SFTTrainer:
    def __init__(self, model, args=None, train_dataset=None):
        self.model = model

    def train(self):
        return self.model


class SFTConfig(dict):
    pass


trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(output_dir="out"), train_dataset=[])
trainer.train()
