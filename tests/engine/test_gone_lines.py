"""Lines without a use on a TPU go: conditions that never hold there, blocks that lose all they did, guards."""

from __future__ import annotations

import pytest

from .porting import PLAIN, check_becomes, port, sft_script
from .trainer_scripts import LOADED


def test_conditions_that_never_hold_on_a_tpu_go() -> None:
    plugin = "    trainer.accelerator.state.fsdp_plugin.set_state_dict_type('FULL_STATE_DICT')\n"
    check_becomes(
        f"{PLAIN}if trainer.is_fsdp_enabled:\n{plugin}print(1)\n", "train(batches)\nprint(1)\n", gone=("if ",)
    )
    check_becomes(f"{PLAIN}x = trainer.is_fsdp_enabled and 3\n", "x = False\n")
    check_becomes(f"{PLAIN}x = rows or not trainer.is_fsdp_enabled\n", "x = rows or True\n")


def test_blocks_that_lose_all_they_did() -> None:
    body = "if len(rows) > 9:\n    torch.cuda.empty_cache()\n    torch.cuda.synchronize()\n"
    check_becomes(f"import torch\n{PLAIN}{body}print(1)\n", "train(batches)\nprint(1)\n", gone=("if ", "pass", "torch"))
    check_becomes(
        f"import torch\n{PLAIN}{body}else:\n    print(1)\n", "if len(rows) > 9:\n    pass\nelse:\n", gone=("torch",)
    )
    check_becomes(f"import torch\n{PLAIN}print(1); torch.cuda.empty_cache()\n", "print(1)\n", gone=("torch", ";"))


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        (
            "if rows.x:\n    print(1)\nelif torch.cuda.is_available():\n    model = model.to('cuda')\n",
            "if rows.x:\n    print(1)\n",
        ),
        ("if rows.x:\n    print(1)\n# on it\nelse:\n    model.to('cuda')\n", "if rows.x:\n    print(1)\n"),
        ("if rows.x:\n    model.cuda()\nelse:\n    torch.cuda.empty_cache()\n", ""),
        ("if torch.cuda.is_available():\n    pass\n", ""),
        # The GPU run came to no branch behind the one that is empty now.
        ("if torch.cuda.is_available():\n    model.cuda()\nelif rows.x:\n    print(1)\nelse:\n    print(2)\n", ""),
    ],
)
def test_branches_that_do_nothing_go(chain: str, left: str) -> None:
    text = sft_script(imports="import torch", after=f"trainer.train()\n{chain}print(3)\n")
    check_becomes(text, f"train(batches)\n{left}print(3)\n", gone=("torch", "pass"))


def test_branches_that_do_nothing_stay_in_front_of_others_and_where_a_condition_does_something() -> None:
    empty = "    torch.cuda.empty_cache()\n"
    check_becomes(f"import torch\n{PLAIN}if rows.x:\n{empty}elif rows.y:\n    print(1)\n", "if rows.x:\n    pass\nelif")
    kept = "if rows.x:\n    print(1)\nelif start():\n"
    check_becomes(f"import torch\n{PLAIN}{kept}{empty}", f"{kept}    pass\n")
    own = "if rows.x:\n    print(1)\nelse:\n    pass\n"
    check_becomes(f"{PLAIN}{own}", own)


def test_lines_that_tell_of_the_gpu_go() -> None:
    told = (
        "gpu = torch.cuda.get_device_properties(0)\nused = round(torch.cuda.max_memory_reserved() / 1024**3, 3)\n"
        "if torch.cuda.is_available():\n    print(f'GPU = {gpu.name}: {used} GB.')\n"
        "    print('n', torch.cuda.get_device_name(0))\n"
    )
    check_becomes(f"import torch\n{told}{PLAIN}print(1)\n", "print(1)\n", gone=("torch", "gpu", "used", "if "))
    kept = f"import torch\n{told}{PLAIN}scale(used)\nprint(len(rows), torch.cuda.memory_allocated())\n"
    found = port(kept)
    assert "scale(used)" in found.after and "used = round(" in found.after and "print(len(rows), torch" in found.after


def test_a_call_for_its_effect_in_a_conditional_expression() -> None:
    text = LOADED.replace("trainer = ", "m.enable_input_require_grads() if len(rows) > 3 else None\ntrainer = ")
    check_becomes(text, gone=("enable_input", "else None"))


def test_two_ways_to_let_gradients_through_the_inputs_go() -> None:
    both = (
        "if hasattr(m, 'enable_input_require_grads'):\n    m.enable_input_require_grads()\nelse:\n"
        "    def hook(module, given, output):\n        output.requires_grad_(True)\n"
        "    m.get_input_embeddings().register_forward_hook(hook)\ntrainer = "
    )
    check_becomes(LOADED.replace("trainer = ", both), gone=("hasattr", "def hook", "else"))


def test_guards_of_accelerate() -> None:
    text = (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        "with accelerator.main_process_first():\n    print(1)\n"
        f"{PLAIN}accelerator.wait_for_everyone()\naccelerator.print(2)\n"
    )
    check_becomes(text, "with contextlib.nullcontext():\n    print(1)\n", "rt.main_print(2)\n", gone=("ccelerat",))


def test_what_is_put_behind_a_block_that_goes_stays() -> None:
    found = port(
        "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\nfrom trl import SFTTrainer\n"
        "if four:\n    model = prepare_model_for_kbit_training(model)\nmodel = get_peft_model(model, LoraConfig())\n"
        "trainer = SFTTrainer(model_=model)\ntrainer.train()\n"
    )
    assert "if four" not in found.after and "\nmesh = jax.make_mesh(" in found.after and "with mesh:" in found.after
