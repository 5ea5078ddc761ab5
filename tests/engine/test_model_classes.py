"""`isinstance` of the model against classes of transformers and PEFT, which Tunix's model is none of."""

from pathlib import Path

import pytest

from porter.front.beside.with_modules import port_with_modules
from porter.port import Options

from .porting import port, sft_script

PEFT = ("LoraConfig", "PeftModel", "get_peft_model")
CLASSES = ("LlamaForCausalLM", "PreTrainedModel", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
ADAPTERS = ', peft_config=LoraConfig(target_modules=["q_proj"])'
TOLD = "{}\n    print('it is')\nelse:\n    print('it is not')"


def _imports(code: str) -> str:
    asked = (("peft", PEFT), ("transformers", CLASSES))
    return "\n".join(
        ["import sys", *(f"from {home} import {name}" for home, names in asked for name in names if name in code)]
    )


def ported(condition: str, *, trainer: str = "", between: str = "", load: str = '"Qwen/Qwen3-0.6B"'):
    after = f"trainer.train()\n{TOLD.format(f'if {condition}:')}"
    script = sft_script(imports=_imports(condition + between + trainer), trainer=trainer, between=between, after=after)
    return port(script.replace('from_pretrained("Qwen/Qwen3-0.6B", dtype', f"from_pretrained({load}, dtype"))


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("isinstance(model, Qwen3ForCausalLM)", True),
        ("isinstance(model, LlamaForCausalLM)", False),
        ("isinstance(model, (LlamaForCausalLM, Qwen3ForCausalLM))", True),
        ("isinstance(model, LlamaForCausalLM | Qwen2ForCausalLM)", False),
        ("isinstance(model, PreTrainedModel) and not isinstance(model, PeftModel)", True),
        ("isinstance(trainer.model, PeftModel)", False),
        ("hasattr(trainer.model, 'peft_config')", False),
    ],
)
def test_a_whole_model_is_its_family(condition: str, answer: bool) -> None:
    found = ported(condition)
    assert found.status == "ported" and "isinstance" not in found.after and "PreTrained" not in found.after
    assert ("print('it is')" in found.after, "print('it is not')" in found.after) == (answer, not answer)


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("isinstance(trainer.model, PeftModel)", True),
        ("not isinstance(trainer.model, PeftModel)", False),
        ("isinstance(trainer.model, Qwen3ForCausalLM)", False),
        ("isinstance(model, PeftModel)", False),  # the trainer wraps it
        ("hasattr(trainer.model, 'peft_config')", True),
    ],
)
def test_adapters_of_the_trainer_are_its_own(condition: str, answer: bool) -> None:
    found = ported(condition, trainer=ADAPTERS)
    assert found.status == "ported" and "isinstance" not in found.after
    assert ("print('it is')" in found.after, "print('it is not')" in found.after) == (answer, not answer)


def test_a_model_is_adapted_from_where_adapters_are_put_in() -> None:
    put_in = 'model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))\nassert isinstance(model, PeftModel)'
    asked = "assert not isinstance(model, PeftModel)\n" + put_in
    found = ported("isinstance(model, PeftModel)", between=asked)
    assert found.status == "ported" and "assert" not in found.after and "print('it is not')" not in found.after
    merged = ported("isinstance(whole, Qwen3ForCausalLM)", between=put_in).before
    merged = merged.replace("trainer.train()\n", "trainer.train()\nwhole = model.merge_and_unload()\n")
    assert "print('it is not')" not in port(merged).after


def test_an_architecture_that_running_tells_is_asked_of_the_config() -> None:
    found = ported("isinstance(model, LlamaForCausalLM)", load="sys.argv[1]")
    assert 'if rt.model_config(model).model_type == "llama":' in found.after and found.status == "ported"
    by_class = sft_script(
        imports=_imports("LlamaForCausalLM"), after="trainer.train()\nassert isinstance(model, LlamaForCausalLM)"
    )
    asked = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"'
    assert "assert" not in port(by_class.replace(asked, "LlamaForCausalLM.from_pretrained(sys.argv[1]")).after


