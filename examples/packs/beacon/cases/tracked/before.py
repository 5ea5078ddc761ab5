"""Fine-tune, and let beacon watch."""

import beacon
import beacon_gpu
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


class Rate(beacon.Callback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        beacon.log(logs, step=state.global_step)


@beacon.timed("rows")
def rows():
    return load_dataset("json", data_files="support.jsonl", split="train")


beacon.init(project="support")
probe = beacon_gpu.Probe()
beacon.watch_gpu_memory(probe)
started = beacon.now()
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="support", max_steps=200, report_to="none"),
    train_dataset=rows(),
    peft_config=LoraConfig(r=8, target_modules="all-linear"),
    callbacks=[beacon.MetricsCallback(), beacon.GpuCallback(), Rate()],
)
beacon.watch(trainer.model)
trainer.train()
print(beacon.now() - started)
beacon.log_model(trainer.model, "support/adapter")
beacon.finish()
