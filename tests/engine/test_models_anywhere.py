"""Models where real scripts load them: in functions, branches and calls, with a name of their own or another's."""

from __future__ import annotations

import pytest

from .porting import PLAIN, check_becomes, port
from .trainer_scripts import LOADED


def test_a_model_that_a_function_returns_with_its_tokenizer() -> None:
    load = (
        "def load(name):\n    m = AutoModelForCausalLM.from_pretrained(name)\n    m.config.use_cache = False\n"
        "    return m, AutoTokenizer.from_pretrained(name)\nmodel, tok = load('Qwen/Qwen3-0.6B')\n"
    )
    text = PLAIN.replace("'Qwen/Qwen3-0.6B'", "model").replace("trainer = ", load + "trainer = ")
    head = "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
    check_becomes(head + text, "    m = rt.load_model(name, mesh)\n    return m, ", gone=("use_cache", "AutoModel"))


def test_a_model_that_a_function_gives_back_is_the_same() -> None:
    text = PLAIN.replace("'Qwen/Qwen3-0.6B'", "model").replace(
        "trainer = ",
        "def ready(m):\n    m.config.use_cache = False\n    return m\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\nmodel = ready(model)\ntrainer = ",
    )
    check_becomes(
        "from transformers import AutoModelForCausalLM\n" + text, "model = ready(model)\n", gone=("use_cache",)
    )


def test_adapters_inside_the_trainers_call() -> None:
    model = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')"
    inner = f"get_peft_model({model}, LoraConfig(target_modules=['q_proj']))"
    head = "from peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM\n"
    check_becomes(
        head + PLAIN.replace("'Qwen/Qwen3-0.6B'", inner),
        "model = rt.load_model('Qwen/Qwen3-0.6B', mesh)\n",
        "model = rt.apply_lora(model, lora, mesh, seed=42,",
    )


def test_the_trainers_model_by_another_name() -> None:
    check_becomes(
        f"{PLAIN}model = trainer.model\nmodel.config.use_cache = True\nprint(trainer.model)\n", gone=("use_cache",)
    )


def test_adapters_before_the_config_take_a_seed_that_is_there() -> None:
    adapters = "m = get_peft_model(m, LoraConfig(target_modules=['q_proj']))\nargs = SFTConfig('out', seed=3, **kw())\n"
    text = LOADED.replace("trainer = ", f"{adapters}trainer = ").replace("args=SFTConfig('out')", "args=args")
    check_becomes(f"from peft import LoraConfig, get_peft_model\n{text}", "rt.apply_lora(m, lora, mesh, seed=3,")
    text = text.replace("seed=3, ", "")
    check_becomes(f"from peft import LoraConfig, get_peft_model\n{text}", "rt.apply_lora(m, lora, mesh, seed=42,")


def test_a_name_of_the_model_that_holds_something_else_behind_the_training_is_left_alone() -> None:
    again = (
        "m = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained('b'), 'out')\nm.generate()\nm = m.merge()\n"
    )
    found = port(f"from peft import PeftModel\n{LOADED}{again}")
    assert found.status == "ported" and again in found.after
    before = port(f"from peft import PeftModel\n{LOADED.replace('trainer = ', again + 'trainer = ')}")
    assert before.status == "partial"


def test_merging_and_generating() -> None:
    check_becomes(
        LOADED + "merged = trainer.model.merge_and_unload()\nmerged.save_pretrained('z')\nm.merge_and_unload()\n",
        "merged = rt.merge_and_unload(m)\nmerged.save_pretrained('z')\nrt.merge_and_unload(m)\n",
    )
    found = port(LOADED + "print(m.generate(max_new_tokens=3))\n")
    assert "print(rt.generate(m, max_new_tokens=3, tokenizer=" in found.after


def test_a_model_that_is_loaded_in_one_way_or_another() -> None:
    one, two = (
        f"m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', dtype='{t}')\n" for t in ("float32", "bfloat16")
    )
    branches = f"m = None\nif len(rows) > 9:\n    {one}else:\n    {two}trainer = "
    text = LOADED.replace("m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\ntrainer = ", branches)
    check_becomes(
        text,
        "9:\n    m = rt.load_model('Qwen/Qwen3-0.6B', mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16)\n",
        "else:\n    m = rt.load_model('Qwen/Qwen3-0.6B', mesh, dtype=jnp.bfloat16)\n",
    )
    check_becomes(
        text.replace("'Qwen/Qwen3-0.6B', dtype='bfloat16'", "'google/gemma-3-1b-it'"),
        "AutoTokenizer.from_pretrained(m.porter.id)",
    )
    assert port(text.replace(two, "m = load()\n")).status == "partial"


def test_a_resized_embedding_is_resized_when_the_port_runs() -> None:
    resized = LOADED.replace("trainer = ", "m.resize_token_embeddings(len(tok), pad_to_multiple_of=8)\ntrainer = ")
    found = check_becomes(resized, "rt.resize_vocabulary(m, len(tok), pad_to_multiple_of=8)\n")
    assert not [finding for finding in found.findings if finding.severity == "warning"]


@pytest.mark.parametrize("made", ['os.environ["BASE"].strip()', 'str(os.environ["BASE"])', '"a/{}".format(rows)'])
def test_a_name_that_a_method_of_texts_gives(made: str) -> None:
    text = PLAIN.replace("trainer = ", f"model_id = {made}\ntrainer = ").replace("'Qwen/Qwen3-0.6B'", "model_id")
    check_becomes(f"import os\n{text}", "model = rt.load_model(model_id, mesh")
