"""Models that are loaded again to try them out: in a function of their own, and quantised."""

import pytest

from .porting import port, sft_script

SCRIPT = """\
import torch
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

NAME = 'Qwen/Qwen3-0.6B'


def load():
    return AutoModelForCausalLM.from_pretrained(NAME, dtype='bfloat16'), AutoTokenizer.from_pretrained(NAME)


def train():
    model, tokenizer = load()
    rows = load_dataset('x', split='train')
    trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    trainer.save_model('out')


def ask(model, tokenizer, text):
    with torch.no_grad():
        return model.generate(**tokenizer(text, return_tensors='pt').to(model.device))


def test(adapter):
    half = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    base = AutoModelForCausalLM.from_pretrained(NAME, GIVEN)
    tuned = PeftModel.from_pretrained(base, adapter)
    return ask(tuned, tokenizer, 'a')


train()
print(test('adapter'))
"""


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ("dtype=torch.float16", ", dtype=jnp.bfloat16"),
        ("quantization_config=half, device_map='auto'", ", quantization=half"),
        ("load_in_8bit=True", ', quantization="int8"'),
        ("load_in_4bit=False", ", dtype=jnp.float32"),  # as transformers before 5, which alone knows this keyword
    ],
)
def test_a_model_of_a_function_that_tries_it_out(given: str, loaded: str) -> None:
    ported = port(SCRIPT.replace("GIVEN", given))
    assert ported.status == "ported", ported.findings
    assert f"    base = rt.load_model(NAME, mesh{loaded})\n" in ported.after
    assert "    tuned = rt.apply_adapter(base, adapter, mesh)\n" in ported.after
    assert "    with mesh:\n        return rt.generate(model, **tokenizer(text, return_tensors='np'))\n" in ported.after
    assert "import torch" not in ported.after and "from peft" not in ported.after


GIVEN = "name, quantization_config=config, load_in_8bit=whole"
BY_CALLS = (
    SCRIPT.replace("NAME, GIVEN", GIVEN)
    .replace("def test(", "def test(name, config, whole, ")
    .replace("print(test(", "half = BitsAndBytesConfig(load_in_4bit=True)\nprint(test(NAME, half, False, ")
)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_model_that_the_calls_of_a_function_say(newline: str) -> None:
    ported = port(BY_CALLS.replace("\n", newline).encode())
    assert ported.status == "ported", ported.findings
    assert "    base = rt.load_model(name, mesh, quantization=config)" in ported.after


@pytest.mark.parametrize(
    "further",
    [
        "test(NAME, GPTQConfig(bits=4), False, 'adapter')",
        "test(NAME, half, True, 'adapter')",
        "look(test)",
        "test(*settings)",
    ],
)
def test_a_call_that_says_something_else(further: str) -> None:
    assert "base = AutoModelForCausalLM.from_pretrained(name" in port(f"{BY_CALLS}{further}\n").after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GIVEN", "quantization_config=GPTQConfig(bits=4)"),
        ("GIVEN", "load_in_4bit=adapter"),
        ("    return ask(tuned, tokenizer, 'a')", "    return tuned"),
    ],
)
def test_what_isnt_known_stays_torch_s(old: str, new: str) -> None:
    ported = port(SCRIPT.replace(old, new).replace("GIVEN", ""))
    assert "base = AutoModelForCausalLM.from_pretrained(NAME, " in ported.after
    assert "model.generate(" in ported.after.replace("rt.generate(", "") and "rt.generate" not in ported.after


IMPORTS = """\
import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftConfig, PeftModel
from transformers import BitsAndBytesConfig, TextIteratorStreamer, pipeline
"""
ASKS = "print(tuned.generate(torch.tensor([[1, 2]]), max_new_tokens=3))"


def reloaded(lines: str, before: str = "") -> tuple[str, list[tuple[str, str]]]:
    """The port of a script that trains adapters and then runs `lines`: its text, its warnings and errors."""
    behind = f"trainer.train()\nmodel.save_pretrained('./adapter')\nmodel.push_to_hub('me/one')\n{lines}\n"
    ported = port(sft_script(before, imports=IMPORTS, trainer=", peft_config=LoraConfig(r=8)", after=behind))
    return ported.after, [(f.severity, f.message) for f in ported.findings if f.rule in ("TP536", "TP314", "TP311")]


@pytest.mark.parametrize("folder", ["'adapter'", "'./adapter/'", "place"])
def test_a_folder_is_the_same_however_it_is_written(folder: str) -> None:
    lines = f"place = 'adapter'\ntuned = AutoPeftModelForCausalLM.from_pretrained({folder}, load_in_4bit=True)\n{ASKS}"
    after, said = reloaded(lines)
    assert f'tuned = rt.load_trained({folder}, mesh, quantization="fp4")' in after and said == []
    assert "rt.generate(tuned, " in after


def test_the_base_that_an_adapter_names() -> None:
    load = "AutoModelForCausalLM.from_pretrained(config.base_model_name_or_path, load_in_8bit=True)"
    lines = f"config = PeftConfig.from_pretrained('me/one')\nbase = {load}\nprint(base.get_memory_footprint())\n"
    after, said = reloaded(f"{lines}tuned = PeftModel.from_pretrained(base, 'me/one')\n{ASKS}")
    assert 'base = rt.load_trained(config.base_model_name_or_path, mesh, quantization="int8")' in after
    assert "print(rt.memory_footprint(base))" in after and "tuned = rt.apply_adapter(base, 'me/one', mesh)" in after
    assert said == []
    assert [severity for severity, _ in reloaded(lines.replace("me/one", "they/two"))[1]] == ["error"]


