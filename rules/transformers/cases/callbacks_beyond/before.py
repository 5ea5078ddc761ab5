from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback
from transformers.integrations import WandbCallback
from trl import SFTConfig, SFTTrainer


class Sample(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % args.eval_steps == 0:
            control.should_save = True
            print(model.generate(kwargs["processing_class"]("Hello", return_tensors="pt")))

    def on_optimizer_step(self, args, state, control, **kwargs):
        print(state.total_flos)


trainer = SFTTrainer(
    model="Qwen/Qwen2.5-7B-Instruct",
    args=SFTConfig(output_dir="out", report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
    callbacks=[Sample(), WandbCallback()],
)
trainer.train()
