"""Distillation ports: where the teacher comes from, who samples, and what is said at port time."""

from __future__ import annotations

import pytest

from tests.engine.porting import port

SCRIPT = """from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl.experimental.gkd import GKDConfig, GKDTrainer

{before}
trainer = GKDTrainer(
    "Qwen/Qwen2.5-0.5B",{teacher}
    args=GKDConfig(output_dir="out", {arguments}),
    train_dataset=load_dataset("trl-lib/chatbot_arena_completions", split="train"),
)
trainer.train({resume})
"""
NAMED = ' teacher_model="Qwen/Qwen3-4B",'


def script(arguments: str = "", teacher: str = NAMED, before: str = "", resume: str = "") -> str:
    return SCRIPT.format(arguments=arguments, teacher=teacher, before=before, resume=resume)


@pytest.mark.parametrize(
    ("teacher", "before", "line"),
    [
        (NAMED, "", 'teacher = rt.load_model("Qwen/Qwen3-4B", mesh)'),
        (" teacher_model=TEACHER,", 'TEACHER = "Qwen/Qwen3-4B"', "teacher = rt.load_model(TEACHER, mesh)"),
        (
            " teacher_model=AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-4B', dtype='bfloat16'),",
            "",
            "teacher = rt.load_model('Qwen/Qwen3-4B', mesh, dtype=jnp.bfloat16)",
        ),
        (
            " teacher_model=big,",
            "big = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-4B')",
            "big = rt.load_model('Qwen/Qwen3-4B', mesh)",
        ),
        (
            " teacher_model=AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-4B', load_in_4bit=True),",
            "",
            "teacher = rt.load_model('Qwen/Qwen3-4B', mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16, "
            'quantization={"load_in_4bit": True})',
        ),
        (" teacher_model=args.teacher_name,", "args = parse()", "teacher = rt.load_model(args.teacher_name, mesh)"),
    ],
)
def test_the_teacher_is_loaded_as_it_was(teacher: str, before: str, line: str) -> None:
    found = port(script(teacher=teacher, before=before))
    assert found.status == "ported" and line in " ".join(found.after.split()).replace("( ", "(").replace(" )", ")")
    name = line.split(" ", 1)[0]
    assert f"    teacher_model={name},\n    beta=0.5," in found.after


def test_who_samples_is_written_only_where_somebody_does() -> None:
    own = port(script("lmbda=0.0")).after
    assert "lmbda" not in own and "max_new_tokens" not in own and "model=model" not in own
    teachers = port(script("lmbda=0, seq_kd=True")).after
    assert "teacher_model=teacher,\n    seq_kd=True,\n    temperature=0.9," in teachers and "lmbda" not in teachers
    before = port(script().replace("trl.experimental.gkd", "trl"), source_trl="0.11.4")  # which has no seq_kd
    assert before.status == "ported" and "model=model,\n    lmbda=0.5," in before.after
    students = port(script("lmbda=1.0, max_new_tokens=32", resume="resume_from_checkpoint=True")).after
    assert "model=model,\n    lmbda=1.0,\n" in students and "max_new_tokens=32," in students
    assert "batches.skip(trainer.train_steps)" in students


def test_a_checkpoint_s_own_sampling_is_that_of_the_release() -> None:
    text = script("lmbda=1.0").replace("trl.experimental.gkd", "trl")
    said = port(text, source_trl="0.19.1")
    assert 'checkpoint_fills="defaults",' in said.after
    assert any("(top_p, min_p, repetition_penalty)" in finding.message for finding in said.findings)
    for other, release in ((text, "0.15.2"), (script("lmbda=1.0"), "1.16.0"), (text.replace("1.0", "0.0"), "0.19.1")):
        assert "checkpoint_fills" not in port(other, source_trl=release).after


def test_a_config_that_only_the_script_knows() -> None:
    text = script().replace("trainer = GKD", "args = GKDConfig(output_dir='out')\nargs.beta = 0.1\ntrainer = GKD")
    after = port(text.replace('args=GKDConfig(output_dir="out", )', "args=args")).after
    assert "from porter.runtime.arguments import GKDConfig" in after
    assert "rt.GKDBatches.from_args(" in after and "beta=args.beta" in after


@pytest.mark.parametrize(
    ("text", "severity", "said"),
    [
        (script(teacher=""), "error", "there is no teacher_model"),
        (script(teacher=" teacher_model=make(),"), "error", "isn't made by a from_pretrained call"),
        (script("lmbda=1.5"), "error", "lmbda=1.5: TRL takes a share from 0 to 1"),
        (script("packing=True"), "error", "it refuses packing"),
        (script("teacher_model_init_kwargs={'dtype': 'bfloat16'}"), "error", "that loads the teacher"),
        (script().replace("trl.experimental.gkd", "trl"), "warning", "averaged each micro-batch on its own"),
    ],
)
def test_what_trains_otherwise_is_said(text: str, severity: str, said: str) -> None:
    found = port(text)
    assert [finding.severity for finding in found.findings if said in finding.message] == [severity]
