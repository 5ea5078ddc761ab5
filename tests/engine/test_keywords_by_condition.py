"""Dictionaries of keywords that are filled step by step, or of which a condition chooses one."""

from __future__ import annotations

import pytest

from .porting import HEAD, PLAIN, check_becomes, port


def test_keywords_that_are_filled_step_by_step() -> None:
    filled = (
        "kw = {'model': 'Qwen/Qwen3-0.6B', 'args': SFTConfig('out')}\nkw['train_dataset'] = rows\n"
        "if len(rows) > 9:\n    kw['peft_config'] = LoraConfig(r=4)\ntrainer = SFTTrainer(**kw)\ntrainer.train()\n"
    )
    check_becomes(
        f"from peft import LoraConfig\n{HEAD}{filled}",
        'training_args = kw["args"]\n',
        "rt.SFTBatches.from_args(training_args, rows,",
        'peft_config = kw.get("peft_config")\nif peft_config is not None:\n',
    )
    found = port(
        f"from peft import LoraConfig\n{HEAD}{filled.replace('trainer =', 'kw.pop(1)' + chr(10) + 'trainer =')}"
    )
    assert found.status == "partial"


HALF = ', "bfloat16" if kw.get("quantization_config") is not None else "float32"'  # bitsandbytes' weights need a type


@pytest.mark.parametrize(("release", "missing"), [("1.6.0", ""), ("0.12.2", HALF)])
def test_keywords_of_a_dictionary_that_is_one_of_two(release: str, missing: str) -> None:
    made = "kw = {'quantization_config': bits, 'token': key} if len(rows) > 9 else {'torch_dtype': 'bfloat16'}\n"
    load = f"{made}m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', **kw)\n"
    imports = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
    config = "bits = BitsAndBytesConfig(load_in_4bit=True)\n"
    head = f"{imports}{HEAD}key = None\n{config}"
    text = f"{head}{load}{PLAIN.removeprefix(HEAD)}".replace("SFTTrainer('Qwen/Qwen3-0.6B'", "SFTTrainer(m")
    check_becomes(text, f'dtype=kw.get("torch_dtype"{missing}),', source_trl=release)
    assert port(text.replace("else {'torch_dtype': 'bfloat16'}", "else keywords()")).status == "partial"


def test_keywords_by_condition_at_the_call() -> None:
    head = f"from peft import LoraConfig\n{HEAD}wanted = len(rows) > 9\npeft = LoraConfig(r=4) if wanted else None\n"
    length = "**({'max_length': len(rows)} if wanted else {'packing': True})"
    keywords = "**({'peft_config': peft} if peft is not None else {})"
    text = f"{head}trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows, {keywords})\n"
    text += "trainer.train()\n"
    check_becomes(text, "if peft is not None:\n    model = rt.apply_peft(model, peft, mesh", gone=("LoraConfig(r=4)}",))
    older = text.replace("SFTConfig('out')", f"SFTConfig('out'), {length}").replace("max_length", "max_seq_length")
    found = port(older, source_trl="0.12.2")
    assert "max_length=(len(rows) if wanted else 1024)" in found.after
    assert "packing=(True if not wanted else False)" in found.after


def test_what_a_dictionary_of_keywords_loaded_is_not_loaded_again() -> None:
    text = f"{HEAD}kw = dict(train_dataset=load_dataset('y'), args=SFTConfig('out'))\n"
    after = check_becomes(f"{text}trainer = SFTTrainer('Qwen/Qwen3-0.6B', **kw)\ntrainer.train()\n").after
    assert after.count("load_dataset('y')") == 1 and 'kw["train_dataset"]' in after


def test_settings_that_depend_on_a_condition_stay_an_object() -> None:
    filled = "kw = {'output_dir': 'out'}\nif len(rows) > 9:\n    kw['max_steps'] = 7\n"
    text = PLAIN.replace("trainer = ", f"{filled}trainer = ").replace("SFTConfig('out')", "SFTConfig(**kw)")
    check_becomes(text, "training_args = SFTConfig(**kw)\n", "rt.SFTBatches.from_args(training_args, rows,")
