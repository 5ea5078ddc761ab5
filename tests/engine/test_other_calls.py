"""Every keyword of a configuration or trainer call has a row, whoever takes it."""

import pytest

from .porting import HEAD, port, sft_script

TRAINER = """from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
"""
TRAINED = """trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", max_steps=5),
    train_dataset=load_dataset("some/rows", split="train"),
    {more}
)
trainer.train()
"""


def fates(source: str) -> dict[str, tuple[str, str]]:
    return {row.source: (row.fate, row.reason) for row in port(source).fields}


def test_a_config_that_nobody_takes_stays() -> None:
    found = fates(TRAINER + "judge = BitsAndBytesConfig(load_in_8bit=True)\n" + TRAINED.format(more=""))
    assert found["BitsAndBytesConfig.load_in_8bit"] == ("exact", "no ported trainer takes it directly")


@pytest.mark.parametrize("given", [False, True])
def test_a_config_that_the_trainer_is_not_given_has_no_effect(given: bool) -> None:
    text = TRAINER + 'args = SFTConfig("out", max_steps=7)\n' + TRAINED.format(more="")
    text = text.replace('args=SFTConfig("out", max_steps=5),', "args=args," if given else "")
    said = [each.message for each in port(text).findings if "isn't given this SFTConfig" in each.message]
    assert len(said) == (0 if given else 1)
    assert ("isn't given it" in fates(text)["SFTConfig.max_steps"][1]) is not given


def test_a_config_that_is_handed_on_is_what_the_runtime_takes_it_for() -> None:
    handed = "import helper\nhelper.use(BitsAndBytesConfig(load_in_8bit=True))\n"
    assert fates(TRAINER + handed + TRAINED.format(more=""))["BitsAndBytesConfig.load_in_8bit"][0] == "changed"


def test_without_a_trainer_nothing_is_claimed() -> None:
    found = fates("from peft import LoraConfig\nprint(LoraConfig(r=4))\n")
    assert found == {"LoraConfig.r": ("exact", "no trainer of this file takes it")}


def test_the_keywords_of_a_refused_trainer_are_manual() -> None:
    found = fates(
        "from trl import RewardConfig, RewardTrainer\n"
        'trainer = RewardTrainer(model="a", args=RewardConfig(output_dir="out"))\ntrainer.train()\n'
    )
    assert {fate for fate, _ in found.values()} == {"manual"}
    assert set(found) == {"RewardTrainer.model", "RewardTrainer.args", "RewardConfig.output_dir"}


def test_a_config_by_condition_is_judged_as_the_runtime_will() -> None:
    chosen = "config = LoraConfig(r=8, use_dora=True) if len('x') else None\n"
    ported = port(TRAINER + chosen + TRAINED.format(more="peft_config=config,"))
    found = {row.source: row.fate for row in ported.fields}
    assert found["LoraConfig.r"] == "exact"
    assert found["LoraConfig.use_dora"] == "manual"
    assert any("use_dora=True" in finding.message for finding in ported.findings if finding.severity == "error")


def test_a_keyword_that_a_config_does_not_have_is_an_error() -> None:
    """PEFT ends there; a keyword that BitsAndBytesConfig doesn't know it reads past."""
    chosen = "config = LoraConfig(r=8, dropout=0.1) if len('x') else None\n"
    ported = port(TRAINER + chosen + TRAINED.format(more="peft_config=config,"))
    assert {row.source: row.fate for row in ported.fields}["LoraConfig.dropout"] == "manual"
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message.startswith("LoraConfig.dropout is not a keyword of LoraConfig 0.")
    handed = "import helper\nhelper.use(BitsAndBytesConfig(load_in_8bit=True, bits=8))\n"
    ported = port(TRAINER + handed + TRAINED.format(more=""))
    assert {row.source: row.fate for row in ported.fields}["BitsAndBytesConfig.bits"] != "manual"


@pytest.mark.parametrize(
    ("keywords", "rows", "said"),
    [
        ('eval_strategy="steps"', "", True),
        ('eval_strategy="no"', "", False),
        ("eval_steps=5", "", False),
        ('eval_strategy="steps"', "eval_dataset=rows,", False),
    ],
)
def test_evaluations_of_no_rows_are_said(keywords: str, rows: str, said: bool) -> None:
    """transformers ends with an error at the trainer, or in older releases at the first evaluation."""
    trained = TRAINED.format(more=rows).replace("max_steps=5", f"max_steps=5, {keywords}")
    found = port(TRAINER + "rows = load_dataset('some/rows', split='test')\n" + trained).findings
    assert any("given no eval_dataset" in each.message for each in found) == said


def test_what_is_inside_a_keyword_has_its_fate() -> None:
    config = "config = LoraConfig(r=8, eva_config=EvaConfig(rho=2.0))\n"
    source = TRAINER.replace("LoraConfig\n", "EvaConfig, LoraConfig\n") + config
    found = fates(source + TRAINED.format(more="peft_config=config,"))
    assert found["EvaConfig.rho"][0] == found["LoraConfig.eva_config"][0] == "changed"


