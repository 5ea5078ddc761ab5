"""What a script reads of its trainer: the arguments and rows of its call, and the batches that it counts."""

from __future__ import annotations

from .porting import PLAIN, check_becomes, port


def test_what_the_trainer_repeats_of_its_call() -> None:
    check_becomes(f"{PLAIN}print(trainer.args.output_dir, len(trainer.train_dataset))\n", "print('out', len(rows))\n")
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', **settings())")
    check_becomes(f"{text}print(trainer.args.output_dir)\n", "print(training_args.output_dir)\n")
    check_becomes(f"{PLAIN}print(trainer.train_dataset[0])\n", "print(batches.train_dataset[0])\n")
    check_becomes(f"{PLAIN}print(trainer.train_dataset)\n", "print(batches.train_dataset)\n")
    assert port(f"{PLAIN}print(trainer.train_dataset.column_names)\n").status == "partial"


def test_rows_that_a_plain_trainer_repeats() -> None:
    text = PLAIN.replace("SFTTrainer(", "Trainer(").replace("SFTConfig(", "TrainingArguments(")
    text = text.replace("from trl import SFTConfig, SFTTrainer", "from transformers import Trainer, TrainingArguments")
    for read in ("rows.features", "rows.features['text'].dtype", "rows[0]", "len(rows)"):
        check_becomes(f"{text}print({read.replace('rows', 'trainer.train_dataset')})\n", f"print({read})\n")


def test_rows_and_batches_that_the_trainer_counts() -> None:
    part = PLAIN.replace("train_dataset=rows", "train_dataset=rows['train']")
    packed = part.replace("SFTConfig('out')", "SFTConfig('out', packing=True)")
    check_becomes(f"{part}print(len(trainer.train_dataset))\n", "print(len(rows['train']))\n")
    check_becomes(f"{packed}print(len(trainer.train_dataset))\n", "print(batches.rows)\n")
    made = PLAIN.replace("train_dataset=rows", "train_dataset=rows.shuffle()")
    check_becomes(f"{made}print(len(trainer.train_dataset))\n", "print(batches.rows)\n")
    check_becomes(f"{PLAIN}print(len(trainer.get_train_dataloader()) // 2)\n", "print(batches.gpu_batches // 2)\n")
    assert port(f"{PLAIN}print(next(iter(trainer.get_train_dataloader())))\n").status == "partial"
    sampled = PLAIN.replace("SFT", "GRPO").replace("train_dataset=", "reward_funcs=len, train_dataset=")
    found = port(f"{sampled}print(len(trainer.get_train_dataloader()))\n")
    assert found.status == "partial" and "gpu_batches" not in found.after
    evaluated = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', eval_strategy='epoch')")
    evaluated = evaluated.replace("train_dataset=rows", "train_dataset=rows, eval_dataset=rows.select([0])")
    check_becomes(f"{evaluated}print(len(trainer.get_eval_dataloader()))\n", "print(eval_batches.gpu_batches)\n")
    check_becomes(f"{evaluated}print(len(trainer.eval_dataset))\n", "print(eval_batches.rows)\n")


def test_states_that_are_freed_behind_the_training_go() -> None:
    freed = "trainer.optimizer = None\ntrainer.lr_scheduler = None\n"
    check_becomes(
        f"{PLAIN}trainer.train()\n{freed}print(len(rows))\n", "    trainer.train(batches)\nprint(len(rows))\n"
    )
    assert port(f"{PLAIN}{freed}trainer.train()\n").status == "partial"
    assert port(f"{PLAIN}trainer.train()\n{freed}trainer.train()\n").status == "partial"
    assert port(f"{PLAIN}trainer.train()\ntrainer.optimizer = made(trainer)\n").status == "partial"


def test_arguments_that_are_set_for_one_training_of_several() -> None:
    text = PLAIN.replace(
        "trainer.train()", "trainer.args.max_steps = 2\ntrainer.train()\ntrainer.args.max_steps = -1\n"
    )
    found = [each for each in port(text).findings if each.severity == "error"]
    assert [each.line for each in found] == [6, 8]
    assert all("its steps, schedule and batches by then" in each.message for each in found)
