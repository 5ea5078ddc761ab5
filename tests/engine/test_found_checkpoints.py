"""What a run resumes from, where a script looks for it in the folder of checkpoints."""

from __future__ import annotations

from .porting import HEAD, PLAIN, check_becomes, port

RESUMED = """args = SFTConfig('out', **settings())
last = None
if args.output_dir:
    last = get_last_checkpoint(args.output_dir)
trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)
checkpoint = None
if args.resume_from_checkpoint is not None:
    checkpoint = args.resume_from_checkpoint
elif last is not None:
    checkpoint = last
trainer.train(resume_from_checkpoint=checkpoint)
"""


def test_what_to_resume_from_may_be_decided_behind_the_trainer() -> None:
    text = f"from transformers.trainer_utils import get_last_checkpoint\n{HEAD}{RESUMED}"
    check_becomes(
        text,
        "args.resume_from_checkpoint = args.resume_from_checkpoint or last\ntrainer = PeftTrainer(",
        "    last = rt.get_last_checkpoint(args.output_dir)\n",
    )
    check_becomes(
        text.replace("elif last is not None", "elif len(rows) > 9"), " or (last if len(rows) > 9 else None)\n"
    )
    other = port(text.replace("elif last is not None", "elif trainer.is_world_process_zero()"))
    assert any("it is set after the trainer" in finding.message for finding in other.findings)


def test_a_search_for_torchs_checkpoints_is_one_for_orbaxs() -> None:
    text = PLAIN.replace(
        "trainer.train()", "found = glob.glob('out/checkpoint-*') != []\ntrainer.train(resume_from_checkpoint=found)"
    )
    found = port(f"import glob\n{text}")
    assert "rt.resume_dir('out') if rt.get_last_checkpoint('out') else rt.fresh_dir('out')" in found.after
