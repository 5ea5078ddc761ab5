"""Adapters that a function of the file puts in: surely, by condition, or giving the model back as it is."""

import re

import pytest

from .porting import HEAD, port

SCRIPT = """import sys
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def load(name):
    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
{load}    return model


def add_lora(model, wanted):
{early}    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    model = get_peft_model(model, config)
    return model


def main():
    model = load("Qwen/Qwen3-0.6B")
{call}    trainer = SFTTrainer(
        model,
        args=SFTConfig("out", max_steps=5, report_to="none"),
        train_dataset=load_dataset("some/rows", split="train"),
        processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
    )
    trainer.train()
    trainer.save_model("out/last")


main()
"""
CALL = "    model = add_lora(model, len(sys.argv) > 1)\n"
BY_CONDITION = "    if len(sys.argv) > 1:\n        model = add_lora(model, True)\n"
EARLY = "    if not wanted:\n        return model\n"


def test_a_function_that_surely_puts_them_in() -> None:
    ported = port(SCRIPT.format(load="", early="", call=CALL))
    assert ported.status == "ported", ported.findings
    assert "    model = rt.apply_lora(model, config, mesh, seed=42" in ported.after
    assert 'rt.save_adapter(model, "out/last"' in ported.after


@pytest.mark.parametrize(("early", "call"), [("", BY_CONDITION), (EARLY, CALL)])
def test_a_function_that_may_put_them_in(early: str, call: str) -> None:
    ported = port(SCRIPT.format(load="", early=early, call=call))
    assert ported.status == "ported", ported.findings
    assert "    model = rt.apply_peft(model, config, mesh, seed=42)" in ported.after
    assert 'rt.save_model(model, "out/last"' in ported.after  # an adapter, or the whole model
    assert ported.after.index("mesh = jax.make_mesh") < ported.after.index("def load(")


PAIR = "    model, config = add_lora(model, len(sys.argv) > 1)\n"


@pytest.mark.parametrize("prepared", ["", "    if wanted:\n        model = prepare_model_for_kbit_training(model)\n"])
def test_a_function_that_gives_the_model_and_its_config(prepared: str) -> None:
    source = SCRIPT.format(load="", early=prepared, call=PAIR).replace(
        "model, config)\n    return model", "model, config)\n    return model, config"
    )
    ported = port(source.replace("import LoraConfig", "import LoraConfig, prepare_model_for_kbit_training"))
    assert ported.status == "ported", ported.findings
    assert "    model = rt.apply_peft(model, config, mesh, seed=42)" in ported.after
    assert "    model, config = add_lora(" in ported.after and "rt.save_adapter(model" in ported.after


def test_a_pair_that_may_hold_the_model_as_it_is() -> None:
    early = "    if not wanted:\n        return model, None\n"
    source = SCRIPT.format(load="", early=early, call=PAIR)
    ported = port(source.replace("model, config)\n    return model", "model, config)\n    return model, config"))
    assert ported.status == "ported", ported.findings
    assert "    model = rt.apply_peft(model, config, mesh, seed=42)" in ported.after
    assert "rt.save_model(model" in ported.after  # an adapter, or the whole model


BRANCHES = """    if len(sys.argv) > 1:
        model = AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))
    else:
        model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
"""
PREPARED = "    if len(sys.argv) > 1:\n        model = prepare_model_for_kbit_training(model)\n"


def test_a_model_of_two_branches_that_a_function_puts_them_into() -> None:
    source = SCRIPT.format(load="", early="", call=PREPARED + CALL)
    one = '    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")\n'
    assert one in source
    source = source.replace(one, BRANCHES).replace("AutoTokenizer\n", "AutoTokenizer, BitsAndBytesConfig\n", 1)
    source = source.replace("import LoraConfig", "import LoraConfig, prepare_model_for_kbit_training")
    for pair in (
        source,
        source.replace("    return model\n", "    return model, 1\n", 1).replace("= load", ", _ = load"),
    ):
        ported = port(pair)
        assert ported.status == "ported", ported.findings
        assert 'rt.load_model(name, mesh, dtype=jnp.bfloat16, quantization="fp4")' in ported.after
        assert "rt.load_model(name, mesh, dtype=jnp.bfloat16)" in ported.after
        assert "    model = rt.apply_lora(model, config, mesh, seed=42" in ported.after