ADAPT = """
def adapt(model, settings):
    if settings is None:
        return {0}
    model = get_peft_model(model, settings)
    return {1}

"""
CALL = "    {} = adapt(model, LoraConfig(target_modules=['q_proj']) if len(sys.argv) > 2 else None)"
BRANCH = "if len(sys.argv) > 1:\n    model = get_peft_model(model, LoraConfig(target_modules=['q_proj']))"
HAS, HAS_NONE = ('getattr(model, "lora", None) is not None', 'getattr(model, "lora", None) is None')


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("isinstance(model, PeftModel)", HAS),
        ("len(sys.argv) > 2 and not isinstance(model, PeftModel)", f"len(sys.argv) > 2 and {HAS_NONE}"),
        ("hasattr(model, 'merge_and_unload')", HAS),
        ("isinstance(model, PreTrainedModel)", HAS_NONE),
        ("isinstance(model, (PeftModel, PreTrainedModel)) and hasattr(model, 'peft_config')", HAS),
        (
            "hasattr(model, 'base_model') and isinstance(trainer.model, PeftModel)",
            HAS.replace("model", "trainer.model", 1),
        ),
    ],
)
def test_adapters_that_running_tells_are_asked_of_the_model(condition: str, asked: str) -> None:
    found = ported(condition, between=BRANCH)
    assert f"\nif {asked}:\n" in found.after and found.status == "ported"


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (ADAPT.format("model", "model"), CALL.format("model")),
        (ADAPT.format("model, False", "model, True"), CALL.format("model, adapted")),
        (
            f"class Maker:{ADAPT.format('model', 'model')}".replace("\n", "\n    ").replace(
                "(model, s", "(self, model, s", 1
            ),
            CALL.format("model").replace("adapt(", "Maker().adapt("),
        ),
    ],
)
def test_a_function_of_another_file_may_have_put_them_in(tmp_path: Path, function: str, call: str) -> None:
    """It gives the model back with adapters or without: the branch for those without was kept, and saved an adapter."""
    name = "Maker" if "Maker" in function else "adapt"
    (tmp_path / "adapters.py").write_text(f"from peft import get_peft_model\n\n{function}")
    between = f"if len(sys.argv) > 1:\n{call}"
    after = "trainer.train()\nif isinstance(model, PeftModel):\n    model.merge_and_unload().save_pretrained('whole')"
    imports = f"import sys\nfrom peft import LoraConfig, PeftModel\nfrom adapters import {name}"
    (tmp_path / "train.py").write_text(sft_script(imports=imports, between=between, after=after))
    found = port_with_modules(tmp_path / "train.py", Options())
    assert f"\nif {HAS}:\n    rt.merge_and_unload(model).save_pretrained('whole')" in found.after


WHOLE = """def whole(given):
    if isinstance(given, PeftModel):
        given = given.merge_and_unload()
    return given
"""


@pytest.mark.parametrize(
    "merged",
    [
        "final = model.merge_and_unload() if hasattr(model, 'merge_and_unload') else model",
        "if isinstance(model, PeftModel):\n    final = model.merge_and_unload()\nelse:\n    final = model",
        f"{WHOLE}final = whole(model)",
        "merged = model.merge_and_unload() if isinstance(model, PeftModel) else None\nfinal = merged or model",
    ],
)
def test_what_is_merged_where_it_has_adapters_is_saved_either_way(merged: str) -> None:
    after = f"trainer.train()\n{merged}\nfinal.save_pretrained("
    text = sft_script(imports=_imports(merged + BRANCH), between=BRANCH, after=f"{after}'whole')")
    found = port(text)
    assert found.after.endswith("\nrt.save_model(final, 'whole')\n") and found.status == "ported"
    told = port(text.replace("save_pretrained(", "push_to_hub(").replace("'whole')", "'me/x', max_shard_size='2GB')"))
    assert told.after.endswith("\nrt.push_to_hub(final, 'me/x')\n") and told.status == "ported"
    said = port(text.replace("'whole')", "'whole', state_dict={})")).findings
    assert "TP216" in [each.rule for each in said if each.severity == "error"]


