"""What a script asks of a model that might be wrapped, contexts of the GPU, settings without meaning: decided."""

import pytest

from .porting import check_becomes, port, sft_script

IMPORTS = "import sys\nimport torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP"


@pytest.mark.parametrize(
    "line",
    [
        "mine = trainer.model.module if hasattr(trainer.model, 'module') else trainer.model",
        "mine = trainer.model.module if isinstance(trainer.model, DDP) else trainer.model",
        "mine = model.module if hasattr(model, 'module') else model",
    ],
)
def test_the_model_itself_is_saved(line: str) -> None:
    own = line.rpartition(" else ")[2]
    text = sft_script(imports=IMPORTS, after=f"trainer.train()\n{line}\nmine.save_pretrained('last')")
    check_becomes(text, f"mine = {own}\nrt.save_model(model, 'last')", gone=("module", "torch"))


def test_blocks_for_wrapped_models_go() -> None:
    lines = "if hasattr(model, '_set_static_graph'):\n    model._set_static_graph()\n"
    both = (
        "if hasattr(model, 'module'):\n    model.module.save_pretrained('x')\nelse:\n    model.save_pretrained('y')\n"
    )
    check_becomes(
        sft_script(between=lines, after=f"trainer.train()\n{both}"),
        "\nrt.save_model(model, 'y')\n",
        gone=("static", "'x'", "if "),
    )


@pytest.mark.parametrize(
    "line",
    [
        "model.use_cache = False",
        "model.config.use_flash_attn = True",
        "model.config.output_attentions = False",
        "model.config.return_dict = True",
    ],
)
def test_settings_without_meaning_go(line: str) -> None:
    check_becomes(sft_script(between=line), gone=("use_cache", "use_flash_attn", "output_attentions", "return_dict"))


KERNEL = "torch.backends.cuda.sdp_kernel(enable_flash=True)"


@pytest.mark.parametrize(
    "context", [KERNEL, "torch.nn.attention.sdpa_kernel([1])", f"torch.autocast('cuda'), {KERNEL}"]
)
def test_the_mesh_is_the_context(context: str) -> None:
    body = f"with {context}:\n    print(1)\n    trainer.train()\n    print(1)"
    left = "with mesh:\n    print(1)\n    trainer.train(batches)\n    print(1)\n"
    found = check_becomes(sft_script(imports="import torch", config=", bf16=True", after=body), left, gone=("torch.",))
    assert found.after.count("with mesh") == 1


def test_contexts_around_the_trainer_or_with_a_name_stay() -> None:
    text = sft_script(imports="import torch", after=f"with {KERNEL} as kernel:\n    trainer.train()")
    assert f"with {KERNEL} as kernel:\n    with mesh:\n" in port(text).after


def test_autocast_that_the_arguments_do_not_ask_for_is_said() -> None:
    body = "with torch.autocast('cuda', dtype=torch.bfloat16):\n    trainer.train()"
    for asked, said in (("True", []), ("False", ["warning"])):
        found = port(sft_script(imports="import torch", config=f", bf16={asked}", after=body))
        assert [one.severity for one in found.findings if "the source multiplies in it" in one.message] == said


def test_an_alias_of_the_trainers_class_goes_with_it() -> None:
    text = sft_script("T = SFTTrainer").replace("trainer = SFTTrainer(", "trainer = T(")
    check_becomes(text, gone=("T = ", "import trl", "from trl"))


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("trainer.accelerator.unwrap_model(trainer.model).save_pretrained('last')", "rt.save_model(model, 'last')"),
        ("trainer.accelerator.unwrap_model(model).save_pretrained('last')", "rt.save_model(model, 'last')"),
        (
            "mine = trainer.accelerator.unwrap_model(trainer.model)\nmine.save_pretrained('last')",
            "mine = trainer.model\nrt.save_model(model, 'last')",
        ),
        (
            "def save(last):\n    mine = last.accelerator.unwrap_model(last.model)\n"
            "    mine.save_pretrained('last')\n\n\nsave(trainer)",
            "    mine = last.model\n    rt.save_model(mine, 'last')",
        ),
    ],
)
def test_the_trainers_accelerator_has_wrapped_nothing(lines: str, left: str) -> None:
    check_becomes(sft_script(after=f"trainer.train()\n{lines}"), left, gone=("unwrap_model", "accelerator"))


def test_what_the_trainers_accelerator_says_of_its_processes() -> None:
    lines = "print(trainer.accelerator.process_index, trainer.accelerator.num_processes, trainer.accelerator.device)"
    text = sft_script(after=f"trainer.train()\n{lines}\ntrainer.accelerator.free_memory()")
    check_becomes(text, "print(jax.process_index(), 1, jax.devices()[0])", gone=("accelerator",))