def test_two_calls_of_the_function_each_with_a_model_of_its_own() -> None:
    calls = (
        "    if len(sys.argv) > 1:\n        model, _ = load('Qwen/Qwen3-0.6B'), 1\n        model = add_lora(model, 1)\n"
    )
    calls += "    else:\n        model, _ = load('Qwen/Qwen3-1.7B'), 2\n        model = add_lora(model, 2)\n"
    source = SCRIPT.format(load="", early="", call=calls).replace('    model = load("Qwen/Qwen3-0.6B")\n', "")
    again = source[source.index("def load") : source.index("def add_lora")].replace("load", "second", 1)
    source = source.replace("def add_lora", f"{again}def add_lora").replace("load('Qwen/Qwen3-1.7B')", "second('x')")
    ported = port(source)
    assert not any("which is decided" in finding.message for finding in ported.findings), ported.findings
    assert ported.after.count("= rt.load_model(name, mesh, dtype=jnp.bfloat16)") == 2


@pytest.mark.parametrize("wrap", ["try:", "if len(sys.argv) > 1:"])
def test_all_of_it_in_a_try_or_a_branch(wrap: str) -> None:
    source = SCRIPT.format(load="", early="", call=CALL)
    at = source.index("def main():\n") + len("def main():\n")
    body = "".join(f"    {line}\n" for line in source[at : source.index("\n\nmain()")].splitlines())
    caught = "    except OSError as error:\n        print(error)\n" if wrap == "try:" else ""
    ported = port(f"{source[:at]}    {wrap}\n{body}{caught}\n\nmain()\n")
    assert ported.status == "ported", ported.findings
    assert "    model = rt.apply_lora(model, config, mesh, seed=42" in ported.after
    assert 'rt.save_adapter(model, "out/last"' in ported.after


METHODS = """class Tuning:
    def __init__(self):
        self.model = None

    def set_up(self, adapt=True):
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
        if adapt:
            self.model = get_peft_model(self.model, LoraConfig(r=8))

    def train(self):
        self.set_up()
        trainer = SFTTrainer(
            {given},
            args=SFTConfig("out", max_steps=5, report_to="none"),
            train_dataset=load_dataset("some/rows", split="train"),
            processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
        )
        trainer.train()


Tuning().train()
"""


def test_adapters_that_another_method_puts_in_by_condition() -> None:
    head = SCRIPT[: SCRIPT.index("\n\ndef load")]
    ported = port(f"{head}\n\n{METHODS.format(given='self.model')}")
    assert ported.status == "ported", ported.findings
    assert "            self.model = rt.apply_peft(self.model, LoraConfig(r=8), mesh, seed=42)\n" in ported.after
    assert ported.after.index("mesh = jax.make_mesh") < ported.after.index("class Tuning")
    other = METHODS.replace("self.model = None", "self.model = self.base = None").format(given="self.base")
    assert port(f"{head}\n\n{other}").status == "partial"


def test_adapters_by_condition_where_the_model_is_loaded() -> None:
    inside = "    if len(sys.argv) > 1:\n        model = get_peft_model(model, LoraConfig(r=8))\n"
    source = SCRIPT.format(load=inside, early="", call="")
    ported = port(source[: source.index("def add_lora")] + source[source.index("def main") :])
    assert ported.status == "ported", ported.findings
    assert "        model = rt.apply_peft(model, LoraConfig(r=8), mesh, seed=42)" in ported.after


def test_a_function_that_nobody_calls_is_named() -> None:
    ported = port(SCRIPT.format(load="", early="", call=""))
    assert any("whether the trainer gets" in finding.message for finding in ported.findings)


def test_functions_that_call_each_other_end() -> None:
    circle = "def add_lora(model, wanted):\n    return add_lora(get_peft_model(model, LoraConfig(r=8)), wanted)\n"
    source = SCRIPT.format(load="", early="", call=CALL)
    start, end = source.index("def add_lora"), source.index("def main")
    assert port(source[:start] + circle + source[end:]).status in ("ported", "partial")


