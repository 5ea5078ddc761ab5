"""neftune_noise_alpha: SFTTrainer's batches carry it; other trainers' ports name it."""

from __future__ import annotations

from .porting import HEAD, check_becomes, port


def test_sft_has_the_noise_by_either_name() -> None:
    config = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out', neftune_noise_alpha=5), train_dataset=rows)"
    check_becomes(f"{HEAD}{config}\ntrainer.train()\n", "neftune_noise_alpha=5")
    older = config.replace(", neftune_noise_alpha=5)", ")").replace("rows)", "rows, neftune_noise_alpha=5)")
    check_becomes(f"{HEAD}{older}\ntrainer.train()\n", "neftune_noise_alpha=5", source_trl="0.12")


def test_other_trainers_name_it() -> None:
    text = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from data import collate, rows

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", neftune_noise_alpha=5)
trainer = Trainer(model, args, data_collator=collate, train_dataset=rows)
trainer.train()
"""
    found = port(text)
    assert found.status == "partial" and "neftune" in found.after
    assert [finding.line for finding in found.findings if "no noise on its embeddings" in finding.message] == [6]
    assert port(text.replace("neftune_noise_alpha=5", "neftune_noise_alpha=None")).status == "ported"