def test_a_quantised_model_whose_family_isnt_known() -> None:
    load = "tuned = AutoModelForCausalLM.from_pretrained({}, load_in_4bit=True)\n"
    after, said = reloaded(load.format("'me/another'") + ASKS)
    assert "tuned = rt.load_trained('me/another', mesh, " in after
    assert [severity for severity, _ in said] == ["warning"] and "of which family" in said[0][1]
    after, said = reloaded(load.format("'they/another'") + ASKS)
    assert "AutoModelForCausalLM.from_pretrained('they/another'" in after
    assert ("error" in [severity for severity, _ in said]) and "rt.load_trained" not in after


def test_a_name_that_means_another_model_behind_the_training() -> None:
    named = sft_script("name = 'Qwen/Qwen3-0.6B'", imports=IMPORTS, after="trainer.train()\nLINES").replace(
        'from_pretrained("Qwen/Qwen3-0.6B", ', "from_pretrained(name, "
    )
    again = f"tuned = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True)\n{ASKS}"
    assert "tuned = rt.load_model(name, mesh, " in port(named.replace("LINES", again)).after
    other = port(named.replace("LINES", f"name = 'Qwen/Qwen3-4B'\n{again}")).after
    assert "tuned = rt.load_trained(name, mesh, " in other


def test_settings_that_are_made_again() -> None:
    made = "half = BitsAndBytesConfig(load_in_4bit=True)"
    load = "tuned = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=half)"
    after, said = reloaded(f"{made}\n{load}\n{ASKS}", before=made)
    assert "tuned = rt.load_model('Qwen/Qwen3-0.6B', mesh, quantization=half)" in after and said == []


def test_a_quantised_model_that_is_not_asked_yet() -> None:
    base = "base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', load_in_4bit=True)"
    after, said = reloaded(f"{base}\ntuned = PeftModel.from_pretrained(base, 'adapter')\ntuned.eval()")
    assert "tuned = rt.apply_adapter(base, 'adapter', mesh)" in after and "eval()" not in after and said == []


def test_a_function_behind_the_training_that_makes_a_pipeline() -> None:
    function = (
        "def make():\n"
        "    base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', load_in_4bit=True)\n"
        "    tuned = PeftModel.from_pretrained(base, 'adapter')\n"
        "    tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n"
        "    streamer = TextIteratorStreamer(tokenizer)\n"
        "    return pipeline('text-generation', model=tuned, tokenizer=tokenizer, streamer=streamer), streamer\n\n\n"
        "asked, streamer = make()\nprint(asked('a'))"
    )
    after, said = reloaded(function)
    made = "return rt.TextGenerationPipeline(tuned, tokenizer, streamer=streamer, transformers="
    assert made in after and said == []
    early = port(sft_script(function.replace("\n\n\n", "\n\n\nmake()\n"), imports=IMPORTS)).after
    assert "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', load_in_4bit=True)" in early


def test_a_pipeline_that_loads_in_4_bits_itself() -> None:
    given = "model_kwargs={'load_in_4bit': True}"
    after, said = reloaded(f"asked = pipeline('text-generation', model='Qwen/Qwen3-0.6B', {given})\nprint(asked('a'))")
    assert "rt.load_trained('Qwen/Qwen3-0.6B', mesh, quantization=\"fp4\")" in after and said == []


@pytest.mark.parametrize(("deleted", "left"), [("del trainer, judge, model", "del trainer, model"), ("del judge", "")])
def test_a_model_that_nothing_uses_is_not_loaded(deleted: str, left: str) -> None:
    load = "judge = AutoModelForCausalLM.from_pretrained('other/model', load_in_4bit=True)"
    ported = port(sft_script(between=load, after=f"trainer.train()\n{deleted}"))
    assert ported.status == "ported" and "judge" not in ported.after and left in ported.after
    assert any("nothing uses this model" in finding.message for finding in ported.findings)
    used = port(sft_script(between=load, after=f"trainer.train()\nprint(judge)\n{deleted}"))
    assert load in used.after and used.status == "partial"


def test_the_device_of_a_model_that_is_loaded_again_is_the_hosts() -> None:
    """Tunix's model has none; what torch or NumPy makes for it lies on the host."""
    asks = "    place = model.device\n    with torch.no_grad():"
    text = SCRIPT.replace("GIVEN", "dtype=torch.float16").replace("    with torch.no_grad():", asks)
    ported = port(text.replace(".to(model.device)", ".to(place)"))
    assert ported.status == "ported", ported.findings
    assert '    place = "cpu"\n' in ported.after and "model.device" not in ported.after


@pytest.mark.parametrize(
    ("asks", "becomes"),
    [
        ("print(f'on {model.device}')", "print(f'on {jax.devices()[0]}')"),
        ("print(model.dtype)", "print(jax.tree.leaves(nnx.state(model, nnx.Param))[0].dtype)"),
        ("if model.device.type == 'cuda': print(1)", "if jax.devices()[0].platform == 'cuda': print(1)"),
        ("if model.device == 'cuda': print(1)", "if \"cpu\" == 'cuda': print(1)"),
        ("tell(model.device)", 'tell("cpu")'),
    ],
)
def test_where_a_model_that_is_loaded_again_lies_is_what_the_port_has(asks: str, becomes: str) -> None:
    text = SCRIPT.replace("GIVEN", "dtype=torch.float16").replace("    with torch", f"    {asks}\n    with torch")
    ported = port(text.replace("def load():", "def tell(place):\n    print(place)\n\n\ndef load():"))
    assert ported.status == "ported", ported.findings
    assert f"    {becomes}\n" in ported.after and "model.device" not in ported.after