@pytest.mark.parametrize(
    ("indent", "made"),
    [
        ("", "model = make()\n"),
        ("    ", "def main():\n    model = make()\n"),
        ("    ", "model = make()\n\ndef main():\n"),
    ],
)
def test_a_model_made_elsewhere_is_saved_as_the_trained_one(indent: str, made: str) -> None:
    end = ["trainer = SFTTrainer(model, train_dataset=rows)", "trainer.train()", "model.save_pretrained('done')"]
    found = port(f"{HEAD}from mine import make\n{made}" + "".join(f"{indent}{line}\n" for line in end))
    assert re.search(r"rt\.save_model\((tuned_)?model, 'done'\)", found.after)
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP102"]


TRAINED_ELSEWHERE = """from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def load(name):
    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
    return model, AutoTokenizer.from_pretrained(name)


def add_lora(model):
    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    {put_in}


def train(model, tokenizer):
    rows = load_dataset("some/rows", split="train")
    trainer = SFTTrainer(model=model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    trainer.save_model("out/last")


def main():
    {main}


main()
"""
BOUND = "model = get_peft_model(model, config)\n    model.print_trainable_parameters()\n    return model"
LOADED = "model, tokenizer = load('Qwen/Qwen3-0.6B')\n    "


@pytest.mark.parametrize("put_in", [BOUND, "return get_peft_model(model, config)"])
@pytest.mark.parametrize(
    "main",
    [
        LOADED + "model = add_lora(model)\n    train(model, tokenizer)",
        LOADED + "tuned = add_lora(model)\n    train(tuned, tokenizer)",
        LOADED + "train(add_lora(model), tokenizer)",
    ],
)
def test_a_function_that_trains_is_given_what_another_put_them_into(put_in: str, main: str) -> None:
    ported = port(TRAINED_ELSEWHERE.format(put_in=put_in, main=main))
    assert ported.status == "ported", ported.findings
    assert "rt.apply_lora(model, config, mesh, seed=42" in ported.after
    assert 'rt.save_adapter(model, "out/last"' in ported.after


@pytest.mark.parametrize("rank", ["len(sys.argv)", "8"])
@pytest.mark.parametrize("bound", [True, False])
def test_a_model_that_is_made_on_the_spot_is_made_once(rank: str, bound: bool) -> None:
    config = f'LoraConfig(r={rank}, target_modules=["q_proj"])'
    call = f'    model = get_peft_model(load("Qwen/Qwen3-0.6B"), {config})\n'
    if bound:
        call = f'    config = {config}\n    model = get_peft_model(load("Qwen/Qwen3-0.6B"), config)\n'
    text = SCRIPT.format(load="", early="", call=call).replace('    model = load("Qwen/Qwen3-0.6B")\n', "", 1)
    text = text[: text.index("def add_lora")] + text[text.index("def main") :]
    ported = port(text)
    assert ported.status == "ported", ported.findings
    assert ported.after.count('load("Qwen/Qwen3-0.6B")') == 1, ported.after


BASE = """from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


def train(model):
    {puts}
    trainer = SFTTrainer(model=model, train_dataset=load_dataset("x", split="train"), args=SFTConfig("out"){given})
    trainer.train()
    trainer.save_model("adapter")
    return model


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{lines}
"""
OF_BASE = "in PEFT into this one, too; in the port this is the base still"


@pytest.mark.parametrize(
    ("puts", "given"),
    [
        ("model = get_peft_model(model, LoraConfig(r=8))", ""),
        ("print(1)", ", peft_config=LoraConfig(r=8)"),
        ("print(1)", ""),
    ],
)
@pytest.mark.parametrize(
    ("lines", "of_base"),
    [
        ("train(model)\nmodel.save_pretrained('all')", True),
        ("train(model)\nprint(model.generate(ids))", True),
        ("model = train(model)\nmodel.save_pretrained('all')", False),
        ("print(model.generate(ids))\ntrain(model)", False),
        ("train(model)\ndel model", False),
        ("train(model)\nmodel.eval()", False),
    ],
)
def test_what_a_caller_does_with_the_model_that_a_function_adapted(
    puts: str, given: str, lines: str, of_base: bool
) -> None:
    found = port(BASE.format(puts=puts, given=given, lines=lines))
    told = [finding for finding in found.findings if OF_BASE in finding.message]
    assert bool(told) is (of_base and (puts != "print(1)" or given != ""))
    assert all(finding.severity == "error" for finding in told)
