"""What a call that is replaced was given of its trainer: `trainer.save_model(trainer.args.output_dir)`."""

from __future__ import annotations

import pytest

from .porting import errors, port, sft_script

KEPT = ", save_strategy=sys.argv[1]"


@pytest.mark.parametrize(
    ("line", "literal", "kept"),
    [
        ("trainer.save_model(trainer.args.output_dir)", 'model, "out"', "model, training_args.output_dir"),
        ("trainer.save_model(output_dir=trainer.args.output_dir)", 'model, "out"', "model, training_args.output_dir"),
        (
            "trainer.save_model(os.path.join(trainer.args.output_dir, 'final'))",
            "model, os.path.join(\"out\", 'final')",
            "model, os.path.join(training_args.output_dir, 'final')",
        ),
        (
            "trainer.model.save_pretrained(f'{trainer.args.output_dir}/a')",
            "model, f'{\"out\"}/a'",
            "model, f'{training_args.output_dir}/a'",
        ),
        (
            "trainer.save_model(f'out/{trainer.state.global_step}')",
            "model, f'out/{trainer.training_hooks.state.global_step}'",
            "model, f'out/{trainer.training_hooks.state.global_step}'",
        ),
        (
            "trainer.save_model('a' if trainer.is_world_process_zero() else 'b')",
            "model, 'a' if (jax.process_index() == 0) else 'b'",
            "model, 'a' if (jax.process_index() == 0) else 'b'",
        ),
        (
            "trainer.save_model(str(trainer.model.config.vocab_size))",
            "model, str(rt.model_config(trainer.model).vocab_size)",
            "model, str(rt.model_config(trainer.model).vocab_size)",
        ),
        (
            "trainer.save_model(model.config.model_type)",
            "model, rt.model_config(model).model_type",
            "model, rt.model_config(model).model_type",
        ),
    ],
)
def test_it_has_its_counterpart_there_too(line: str, literal: str, kept: str) -> None:
    """The port ended behind its training, before it had saved anything."""
    for config, code in (("", literal), (KEPT, kept)):
        ported = port(sft_script(imports="import os, sys", config=config, after=f"trainer.train()\n{line}"))
        assert ported.status == "ported", ported.findings
        assert f"rt.save_model({code}" in ported.after, ported.after


@pytest.mark.parametrize(
    "line",
    [
        "trainer.save_model(str(model.num_parameters()))",
        "trainer.save_model('a' if trainer.is_fsdp_enabled else 'b')",
    ],
)
def test_what_has_none_there_is_named(line: str) -> None:
    found = errors(port(sft_script(after=f"trainer.train()\n{line}")))
    assert any("counterpart inside of another call" in each for each in found)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (
            "max_length=model.config.max_position_embeddings",
            "max_length=rt.model_config(model).max_position_embeddings",
        ),
        ("learning_rate=1e-4 / model.num_parameters()", ""),
        ("seed=len(model.own)", ""),
    ],
)
def test_what_a_setting_reads_of_the_model(said: str, code: str) -> None:
    """The port ended where it makes its batches."""
    ported = port(sft_script(config=f", {said}"))
    if code:
        assert ported.status == "ported" and f"    {code}," in ported.after
    else:
        assert any("Tunix's model has no counterpart" in each for each in errors(ported)), ported.after
