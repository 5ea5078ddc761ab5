import jax
import jax.numpy as jnp
import optax
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import LoraConfig, SFTConfig

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


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
        self.model = rt.load_model(self.model_name, mesh, dtype=jnp.bfloat16)
        self.lora_config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])

    def configure(self, epochs: int):
        self.args = SFTConfig(output_dir=self.output_dir, num_train_epochs=epochs, report_to="none")

    def train(self, dataset):
        batches = rt.SFTBatches.from_args(
            self.args,
            dataset,
            self.tokenizer,
            mesh,
            mean_over=rt.mean_over(self.model, "5.12.1"),  # by micro-batch for multimodal models alone
        )
        self.model = rt.apply_peft(self.model, self.lora_config, mesh, seed=self.args.seed)
        if self.args.gradient_checkpointing:
            self.model = rt.remat(self.model)

        schedule = rt.hf_schedule(
            self.args.lr_scheduler_type,
            self.args.learning_rate,
            warmup_steps=self.args.warmup_steps,
            steps=batches.steps,
            kwargs=self.args.lr_scheduler_kwargs,
        )
        optimizer = optax.chain(
            rt.separate_kv(self.model),  # PEFT trains K and V apart, also where Tunix holds them in one tensor
            rt.clip_by_global_norm(self.args.max_grad_norm),
            rt.hf_optimizer(
                self.args.optim,
                schedule,
                b1=self.args.adam_beta1,
                b2=self.args.adam_beta2,
                eps=self.args.adam_epsilon,
                weight_decay=self.args.weight_decay,
                args=self.args.optim_args,
            ),
        )
        self.trainer = PeftTrainer(
            self.model, optimizer, rt.training_config(self.args, batches)
        ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
        self.trainer.with_training_hooks(rt.training_hooks(self.args, batches, schedule))
        with mesh:
            self.trainer.train(batches)

    def save(self):
        rt.save_adapter(self.model, self.args.output_dir, tokenizer=self.tokenizer)
        self.tokenizer.save_pretrained(self.output_dir)
        rt.save_adapter(self.model, "out/again")


tuner = FineTuner("Qwen/Qwen3-0.6B")
tuner.load()
tuner.configure(epochs=1)
tuner.train(load_dataset("trl-lib/Capybara", split="train"))
tuner.save()
