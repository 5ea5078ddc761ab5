"""What a run leaves beside its weights: files of metrics, and the settings that are saved with a model."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port, sft_script

LORA = ", peft_config=LoraConfig(r=8)"
SET = "model.generation_config.eos_token_id = 7\n"


def test_metrics_are_printed_and_written_where_the_trainer_writes_them() -> None:
    after = """\
result = trainer.train()
metrics = result.metrics
metrics["train_samples"] = 7
trainer.log_metrics("train", metrics)
trainer.save_metrics("train", metrics)
trainer.save_metrics(split="eval", metrics=trainer.evaluate(), combined=False)
trainer.save_state()
"""
    found = check_becomes(
        sft_script(trainer=", eval_dataset=load_dataset('some/rows', split='test')", after=after),
        "result = rt.train_result(trainer, batches)\n",
        'rt.log_metrics("train", metrics)\n',
        'rt.save_metrics("out", "train", metrics)\n',
        'rt.save_metrics("out", split="eval", metrics=rt.evaluate(trainer, eval_batches), combined=False)\n',
        gone=("save_state",),
    )
    said = [finding.message for finding in found.findings if finding.rule == "TP133"]
    assert [message.count("total_flos") for message in said] == [1]


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ("print(result.metrics)", True),
        ("found = {'metrics': dict(result.metrics)}", True),
        ("metrics = result.metrics\nprint(metrics)", True),
        ("metrics = result.metrics\nprint(metrics['train_loss'])", False),
        ("print(result.metrics.get('train_runtime'), result.training_loss)", False),
    ],
)
def test_what_is_not_measured_is_said_where_a_script_shows_all_itself(reads: str, said: bool) -> None:
    found = port(sft_script(after=f"result = trainer.train()\n{reads}"))
    assert any("lack total_flos" in finding.message for finding in found.findings) is said


def test_in_another_function_the_trainer_says_where() -> None:
    text = f"""\
def finish(trainer):
    trainer.save_metrics("train", trainer.train().metrics)


def main(folder):
{"".join(f"    {line}".rstrip() + chr(10) for line in sft_script(after="finish(trainer)").splitlines())}

main("out")
""".replace('output_dir="out"', "output_dir=folder")
    found = port(text)
    assert (
        'rt.save_metrics(trainer.output_dir, "train", ' in found.after and "trainer.output_dir = folder" in found.after
    )


@pytest.mark.parametrize(
    ("head", "keyword", "after", "line"),
    [
        (SET, "", "", "rt.generation_config(model).eos_token_id = 7\n"),
        ("model.generation_config.do_sample = True\n", "", "", "rt.generation_config(model).do_sample = True\n"),
        (
            "",
            "",
            "print(trainer.model.generation_config.top_k)\n",
            "print(rt.generation_config(trainer.model).top_k)\n",
        ),
        (SET, LORA, "model.generate(**rows, max_new_tokens=4)\n", "rt.generation_config(model).eos_token_id = 7\n"),
        (SET, LORA, "", ""),
        ("model.generation_config.temperature = None\n", LORA, "", ""),
    ],
)
def test_generation_settings_are_kept_where_they_are_saved_or_taken(
    head: str, keyword: str, after: str, line: str
) -> None:
    text = sft_script(
        imports="from peft import LoraConfig", between=head, trainer=keyword, after=f"trainer.train()\n{after}"
    )
    found = port(text)
    assert found.status == "ported" and (line in found.after if line else "generation_config" not in found.after)


PAD = "model.config.pad_token_id = 7\n"


@pytest.mark.parametrize(
    ("keyword", "after", "kept"),
    [
        ("", "trainer.save_model()", True),
        ("", "", False),
        (LORA, "trainer.save_model()", False),
        (LORA, "trainer.model.merge_and_unload().save_pretrained('whole')", True),
    ],
)
def test_special_tokens_of_the_config_are_kept_where_it_is_saved(keyword: str, after: str, kept: bool) -> None:
    text = sft_script(
        imports="from peft import LoraConfig", between=PAD, trainer=keyword, after=f"trainer.train()\n{after}"
    )
    found = port(text)
    assert found.status == "ported" and ("rt.model_config(model).pad_token_id = 7\n" in found.after) is kept
    assert kept or "pad_token_id" not in found.after


@pytest.mark.parametrize(("keyword", "kept"), [("", True), (LORA, False)])
@pytest.mark.parametrize("name", ["rope_scaling", "attention_dropout", "attn_config"])
def test_what_a_made_model_doesnt_read_is_saved_alone_and_said(keyword: str, kept: bool, name: str) -> None:
    text = sft_script(
        imports="from peft import LoraConfig",
        between=f"model.config.{name} = {{'factor': 2.0}}",
        trainer=keyword,
        after="trainer.train()\ntrainer.save_model()",
    )
    found = port(text)
    assert found.status == "ported" and (f"rt.model_config(model).{name} = {{'factor': 2.0}}\n" in found.after) is kept
    (said,) = (f.message for f in found.findings if f.rule == "TP316")
    assert "the GPU run trains without that" in said and ("config.json" in said) is kept


@pytest.mark.parametrize("name", ["sliding_window", "final_logit_softcapping", "vocab_size", "loss_type"])
def test_what_a_made_model_reads_is_an_error(name: str) -> None:
    found = port(sft_script(between=f"model.config.{name} = None"))
    assert found.status == "partial" and f"model.config.{name}" in found.after


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("print(model.config.hidden_size)", "print(rt.model_config(model).hidden_size)"),
        ("n = getattr(model.config, 'pretraining_tp', 1)", "n = getattr(rt.model_config(model), 'pretraining_tp', 1)"),
        ("open('c', 'w').write(model.config.to_json_string())", "write(rt.model_config(model).to_json_string())"),
        ("model.config.pad_token_id = model.config.eos_token_id", "pad_token_id = rt.model_config(model).eos_token_id"),
        ("print(f'{model.config}')", "print(f'{rt.model_config(model)}')"),
    ],
)
def test_the_config_of_the_model_is_read_as_transformers_has_it(line: str, becomes: str) -> None:
    found = port(sft_script(between=line, after="trainer.train()\ntrainer.save_model()"))
    assert found.status == "ported" and becomes in found.after, found.findings


def test_what_transformers_itself_is_given_is_its_own_config() -> None:
    line = "from transformers import AutoModel\nother = AutoModel.from_config(model.config)"
    found = port(sft_script(between=line, after="trainer.train()"))
    assert "from_config(model.config)" in found.after and found.status == "partial"