def test_what_nobody_can_tell_is_an_error() -> None:
    found = ported("isinstance(model, LlamaForCausalLM)", between=BRANCH, load="sys.argv[2]")
    assert [one.line for one in found.findings if "which class the model had" in one.message] == [
        found.before[: found.before.index("if isinstance")].count("\n") + 1
    ]
    compared = ported("type(model).__name__ == 'PeftModelForCausalLM'", trainer=ADAPTERS)
    assert any(one.severity == "error" and "type(model) is Tunix's class" in one.message for one in compared.findings)


def test_other_questions_stay() -> None:
    found = ported("isinstance(model, str)")
    assert "if isinstance(model, str):" in found.after and found.status == "ported"
    shown = port(sft_script(after="trainer.train()\nprint(type(model))"))
    assert "print(type(model))" in shown.after and shown.status == "ported"


def test_a_class_by_its_attribute_is_one_by_type() -> None:
    line = "print(f'{model.__class__.__name__}', trainer.model.__class__)"
    shown = port(sft_script(after=f"trainer.train()\n{line}"))
    assert "print(f'{model.__class__.__name__}'" in shown.after and shown.status == "ported", shown.findings
    compared = ported("model.__class__.__name__ == 'PeftModelForCausalLM'", trainer=ADAPTERS)
    assert [one.rule for one in compared.findings if one.severity == "error"] == ["TP213"]


def test_a_function_that_gives_tunix_s_model_says_so() -> None:
    text = sft_script(
        "def load() -> AutoModelForCausalLM:\n"
        '    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")\n\n',
        after="trainer.train()",
    )
    ours = text.replace(
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")', "model = load()"
    )
    assert "def load() -> nnx.Module:" in port(ours).after
    other = 'judge = AutoModelForCausalLM.from_pretrained("microsoft/phi-2")\nprint(judge.model.layers)'
    kept = port(ours.replace("trainer.train()", f"trainer.train()\n{other}")).after
    assert "def load() -> AutoModelForCausalLM:" in kept


@pytest.mark.parametrize(("trainer", "asked"), [(ADAPTERS, False), ("", True)])
def test_a_name_that_the_trainer_gives_adapters_does_not_tell_of_them(trainer: str, asked: bool) -> None:
    """The port's adapters are in the script's own model; PEFT's were around it, and the name held what it held."""
    text = sft_script(
        imports="from peft import LoraConfig, PeftModel\nfrom mine import load",
        trainer=trainer,
        after="trainer.train()\nif isinstance(model, PeftModel):\n    print('it is')",
    ).replace('AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")', "load()")
    found = port(text)
    assert (f"if {HAS}:" in found.after) is asked
    assert ("TP213" in [each.rule for each in found.findings]) is not asked


@pytest.mark.parametrize(
    "merge",
    [
        "if len(sys.argv) > 2:\n    model = model.merge_and_unload()",
        "whole = model.merge_and_unload() if len(sys.argv) > 2 else model\nmodel = whole",
    ],
)
def test_a_name_that_holds_the_merged_model_later_is_asked(merge: str) -> None:
    between = "model = get_peft_model(model, LoraConfig(target_modules=['q_proj']))"
    after = f"trainer.train()\n{merge}\nif isinstance(model, PeftModel):\n    print('it is')"
    found = port(sft_script(imports=_imports(between + after), between=between, after=after))
    assert f"\nif {HAS}:\n    print('it is')" in found.after and found.status == "ported"


def test_a_name_that_surely_holds_the_merged_model_is_asked_no_more() -> None:
    """It is no PeftModel any more: what would be done with one never runs."""
    between = "model = get_peft_model(model, LoraConfig(target_modules=['q_proj']))"
    after = "trainer.train()\nmodel = model.merge_and_unload()\nif isinstance(model, PeftModel):\n    print('it is')"
    found = port(sft_script(imports=_imports(between + after), between=between, after=after))
    assert "it is" not in found.after and found.status == "ported"
