"""What is read from a script's text, and what guards it."""

from __future__ import annotations

import pytest

from porter.releases.uses import uses_of


def unguarded(text: str) -> set[str]:
    found = set()
    for use in uses_of(text):
        if not use.guarded:
            found.update({use.name} if use.imported else set())
            found.update(f"{use.last}({keyword})" for keyword in use.keywords)
            found.update(f"{use.last}.{attribute}" for attribute in use.attributes)
    return found


def test_imports_and_aliases() -> None:
    assert unguarded("import trl\nT = trl.SFTTrainer\nT(packing=True)\n") == {"trl.SFTTrainer", "SFTTrainer(packing)"}
    assert unguarded("from trl import SFTTrainer as T\nT(packing=1)\n") == {"trl.SFTTrainer", "SFTTrainer(packing)"}
    assert unguarded("import transformers as tf\ntf.Trainer(tokenizer=t)\n") == {
        "transformers.Trainer",
        "Trainer(tokenizer)",
    }


def test_spread_literals() -> None:
    found = unguarded(
        "from trl import SFTConfig\n"
        "common = dict(output_dir='o')\ncommon['packing'] = True\n"
        "SFTConfig(**common, **{'max_length': 1})\n"
    )
    assert found == {"trl.SFTConfig", "SFTConfig(output_dir)", "SFTConfig(packing)", "SFTConfig(max_length)"}


def test_a_filtered_dict_says_nothing() -> None:
    text = (
        "from trl import SFTConfig\nkw = dict(packing=1)\n"
        "kw = {k: v for k, v in kw.items() if k in names}\nSFTConfig(**kw)\n"
    )
    assert unguarded(text) == {"trl.SFTConfig"}


@pytest.mark.parametrize(
    "test",
    [
        "'tokenizer' in inspect.signature(SFTTrainer.__init__).parameters",
        "version.parse(trl.__version__) < version.parse('0.13')",
        "hasattr(trl, 'SFTConfig')",
        "OLD",
    ],
)
def test_guards(test: str) -> None:
    text = (
        "import trl\nfrom trl import SFTTrainer\nOLD = trl.__version__ < '1'\nkw = {}\n"
        f"if {test}:\n    kw['tokenizer'] = 1\n    SFTTrainer(packing=1)\n"
        "else:\n    kw['processing_class'] = 1\nSFTTrainer(**kw)\n"
    )
    assert not {found for found in unguarded(text) if "(" in found}


@pytest.mark.parametrize("test", ["__name__ == '__main__'", "args.lora", "os.path.exists('x')"])
def test_other_conditions_guard_nothing(test: str) -> None:
    assert "SFTTrainer(packing)" in unguarded(f"from trl import SFTTrainer\nif {test}:\n    SFTTrainer(packing=1)\n")


def test_a_try_that_falls_back_guards_and_one_that_reports_does_not() -> None:
    falls_back = "try:\n    from trl import SFTConfig\nexcept ImportError:\n    SFTConfig = None\n"
    assert not unguarded(falls_back)
    again = "from trl import SFTTrainer\ntry:\n    SFTTrainer(tokenizer=1)\nexcept TypeError:\n    SFTTrainer()\n"
    assert unguarded(again) == {"trl.SFTTrainer"}
    reports = "from trl import SFTTrainer\ntry:\n    SFTTrainer(tokenizer=1)\nexcept Exception as e:\n    print(e)\n"
    assert "SFTTrainer(tokenizer)" in unguarded(reports)


def test_attributes_of_parsed_arguments() -> None:
    text = (
        "from trl import ModelConfig, SFTConfig, TrlParser\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Mine(SFTConfig):\n    extra: int = 1\n"
        "model_args, args = TrlParser((ModelConfig, Mine)).parse_args_and_config()\n"
        "print(model_args.torch_dtype, args.extra, args.max_seq_length)\n"
        "def f(more: SFTConfig):\n    return more.packing\n"
    )
    found = {one for one in unguarded(text) if "." in one and not one.startswith("trl.")}
    assert found == {"ModelConfig.torch_dtype", "SFTConfig.max_seq_length", "SFTConfig.packing"}


def test_subclasses_take_what_they_extend() -> None:
    text = (
        "from transformers import Trainer\nclass Mine(Trainer):\n"
        "    def compute_loss(self, model, inputs):\n        return self.tokenizer\n"
        "Mine(tokenizer=1).train()\n"
    )
    assert {"Trainer(tokenizer)", "Trainer.tokenizer"} <= unguarded(text)
    own = (
        "from transformers import Trainer\nclass M(Trainer):\n"
        "    def __init__(self, mine): super().__init__(args=1)\nM(mine=2)\n"
    )
    assert unguarded(own) == {"transformers.Trainer", "Trainer(args)"}


def test_unsloth_patches_what_trl_takes() -> None:
    text = "import unsloth\nfrom trl import SFTTrainer\nSFTTrainer(tokenizer=1)\n"
    assert unguarded(text) == {"trl.SFTTrainer"}
    assert unguarded("import unsloth\nimport trl\ntrl.SFTConfig(max_seq_length=1)") == {"trl.SFTConfig"}


def test_what_is_imported_before_unsloth_stays_trl_s() -> None:
    text = (
        "from trl import SFTConfig, SFTTrainer\nimport unsloth\nSFTTrainer(tokenizer=1)\nSFTConfig(max_seq_length=1)\n"
    )
    assert {"SFTTrainer(tokenizer)", "SFTConfig(max_seq_length)"} <= unguarded(text)
    looked_up_later = "import trl\nimport unsloth\ntrl.SFTConfig(max_seq_length=1)\n"
    assert unguarded(looked_up_later) == {"trl.SFTConfig"}


def test_configs_take_what_their_release_has_under_unsloth_too() -> None:
    text = "import unsloth\nimport trl\ntrl.GRPOConfig(max_prompt_length=1)"
    assert unguarded(text) == {"trl.GRPOConfig", "GRPOConfig(max_prompt_length)"}


def test_text_that_is_no_python() -> None:
    with pytest.raises(SyntaxError):
        uses_of("def (")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("class C:\n    kw = {'max_length': 1}\nc = C()\nkw = 3\nSFTConfig(**c.kw)", {"max_length"}),
        ("class C:\n    kw = dict(max_length=1)\nSFTConfig(**C.kw)", {"max_length"}),
        (
            "class C:\n    def __init__(self):\n        self.kw = {'max_length': 1}\n        self.kw['packing'] = 1\n"
            "    def made(self):\n        return SFTConfig(**self.kw)",
            {"max_length", "packing"},
        ),
        (
            "class C:\n    kw: dict = field(default_factory=lambda: {'max_length': 1})\n"
            "def made(c: C):\n    return SFTConfig(**c.kw)",
            {"max_length"},
        ),
        (
            "kw = {'sft': {'max_length': 1}}\nkw['sft']['packing'] = 1\nSFTConfig(**kw['sft'])",
            {"max_length", "packing"},
        ),
        ("class C:\n    kw = {'max_length': 1}\nc = C()\nc.kw = load()\nSFTConfig(**c.kw)", set()),
        ("x.kw = {'max_length': 1}\nSFTConfig(**y.kw)", set()),
    ],
)
def test_spread_literals_of_the_scripts_objects(lines: str, found: set[str]) -> None:
    uses = unguarded(f"from trl import SFTConfig\n{lines}\n")
    assert uses == {"trl.SFTConfig", *(f"SFTConfig({word})" for word in found)}
