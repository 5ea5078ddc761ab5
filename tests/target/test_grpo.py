"""GRPO ports: what is said at port time, and which values are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from tests.engine.porting import port

SCRIPT = """from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

{functions}

trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs={rewards},
    args=GRPOConfig(output_dir="out", {arguments}),
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
)
trainer.train()
"""
GOOD = "def reward(completions, **kwargs):\n    return [1.0] * len(completions)"


def script(arguments: str = "", rewards: str = "reward", functions: str = GOOD) -> str:
    return SCRIPT.format(arguments=arguments, rewards=rewards, functions=functions)


def errors(text: str, **options: object) -> list[str]:
    found = port(text, **options)
    assert found.status == ("partial" if any(f.severity == "error" for f in found.findings) else "ported")
    return [finding.message for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize(("release", "cuts"), [("0.25.1", True), ("0.26.0", False), ("0.27.2", False)])
def test_prompts_are_cut_by_the_releases_that_do(release: str, cuts: bool) -> None:
    found = port(script("max_prompt_length=9, num_generations=4"), source_trl=release)
    assert ("max_prompt_length=9" in found.after) == cuts
    said = [finding for finding in found.findings if finding.message.startswith("GRPOConfig.max_prompt_length=9: ")]
    assert [finding.severity for finding in said] == ([] if cuts else ["warning"])
    rloo = script("max_prompt_length=9, num_generations=4").replace("GRPO", "RLOO")
    cuts_in_rloo = not release.startswith("0.27")
    assert ("max_prompt_length=9" in port(rloo, source_trl=release).after) == cuts_in_rloo


@pytest.mark.parametrize(
    ("release", "settings", "makes_own", "written"),
    [
        ("0.23.1", "use_vllm=True", False, ["trl"]),
        ("0.25.1", "", False, ["trl"]),
        ("0.25.1", "", True, ["trl", "truncation_side"]),
        ("0.25.1", "use_vllm=True", False, ["trl", "start_token", "truncation_side"]),
        ("0.26.2", "", False, ["trl"]),
        ("0.27.0", "", False, []),
    ],
)
@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_prompts_are_made_as_in_the_release(
    release: str, settings: str, makes_own: bool, written: list[str], kind: str
) -> None:
    text = script(settings).replace("GRPO", kind)
    given = "" if makes_own else ", processing_class=AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')"
    text = text.replace("reward_funcs=", f"{given.removeprefix(', ')}{', ' if given else ''}reward_funcs=")
    found = port(f"from transformers import AutoTokenizer\n{text}", source_trl=release).after
    expected = written
    names = ("trl=", "start_token=", "truncation_side=")
    assert [name[:-1] for name in names if f"    {name}" in found] == expected


@pytest.mark.parametrize(
    ("release", "alone"), [("0.15.2", False), ("0.27.2", True), ("1.14.1", True), ("1.14.2", False)]
)
def test_completions_end_as_in_the_release(release: str, alone: bool) -> None:
    assert ("only_eos_token=True" in port(script("num_generations=4"), source_trl=release).after) == alone


@pytest.mark.parametrize(("release", "dealing"), [("0.16.1", "in_order"), ("0.17.0", "split"), ("0.18.0", None)])
def test_completions_are_dealt_as_in_the_release(release: str, dealing: str | None) -> None:
    found = port(script("num_generations=4"), source_trl=release).after
    assert (f'dealing="{dealing}"' in found) if dealing else ("dealing=" not in found)


@pytest.mark.parametrize(
    ("pins", "arguments", "written", "named"),
    [
        ("trl==0.19.1\ntransformers==4.55.4", "", '"defaults"', "temperature, top_p, min_p, repetition_penalty"),
        ("trl==0.17.0\ntransformers==4.51.3", "temperature=0.9, top_p=0.8", '"defaults"', "top_k, min_p, repetition_"),
        ("trl==0.19.1\ntransformers==4.55.4", "use_vllm=True", "", ""),
        ("trl==0.19.1\ntransformers==4.55.4", "use_vllm=VLLM", 'None if VLLM else "defaults"', "temperature"),
        ("trl==0.26.2\ntransformers==4.57.6", "", "", ""),
        ("trl==0.15.2\ntransformers==4.49.0", "", "", ""),
        ("trl==1.16.0", "", "", ""),
        ("trl==1.16.0", "top_k=None", '"unset"', "top_k"),
    ],
)
def test_what_the_checkpoint_samples_with_is_written_and_said(
    tmp_path: Path, pins: str, arguments: str, written: str, named: str
) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    (tmp_path / "train.py").write_text(
        "import os\nVLLM = 'X' in os.environ\n" + script(f"num_generations=4, {arguments}")
    )
    found = port_file(tmp_path / "train.py")
    assert (f"checkpoint_fills={written}" in found.after) if written else ("checkpoint_fills" not in found.after)
    said = [f for f in found.recipe.findings if "generation_config.json" in f.message and f.severity == "info"]
    assert len(said) == bool(written) and all(f"({named}" in finding.message for finding in said)
    assert all(("so does the port, unless VLLM: " in each.message) == ("VLLM" in written) for each in said)


def test_a_good_script_needs_nobody() -> None:
    assert errors(script("num_generations=4, use_vllm=True, log_completions=True")) == []


@pytest.mark.parametrize(("kind", "fate", "written"), [("dapo", "dropped", False), ("sapo", "exact", True)])
def test_a_setting_of_another_loss_is_not_said_to_be_kept(kind: str, fate: str, written: bool) -> None:
    found = port(script(f"loss_type='{kind}', sapo_temperature_pos=2.0"))
    (row,) = [row for row in found.fields if row.source.endswith(".sapo_temperature_pos")]
    assert (row.fate, "sapo_temperature_pos=2.0" in found.after) == (fate, written)


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ("def reward(texts):\n    return texts", "takes no completions and no prompts"),
        ("def reward(completions):\n    return completions", "takes no prompts"),
        ("def reward(prompts, answers):\n    return prompts", "takes no completions"),
        ("reward = lambda completions: completions", "lambda takes no prompts"),
    ],
)
def test_a_reward_function_that_neither_side_calls(functions: str, said: str) -> None:
    (message,) = errors(script(functions=functions))
    assert said in message


@pytest.mark.parametrize(
    "functions", ["def reward(prompts, completions):\n    return [0]", "def reward(prompts, completions, answer): ..."]
)
def test_reward_functions_of_older_releases(functions: str) -> None:
    assert errors(script(functions=functions)) == []


@pytest.mark.parametrize("rewards", ['"org/reward-model"', '[reward, "org/reward-model"]', "[reward, model]"])
def test_reward_models_are_refused(rewards: str) -> None:
    made = "from transformers import AutoModelForSequenceClassification\n"
    made += 'model = AutoModelForSequenceClassification.from_pretrained("org/reward-model")\n'
    (message, *_) = errors(script(rewards=rewards, functions=made + GOOD))
    assert "is a reward model, which runs on PyTorch" in message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('loss_type="grop"', "this is not known; choose one of grpo, dr_grpo, dapo"),
        ('importance_sampling_level="word"', "choose one of token, sequence"),
        ('scale_rewards="all"', "is not known"),
        ("num_generations=3", "num_generations=3 does not divide the generation batch of 8 completions"),
        ("num_generations=1", "at least 2 completions"),
        ("generation_batch_size=12", "does not divide the generation batch of 12"),
        ('eval_strategy="steps"', "doesn't sample to evaluate"),
        ("sync_ref_model=True, beta=0.1", "sync_ref_model=True"),
        ("entropy_coef=0.1", "no entropy term"),
        ("remove_unused_columns=True", "select_columns"),
        ('vllm_structured_outputs_regex="a+"', "bound to a pattern"),
    ],
)
def test_values_that_can_t_be_trained_with(arguments: str, said: str) -> None:
    assert any(said in message for message in errors(script(arguments)))


def test_processes_count_for_the_generation_batch() -> None:
    assert errors(script("per_device_train_batch_size=1, num_generations=8"), processes=8) == []
    assert errors(script("per_device_train_batch_size=1, num_generations=8"), processes=4) != []


@pytest.mark.parametrize(("trl", "ends"), [("0.16.1", True), ("0.15.2", True), ("0.17.0", False)])
def test_micro_steps_that_are_sampled_one_by_one_hold_whole_groups(trl: str, ends: bool) -> None:
    given = "per_device_train_batch_size=2, gradient_accumulation_steps=4, num_generations=8"
    found = errors(script(given), source_trl=trl)
    said = f"does not divide the 2 completions of a micro-step, as TRL {trl} asks: the source ends at its start"
    assert any(said in message for message in found) == ends
    assert not any("does not divide" in message for message in errors(script(given), source_trl=trl, processes=4))


def test_both_ways_to_count_a_batch_are_shown() -> None:
    found = port(script("per_device_train_batch_size=4, gradient_accumulation_steps=2, num_generations=4"), processes=2)
    (row,) = [row for row in found.recipe.fields if row.source == "generation batch"]
    assert row.value == "16 completions sampled at once = 4 prompts x 4"
    assert "batch_size=8,  # 4 a GPU on 2 GPUs" in found.after


@pytest.mark.parametrize(
    ("release", "written"),
    [
        ("1.16.0", ['PolicyLoss("dapo")', "max_completion_length=512"]),
        ("1.0.0", ['PolicyLoss("dapo")', "max_completion_length=256"]),
        ("0.26.0", ['PolicyLoss("dapo")']),
        ("0.21.0", ['PolicyLoss("bnpo")', "max_prompt_length=512"]),
        ("0.17.0", ['PolicyLoss("bnpo", beta=0.04, use_bias_correction_kl=False)', "top_k=50", "temperature=0.9"]),
        ("0.15.0", ['PolicyLoss("grpo", beta=0.04, use_bias_correction_kl=False)', "temperature=0.9"]),
    ],
)
def test_defaults_of_older_releases(release: str, written: list[str]) -> None:
    after = port(script(), source_trl=release).after
    for text in written:
        assert text in after


def test_evaluating_is_refused() -> None:
    (message,) = errors(script().replace("trainer.train()", "trainer.train()\nprint(trainer.evaluate())"))
    assert "doesn't sample to evaluate" in message


def test_the_first_release_counted_prompts() -> None:
    assert any("counts prompts" in message for message in errors(script("num_generations=8"), source_trl="0.14.0"))


def test_a_config_that_only_the_script_knows() -> None:
    text = (
        script()
        .replace("trainer = GRPO", "args = GRPOConfig(output_dir='out')\nargs.beta = 0.1\ntrainer = GRPO")
        .replace('args=GRPOConfig(output_dir="out", )', "args=args")
    )
    after = port(text).after
    assert "from porter.runtime.arguments import GRPOConfig" in after
    assert "rt.GRPOBatches.from_args(" in after and "reward_funcs=reward" in after


REFUSED = {
    "PPOTrainer": "GRPO and a reward function",
    "GOLDTrainer": "GKDTrainer",
    "DistillationTrainer": "lmbda=1.0",
    "RewardTrainer": "DPOTrainer",
    "PRMTrainer": "DPOTrainer",
    "OnlineDPOTrainer": "judge",
    "NashMDTrainer": "judge",
    "XPOTrainer": "judge",
    "AlignPropTrainer": "GPU",
    "DDPOTrainer": "GPU",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_to_do(name: str) -> None:
    found = port(f"from trl import {name}\nt = {name}(model)\nt.train()\n")
    (finding,) = found.findings
    assert found.status == "unsupported" and not found.edits
    assert name in finding.message and REFUSED[name] in finding.fix and len(finding.message) > 60


def test_a_setting_of_another_loss_is_not_written() -> None:
    assert "sapo" not in port(script('loss_type="dapo", sapo_temperature_pos=2.0')).after
    assert "sapo_temperature_pos=2.0" in port(script('loss_type="sapo", sapo_temperature_pos=2.0')).after


EVALUATES = 'eval_strategy="steps", eval_steps=5, save_strategy="steps", load_best_model_at_end=True'


@pytest.mark.parametrize("more", ["", ", generation_kwargs=further()"])
def test_evaluation_is_named_also_where_the_config_stays_an_object(more: str) -> None:
    found = port(script(EVALUATES + more))
    assert any("doesn't sample to evaluate" in f.message and f.severity == "error" for f in found.recipe.findings)
    if not more:  # without evaluation no checkpoint is the best
        assert "best" not in found.after.lower()


@pytest.mark.parametrize(("default", "status"), [('"steps"', "partial"), ('"no"', "ported"), ("None", "ported")])
def test_evaluation_that_the_run_asks_for(default: str, status: str) -> None:
    parser = f"p = argparse.ArgumentParser()\np.add_argument('--e', default={default})\na = p.parse_args()\n"
    found = port(f"import argparse\n{parser}" + script("bf16=False, eval_strategy=a.e, learning_rate=float(a.e or 1)"))
    assert found.status == status, found.findings
    (row,) = [field for field in found.fields if field.source.endswith("eval_strategy")]
    assert row.fate == "changed" and "doesn't sample to evaluate" in row.reason


@pytest.mark.parametrize(
    ("engine", "written"), [("True", ""), ("False", '"defaults"'), ("VLLM", 'None if VLLM else "de')]
)
def test_unsloths_vllm_is_told_every_setting(tmp_path: Path, engine: str, written: str) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\ntransformers==4.57.0\nunsloth==2025.11.1\n")
    (tmp_path / "train.py").write_text(
        "import os\nfrom unsloth import FastLanguageModel\nfrom datasets import load_dataset\n"
        "from trl import GRPOConfig, GRPOTrainer\nVLLM = 'X' in os.environ\n"
        f"model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', fast_inference={engine})\n"
        "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'], lora_alpha=8)\n"
        "trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=lambda prompts, **_: [0.0],\n"
        "    args=GRPOConfig('out', temperature=1.0, top_p=1.0), train_dataset=load_dataset('a/b')['train'])\n"
        "trainer.train()\n"
    )
    after = port_file(tmp_path / "train.py").after
    alone = {"True": "", "False": "only_eos_token=True", "VLLM": "only_eos_token=not VLLM"}[engine]
    assert alone in after if alone else "only_eos_token" not in after  # vLLM ends at every end token
    assert (f"checkpoint_fills={written}" in after) if written else ("checkpoint_fills" not in after and "rt." in after)


@pytest.mark.parametrize(
    ("release", "settings", "written"),
    [
        ("0.15.2", "", ("temperature=0.9", "top_k=50", "loss_temperature=1.0")),
        ("0.15.2", "temperature=1.0", ("top_k=50",)),
        ("0.15.2", "use_vllm=True", ("temperature=0.9", "loss_temperature=1.0")),
        ("0.16.1", "use_vllm=True", ("temperature=0.9", "top_k=50")),
    ],
)
def test_sampling_settings_of_before_trl_0_16(release: str, settings: str, written: tuple[str, ...]) -> None:
    after = port(script(settings), source_trl=release).after
    found = [word for word in ("temperature=0.9", "top_k=50", "loss_temperature=1.0") if word in after]
    assert set(found) == set(written)
    assert ('leftovers="trained"' in after) is (release == "0.15.2")


@pytest.mark.parametrize(
    ("pins", "accumulation", "written"),
    [
        ("trl==0.17.0\ntransformers==4.51.3", 4, True),
        ("trl==0.19.1\ntransformers==4.52.4", "int(input())", True),
        ("trl==0.17.0\ntransformers==4.51.3", 1, False),
        ("trl==0.19.1\ntransformers==4.53.0", 4, False),
        ("trl==0.26.2\ntransformers==4.57.6", 4, False),
    ],
)
def test_a_short_step_is_divided_as_transformers_did(
    tmp_path: Path, pins: str, accumulation: object, written: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    (tmp_path / "train.py").write_text(script(f"gradient_accumulation_steps={accumulation}"))
    after = port_file(tmp_path / "train.py").after
    assert ("divides_by_made=False" in after) is written and "rt.GRPOBatches(" in after


@pytest.mark.parametrize(
    ("held", "prompt", "completion", "said", "severity"),
    [
        ("512", "200", "500", "are 700", "warning"),
        ("1024", "200", "500", "no more tokens together", ""),
        ("LENGTH", "200", "LENGTH - 200", "no more tokens together", ""),
        ("LENGTH", "200", "LENGTH // 4 * 3", "so many tokens together", "info"),
        ("LENGTH", "LENGTH // 2", "LENGTH // 2", "no more tokens together", ""),
        ("LENGTH", "PROMPT", "LENGTH - PROMPT", "no more tokens together", ""),
        ("LENGTH", "PROMPT", "LENGTH // 2", "so many tokens together", "info"),
    ],
)
def test_a_length_of_unsloths_model_holds_prompt_and_completion(
    tmp_path: Path, held: str, prompt: str, completion: str, said: str, severity: str
) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\ntransformers==4.57.0\nunsloth==2025.11.1\n")
    (tmp_path / "train.py").write_text(
        "import os\nfrom unsloth import FastLanguageModel\nfrom datasets import load_dataset\n"
        "from trl import GRPOConfig, GRPOTrainer\nLENGTH, PROMPT = int(os.environ['X']), int(os.environ['Y'])\n"
        f"model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', max_seq_length={held})\n"
        "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'], lora_alpha=8)\n"
        "trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=lambda prompts, **_: [0.0],\n"
        f"    args=GRPOConfig('out', max_prompt_length={prompt}, max_completion_length={completion}),\n"
        "    train_dataset=load_dataset('a/b')['train'])\n"
        "trainer.train()\n"
    )
    found = port_file(tmp_path / "train.py")
    (row,) = [field for field in found.fields if field.source == "FastLanguageModel.max_seq_length"]
    told = [(f.severity, f.message) for f in found.findings if "max_seq_length=" in f.message]
    assert [each for each, _ in told] == ([severity] if severity else [])
    assert said in (told[0][1] if told else row.reason)


@pytest.mark.parametrize(
    ("release", "named", "engine"),
    [
        ("2025.6.1", "'google/gemma-3-1b-it'", False),
        ("2025.6.1", "cfg['model']", False),
        ("2025.6.1", "'unsloth/Qwen3-0.6B'", True),
        ("2025.11.1", "'google/gemma-3-1b-it'", True),
    ],
)
def test_unsloths_vllm_is_there_for_its_own_models(tmp_path: Path, release: str, named: str, engine: bool) -> None:
    trl, transformers = ("0.18.1", "4.52.4") if release == "2025.6.1" else ("0.24.0", "4.57.0")
    (tmp_path / "requirements.txt").write_text(f"trl=={trl}\ntransformers=={transformers}\nunsloth=={release}\n")
    (tmp_path / "run.yaml").write_text("model: google/gemma-3-1b-it\n")
    (tmp_path / "train.py").write_text(
        "import yaml\nfrom unsloth import FastLanguageModel\nfrom datasets import load_dataset\n"
        "cfg = yaml.safe_load(open('run.yaml'))\n"
        "from trl import GRPOConfig, GRPOTrainer\n"
        f"model, tokenizer = FastLanguageModel.from_pretrained({named}, fast_inference=True)\n"
        "model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'], lora_alpha=8)\n"
        "trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=lambda prompts, **_: [0.0],\n"
        "    args=GRPOConfig('out', temperature=1.0, top_p=1.0), train_dataset=load_dataset('a/b')['train'])\n"
        "trainer.train()\n"
    )
    found = port_file(tmp_path / "train.py")
    assert ("only_eos_token=True" in found.after) is not engine
    assert any("makes no vLLM" in each.message for each in found.findings) is not engine


@pytest.mark.parametrize(
    ("release", "settings", "fate"),
    [
        ("0.18.1", "use_vllm=True, max_prompt_length=9", "changed"),
        ("0.18.1", "use_vllm=True", "info"),
        ("0.18.1", "max_prompt_length=9", "exact"),
        ("0.19.1", "use_vllm=True, max_prompt_length=9", "exact"),
    ],
)
def test_vllm_was_told_whole_prompts(release: str, settings: str, fate: str) -> None:
    found = port(script(settings), source_trl=release)
    rows = [row for row in found.fields if row.source == "GRPOConfig.max_prompt_length"]
    told = [each.severity for each in found.findings if "the whole of a longer prompt" in each.message]
    assert [row.fate for row in rows] + told == [fate]
