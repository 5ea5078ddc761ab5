import os

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import SFTConfig, SFTTrainer


class SavePeftModelCallback(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        folder = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}", "adapter_model")
        kwargs["model"].save_pretrained(folder)
        kwargs["tokenizer"].save_pretrained(folder)
        return control


class Sample(TrainerCallback):
    def __init__(self, prompts):
        self.prompts = prompts

    def on_epoch_begin(self, args, state, control, **kwargs):
        model = kwargs.get("model")
        print(f"epoch {state.epoch}: {sum(p.numel() for p in model.parameters())} parameters")

    def on_evaluate(self, args, state, control, model=None, processing_class=None, **kwargs):
        model.eval()
        for prompt in self.prompts:
            print(complete(model, processing_class, prompt))
        model.train()


def complete(model, tokenizer, prompt):
    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    with torch.no_grad():
        outputs = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    return tokenizer.decode(outputs[0], skip_special_tokens=True)


def main():
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
    policy = get_peft_model(policy, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    rows = load_dataset("trl-lib/Capybara")
    trainer = SFTTrainer(
        model=policy,
        args=SFTConfig(output_dir="out", max_steps=10, save_steps=5, eval_strategy="steps", eval_steps=5),
        train_dataset=rows["train"],
        eval_dataset=rows["test"],
        processing_class=tokenizer,
        callbacks=[SavePeftModelCallback(), Sample(["Once upon a time"])],
    )
    trainer.train()


main()