def test_what_the_port_does_by_another_name_is_there() -> None:
    after = "trainer.train()\nif hasattr(model, 'save_pretrained'):\n    model.save_pretrained('last')\n"
    ported = port(sft_script(after=after))
    assert "\nrt.save_model(model, 'last')" in ported.after and "if True" not in ported.after
    unknown = port(sft_script(after=after.replace("'save_pretrained')", "'hf_device_map')")))
    assert "if hasattr(model, 'hf_device_map'):" in unknown.after


@pytest.mark.parametrize(("pinned", "more"), [("4.45.2", ", mean_resizing=False"), ("4.46.0", "")])
def test_tokens_of_its_own_get_rows_as_their_release_made_them(pinned: str, more: str) -> None:
    lines = (
        f"# pip install transformers=={pinned}\ntokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
        "tokenizer.add_special_tokens({'pad_token': '<pad>'})\nmodel.resize_token_embeddings(len(tokenizer))\n"
    )
    text = sft_script(between=lines).replace("dtype=", "torch_dtype=")  # dtype= is of 4.56
    found = port(text.replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B"))
    assert found.status == "ported" and f"rt.resize_vocabulary(model, len(tokenizer){more})\n" in found.after
    assert not [finding for finding in found.findings if finding.rule == "TP312"]


@pytest.mark.parametrize(
    "test",
    ["hasattr(model, 'save_pretrained') and len(rows) > 3", "len(rows) > 3 and hasattr(model, 'save_pretrained')"],
)
def test_a_method_that_is_there_is_not_asked_for_among_others(test: str) -> None:
    found = port(sft_script("rows = [1]", after=f"trainer.train()\nif {test}:\n    model.save_pretrained('last')\n"))
    assert "if len(rows) > 3:\n" in found.after and "True" not in found.after.rsplit("if len(rows)", 1)[1]


@pytest.mark.parametrize("handed", ["model, tokenizer", ""])
def test_a_trained_model_that_is_called_for_a_gradient_is_an_error(handed: str) -> None:
    called = f"""def loss_of({handed}):
    inputs = tokenizer("some text", return_tensors="pt")
    return model(**inputs, labels=inputs["input_ids"]).loss.backward()


print(loss_of({handed}))
"""
    ported = port(
        sft_script(
            "tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n",
            imports="from transformers import AutoTokenizer",
            after=f"trainer.train()\n{called}",
        )
    )
    assert ported.status == "partial"
    assert [finding.message for finding in ported.findings if finding.severity == "error"] == [
        'model(**inputs, labels=inputs["input_ids"]): Tunix\'s model takes no torch tensors and gives no loss: the '
        "port raises here."
    ]


def test_a_method_that_is_asked_for_in_the_function_that_loads_is_answered_once() -> None:
    load = """def load(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    if name.endswith("x"):
        model = prepare(model)
    model = get_peft_model(model, LoraConfig(r=8))
    if hasattr(model, "print_trainable_parameters"):
        model.print_trainable_parameters()
    return model


trainer = SFTTrainer(model=load("Qwen/Qwen3-0.6B"), args=SFTConfig("out"), train_dataset=rows)
trainer.train()
"""
    imports = "from peft import LoraConfig, get_peft_model\nfrom transformers import AutoModelForCausalLM\n"
    ported = port(f"{imports}{HEAD}{load}")
    assert ported.status == "partial"  # `prepare` of a Tunix model
    assert "    rt.print_trainable_parameters(model)\n    return model" in ported.after
    assert "if True" not in ported.after


def test_keywords_of_a_config_that_moves_with_its_call_are_not_said_to_be_gone() -> None:
    """A class of no table, whose object the port gives a name."""
    text = sft_script(imports="from trl import TrainingArguments", trainer="").replace(
        "SFTConfig(", "TrainingArguments("
    )
    found = port(text)
    rows = [row for row in found.recipe.fields if row.source.startswith("TrainingArguments.")]
    assert "args = TrainingArguments(" in found.after and rows
    assert {row.fate for row in rows} == {"changed"} and all("stays" in row.reason for row in rows)


def test_what_the_trainer_calls_itself_with_has_its_fate() -> None:
    found = fates(TRAINER + TRAINED.format(more="") + "trainer.save_model('last', True)\n")
    assert found["save_model._internal_call"][0] == "dropped"


@pytest.mark.parametrize(
    ("pins", "more"),
    [
        ("trl==0.9.6 transformers==4.42.4", ', trl="0.9.6", mean_resizing=False'),
        ("trl==0.12.2 transformers==4.45.2", ", mean_resizing=False"),
        ("trl==0.12.2 transformers==4.46.3", ""),
    ],
)
def test_chat_formats_are_set_up_as_in_the_release(pins: str, more: str) -> None:
    lines = "tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen2-0.5B')\n"
    lines += "model, tokenizer = setup_chat_format(model, tokenizer)\n"
    text = sft_script(between=lines, imports="from trl import setup_chat_format")
    text = (
        text.replace("dtype=", "torch_dtype=")
        .replace("processing_class=", "tokenizer=")
        .replace("Qwen3-0.6B", "Qwen2-0.5B")
    )
    assert f"rt.setup_chat_format(model, tokenizer{more})" in port(f"# pip install {pins}\n{text}").after
