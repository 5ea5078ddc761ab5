"""The source's comments in the port."""

from __future__ import annotations

from porter.port import Port

from ..engine.porting import HEAD, PLAIN, check_becomes, port


def becomes(config: str, *parts: str, gone: tuple[str, ...] = (), **options: object) -> Port:
    """The port of a script with that configuration holds `parts` and none of `gone`."""
    text = PLAIN.replace("SFTConfig('out')", f"SFTConfig(\n    output_dir='out',\n{config}\n)")
    return check_becomes(text, *parts, gone=gone, **options)


def test_behind_the_new_place() -> None:
    becomes("    save_steps=5,  # often", "FixedIntervalPolicy(5),  # often")


def test_above_the_new_place() -> None:
    becomes("    # short\n    max_steps=5,", "    # short\n    max_steps=5,")


def test_what_is_said_of_a_dropped_setting_goes_with_it() -> None:
    becomes(
        "    # saves memory\n    dataloader_pin_memory=True,  # faster\n    max_steps=5,", gone=("memory\n", "faster")
    )


def test_a_comment_stands_once() -> None:
    after = becomes("    seed=7,  # my number").after
    assert after.count("seed=7") == 1 == after.count("# my number")


def test_a_statement_of_several_keywords_names_them() -> None:
    config = "    learning_rate=1e-4,  # paper\n    lr_scheduler_type='cosine',  # smooth"
    becomes(config, "# learning_rate: paper\n# lr_scheduler_type: smooth\nschedule = optax.cosine_decay_schedule(1e-4")


def test_a_single_one_stands_behind_a_statement() -> None:
    config = "    learning_rate=1e-4,  # paper\n    lr_scheduler_type='cosine',"
    becomes(config, "schedule = optax.cosine_decay_schedule(1e-4, batches.steps)  # paper\n")


def test_a_port_that_says_something_itself_keeps_both() -> None:
    config = "    per_device_train_batch_size=2,  # fits"
    becomes(config, "    # fits\n    batch_size=8,  # 2 a GPU on 4 GPUs", processes=4)


def test_a_section_heads_the_first_keyword_that_has_a_place() -> None:
    config = "    max_length=512,\n\n    # Optimizer\n    optim='adamw_torch',\n    weight_decay=0.1,\n"
    config += "    max_grad_norm=0.5,"
    after = becomes(config, "    # Optimizer\n    optax.clip_by_global_norm(0.5),").after
    assert after.count("# Optimizer") == 1 and "\U000f0000" not in after


def test_a_section_of_what_is_gone_goes() -> None:
    becomes(
        "    max_steps=5,\n\n    # Hub\n    dataloader_pin_memory=True,\n    dataloader_num_workers=4,", gone=("# Hub",)
    )


def test_items_of_a_dict_that_is_spread() -> None:
    becomes("    **{\n        'max_steps': 5,  # short\n    },", "max_steps=5,  # short")


def test_a_comment_too_long_for_its_line_stands_above() -> None:
    long = "# " + "x" * 110
    assert f"    {long}\n    max_steps=5,\n" in becomes(f"    max_steps=5,  {long}").after


def test_in_a_function_and_with_tabs() -> None:
    body = (
        "trainer = SFTTrainer(\n\t'Qwen/Qwen3-0.6B',\n\targs=SFTConfig(\n\t\t'out',\n\n\t\t# Length\n\t\tmax_steps=5,\n"
    )
    body += "\t\tlearning_rate=1e-4,\n\t),\n\ttrain_dataset=rows,\n)\ntrainer.train()\n"
    text = HEAD + "def main():\n" + "".join(f"\t{line}\n" for line in body.splitlines())
    after = port(text).after
    assert "\t\t# Length\n\t\tmax_steps=5,\n" in after.replace("    ", "\t")


ARGUMENTS = "args = SFTConfig('out')\n"
TRAINER = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"


def test_a_comment_above_the_configuration_goes_along() -> None:
    text = f"{HEAD}\n# how it trains\n# and where\n{ARGUMENTS}\nprint(1)\n# the trainer\n{TRAINER}"
    parts = "\n\nprint(1)\n# how it trains\n# and where\n", "\n)\n\n# the trainer\ntrainer = "
    check_becomes(text, *parts, gone=("and where\n\n",))


def test_one_that_heads_more_than_the_configuration_stays() -> None:
    check_becomes(f"{HEAD}\n# part 2\n{ARGUMENTS}print(1)\n{TRAINER}", "\n\n# part 2\nprint(1)\n")


def test_what_comes_next_stands_right_below() -> None:
    text = f"{HEAD}\n# how it trains\n{ARGUMENTS}\n# the trainer\n{TRAINER}"
    check_becomes(text, "# how it trains\nmesh = ", "\n)\n\n# the trainer\ntrainer = PeftTrainer(")


def test_a_comment_isnt_left_above_a_function() -> None:
    text = f"{HEAD}\n# Arguments\n{ARGUMENTS}def shown():\n    pass\n\n{TRAINER}shown()\n"
    check_becomes(text, "\ndef shown():\n    pass\n\n# Arguments\nmesh = ")


def test_a_notebooks_cell_keeps_its_line() -> None:
    text = f"{HEAD}\n# %% [cell 2]\n{ARGUMENTS}\n# %% [cell 3]\nprint(1)\n{TRAINER}"
    check_becomes(text, "# %% [cell 2]\n", "# %% [cell 3]\nprint(1)\n")
