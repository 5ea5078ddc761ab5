"""What Unsloth's loading call decides for the trainer."""

from __future__ import annotations

import re

import pytest

from porter.port import Port

from .porting import check_becomes, port

HEAD = """\
from datasets import load_dataset
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
"""
LOAD = "FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', max_seq_length=512, load_in_4bit=False)\n"
PUT_IN = "model = FastLanguageModel.get_peft_model(model)\n"


def script(config: str = "'out'", trainer: str = "") -> str:
    made = f"SFTTrainer(model, args=SFTConfig({config}), train_dataset=rows, processing_class=tokenizer{trainer})\n"
    return f"{HEAD}model, tokenizer = {LOAD}{PUT_IN}trainer = {made}trainer.train()\n"


@pytest.mark.parametrize("config", ["'out'", "'out', max_length=64"])
def test_rows_are_cut_at_the_models_length(config: str) -> None:
    found = check_becomes(script(config), "max_length=512,", gone=("max_length=64",))
    assert [row.fate for row in found.fields if row.source == "FastLanguageModel.max_seq_length"] == ["exact"]


def test_a_base_may_be_quantised_by_a_choice() -> None:
    text = script().replace("load_in_4bit=False", "load_in_4bit=flag if not made else False, load_in_8bit=eight")
    text = "flag, made, eight = map(bool, input().split())\n" + text
    check_becomes(text, '"int8" if eight else ("nf4" if (flag if not made else False) else None)')
    check_becomes(text.replace(", load_in_8bit=eight", ""), '"nf4" if (flag if not made else False) else None')


def test_trl_imported_before_unsloth_stays_as_it_is() -> None:
    text = script("'out', max_length=64").replace("from unsloth import FastLanguageModel\n", "", 1)
    text = text.replace("\nrows =", "from unsloth import FastLanguageModel\n\nrows =")
    check_becomes(text, "max_length=64,\n", "batch_size=8,", "seed=42,", gone=("unsloth=",))


def test_defaults_are_unsloths_where_the_config_says_nothing() -> None:
    check_becomes(script("'out', seed=1"), "accumulation=2,  # Unsloth's default", "seed=1,", 'unsloth="')
    own = "class Config(SFTConfig):\n    pass\n\n"
    assert "Read as Unsloth" in str(port(script()).findings) and "Read as Unsloth" not in str(port(own).findings)


def test_rows_come_in_the_order_of_unsloths_data_seed() -> None:
    found = check_becomes(script("'out', seed=1"), "seed=1,", "data_seed=3407,  # Unsloth's default")
    assert "Unsloth sets it in the config" in str(
        [row.reason for row in found.fields if row.source == "SFTConfig.seed"]
    )
    assert "Its data_seed=3407 orders the rows" in str(found.findings)
    pinned = "# pip install unsloth==2026.9.12\n" + script("'out', seed=1")
    for text in (script(), script("'out', seed=3407"), pinned):
        assert "data_seed" not in port(text).after
    check_becomes(script("'out', seed=1, data_seed=2"), "data_seed=2,", gone=("data_seed=3407",))
    own = script("'out', seed=1").replace("SFTConfig(", "TrainingArguments(")
    assert "data_seed" not in port("from transformers import TrainingArguments\n" + own).after
    spread = "import yaml\n" + script("**yaml.safe_load(open('a'))")
    assert "the data_seed=3407, which orders the rows" in str(port(spread).findings)
    older = "# pip install transformers==4.45.2 trl==0.13.0 unsloth==2025.2.6\n" + script("'out', seed=1")
    assert "data_seed" not in port(older.replace("Qwen3-0.6B", "Llama-3.2-1B")).after


def test_grpos_prompts_come_in_the_order_of_seed() -> None:
    text = script("'out', seed=1").replace("SFT", "GRPO").replace("GRPOTrainer(model", "GRPOTrainer(model, len")
    assert "seed=1," in port(text).after and "data_seed" not in port(text).after


def test_a_config_that_stays_an_object_has_them_too() -> None:
    text = (
        script()
        .replace("SFTConfig('out')", "config")
        .replace("model, tok", "config = SFTConfig('out')\nprint(config)\nmodel, tok", 1)
    )
    check_becomes(text, 'SFTConfig = trl_arguments("0.24.0", "SFTConfig", unsloth="', "max_length=512")


@pytest.mark.parametrize(
    ("rows", "more", "asks"),
    [
        ("CFG['rows']", "", True),
        ("1", "", False),
        ("CFG['rows']", ", steps_per_generation=2", False),
        ("CFG['rows']", ", steps_per_generation=CFG['steps']", True),
    ],
)
def test_grpos_batch_is_raised_when_it_runs(rows: str, more: str, asks: bool) -> None:
    text = f"""from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer
import yaml
CFG = yaml.safe_load(open("config.yaml"))
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=64, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
args = GRPOConfig("out", per_device_train_batch_size={rows}, num_generations=4, max_steps=2{more})
trainer = GRPOTrainer(model, args=args, reward_funcs=[len], train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
    assert ('raise_batch_size="step"' in port(text).after) == asks
    assert (
        "raise_batch_size"
        in port(
            text.replace(
                "from unsloth import FastLanguageModel\nfrom trl import GRPOConfig, GRPOTrainer",
                "from trl import GRPOConfig, GRPOTrainer\nfrom unsloth import FastLanguageModel",
            )
        ).after
    ) is False


def test_grpos_batch_is_raised_to_its_generations() -> None:
    text = """\
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
args = GRPOConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=4, max_steps=2)
GRPOTrainer(model, reward_funcs=len, args=args, train_dataset=rows, processing_class=tokenizer).train()
"""
    text = text.replace("GRPOTrainer(model", "trainer = GRPOTrainer(model").replace(".train()", "\ntrainer.train()")
    check_becomes(text, "batch_size=4,  # Unsloth raises it to num_generations", 'rt.PolicyLoss("bnpo", beta=0.001')
    whole = text.replace("gradient_accumulation_steps=1", "gradient_accumulation_steps=4")
    check_becomes(whole, "batch_size=1,")
    for release, by in (("2025.11.4", "batch_size=1,"), ("2025.11.3", "batch_size=4,  # Unsloth raises it")):
        pins = f"# pip install unsloth=={release} trl==0.23.0 transformers==4.57.1\n"
        assert by in port(pins + whole).after
    asks = whole.replace("device_train_batch_size=1", "device_train_batch_size=int(input())")
    assert 'raise_batch_size="micro_step"' in port(pins + asks).after


def test_unless_the_trainer_is_given_its_own() -> None:
    check_becomes(script(trainer=", max_seq_length=64"), "max_length=64,\n", gone=("max_length=512",))


def test_where_the_length_is_not_seen_a_person_is_asked() -> None:
    loads = f"def load(length):\n    return {LOAD.replace('512', 'length')}\n\nmodel, tokenizer = load(512)\n"
    text = script().replace(f"model, tokenizer = {LOAD}", loads)
    assert "Unsloth cuts rows at the model's max_seq_length, which can't be read" in port(text).after


@pytest.mark.parametrize(
    ("given", "length", "is_same"),
    [
        ("settings", "int(settings['rows']['length'])", True),
        ("settings", "int(settings['rows']['longest'])", False),
        ("other", "int(settings['rows']['length'])", False),
    ],
)
def test_a_config_may_say_the_models_length_itself(given: str, length: str, is_same: bool) -> None:
    loads = f"def load(cfg):\n    length = int(cfg['rows']['length'])\n    return {LOAD.replace('512', 'length')}\n"
    loads = f"import yaml\nsettings, other = yaml.safe_load(open('a')), {{}}\n{loads}model, tokenizer = load({given})\n"
    found = port(script(f"'out', max_length={length}").replace(f"model, tokenizer = {LOAD}", loads))
    assert ("which can't be read" not in found.after) == is_same
    assert (f"max_length={length}," in found.after) or not is_same
    reasons = [row.reason for row in found.fields if row.source == "FastLanguageModel.max_seq_length"]
    assert ["same expression" in reason for reason in reasons] == [is_same]


@pytest.mark.parametrize(
    ("model", "trainer", "written"),
    [
        ("512", "4096", "max_length=512,  # the model's max_seq_length, as in Unsloth"),
        ("512", "64", "max_length=64,"),
        ("512", "LONG", "max_length=min(LONG, 512),"),
        ("LONG", "LONG", "max_length=LONG,"),
        ("None", "4096", "max_length=4096,"),
        ("", "4096", "max_length=2048,  # the model's max_seq_length, as in Unsloth"),
    ],
)
def test_a_trainers_length_is_no_longer_than_its_models(model: str, trainer: str, written: str) -> None:
    of_model = f"max_seq_length={model}, " if model else ""
    text = script(f"'out', max_seq_length={trainer}").replace("max_seq_length=512, ", of_model, 1)
    found = check_becomes(text.replace("\nrows =", "\nimport sys\nLONG = len(sys.argv)\nrows =", 1), written)
    (row,) = (row for row in found.fields if row.source == "SFTConfig.max_seq_length")
    assert (row.fate == "changed") is ("as in Unsloth" in written or "min(" in written)


def test_a_length_that_may_be_reduced_out_of_sight_is_said() -> None:
    loads = f"def load(length):\n    return {LOAD.replace('512', 'length')}\n\nmodel, tokenizer = load(512)\n"
    text = script("'out', max_seq_length=4096").replace(f"model, tokenizer = {LOAD}", loads)
    found = check_becomes(text, "max_length=4096,", status="partial")
    assert any("The port cuts them at the trainer's" in finding.message for finding in found.findings)


def test_an_adapter_saved_by_unsloths_method() -> None:
    check_becomes(script() + "model.save_lora('lora')\n", "rt.save_adapter(model, 'lora')\n", gone=("save_lora",))


COUNTED = 'unsloth_counts="2026.8.19",'


def test_a_steps_tokens_are_counted_as_unsloth_counts_them() -> None:
    """Its count is in transformers' Trainer, whichever of the libraries is imported first."""
    check_becomes(script(), COUNTED)
    late = script().replace("from unsloth import FastLanguageModel\n", "", 1)
    check_becomes(late.replace("\nrows =", "from unsloth import FastLanguageModel\n\nrows ="), COUNTED)
    named = f"import unsloth\n{HEAD}".replace("from unsloth import FastLanguageModel\n", "")
    named += "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)\ntrainer.train()\n"
    check_becomes(named, 'unsloth="', gone=("unsloth_counts",))


def test_by_the_plain_trainer_too() -> None:
    text = f"""\
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

rows = load_dataset('x', split='train')
model, tokenizer = {LOAD}{PUT_IN}args = TrainingArguments('out', num_train_epochs=1)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args=args, train_dataset=rows, data_collator=collator)
trainer.train()
"""
    check_becomes(text, COUNTED)


def test_an_older_unsloths_mistral_takes_the_count_as_well() -> None:
    text = "# /// script\n# dependencies = ['unsloth==2025.1.8', 'trl==0.13.0', 'transformers==4.47.1']\n# ///\n"
    text += script().replace("Qwen3-0.6B", "mistral-7b-v0.3")
    found = check_becomes(text, 'unsloth_counts="2025.1.8",', gone=('transformers="4.45"', "optax.scale("))
    assert "divides no accumulated gradient" not in str(found.findings)


@pytest.mark.parametrize(
    ("column", "trainer", "refused"),
    [
        ("messages", "", True),
        ("text", "", False),
        ("messages", ", formatting_func=len", False),
        ("input_ids", "", False),
    ],
)
def test_rows_that_unsloth_refuses_are_said(column: str, trainer: str, refused: bool) -> None:
    """The port's batches refuse them as well: it was `ported`, and ended there."""
    text = script(trainer=trainer).replace("import load_dataset", "import Dataset")
    made = f"def make():\n    return Dataset.from_dict({{'{column}': [1, 2]}})\n\nrows = make()"
    found = port(text.replace("rows = load_dataset('x', split='train')", made))
    said = [finding for finding in found.findings if "refuses these rows" in finding.message]
    assert [finding.severity for finding in said] == ["error"] * refused
    own = "class Plain:\n    pass\n\n" + text.replace("from unsloth import FastLanguageModel\n", "")
    assert "refuses these rows" not in str(port(own.replace(LOAD, "load()\n").replace(PUT_IN, "")).findings)


AS_CHAT = "def as_chat(text):\n    return {'conversations': [{'role': 'user', 'content': text}]}\n\n"


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        ("[as_chat(each) for each in 'ab']", True),
        ("[as_chat('a'), as_chat('b')]", True),
        ("[as_chat(each) for each in 'ab']\nprint(lines[0])", True),
        ("[{**as_chat(each), 'text': each} for each in 'ab']", False),
        ("[]\nlines.append(as_chat('a'))", False),
        ("[{'conversations': []}]\nlines[0]['text'] = 'a'", False),
    ],
)
def test_rows_of_a_variable_or_a_function_are_seen(made: str, refused: bool) -> None:
    text = script().replace("import load_dataset", "import Dataset")
    lines = f"{AS_CHAT}lines = {made}\nrows = Dataset.from_list(lines)"
    found = port(text.replace("rows = load_dataset('x', split='train')", lines))
    assert ("refuses these rows" in str(found.findings)) == refused, found.findings


SAVES = "model.save_pretrained_gguf('out', tokenizer{})\n"
PINNED = "# /// script\n# dependencies = ['unsloth=={}']\n# ///\n"


@pytest.mark.parametrize(
    ("given", "before", "behind", "left"),
    [
        ("", "", "", "rt.save_gguf(model, 'out', tokenizer)\n"),
        (", quantization_method='q4_k_m'", "", "", "rt.save_gguf(model, 'out', tokenizer, 'q4_k_m')\n"),
        ("", "", "import os\nprint(os.listdir('out'))\n", 'tokenizer, layout="folder")\n'),
        ("", "", "print('out/unsloth.Q8_0.gguf')\n", 'tokenizer, layout="folder")\n'),
        ("", PINNED.format("2025.3.19"), "", 'tokenizer, layout="folder")\n'),
        ("", PINNED.format("2026.1.1"), "", 'tokenizer, layout="working folder")\n'),
        ("", PINNED.format("2026.3.1"), "", "rt.save_gguf(model, 'out', tokenizer)\n"),
    ],
)
def test_gguf_files_are_made_by_llama_cpp(given: str, before: str, behind: str, left: str) -> None:
    ported = port(before + script() + SAVES.format(given) + behind)
    assert ported.status == "ported" and left in ported.after
    assert [finding.severity for finding in ported.findings if finding.rule == "TP722"] == ["warning"]


@pytest.mark.parametrize(
    ("pin", "whole", "gguf"),
    [
        ("", True, True),
        ("unsloth==2025.3.19", False, False),
        ("unsloth==2025.6.1", True, False),
        ("unsloth==2025.10.1", True, False),
        ("unsloth==2025.10.2", True, True),
        ("trl<0.9.0", False, False),  # beside which Unsloth is of 2024
    ],
)
def test_a_base_in_4_bits_is_merged_as_its_release_does(pin: str, whole: bool, gguf: bool) -> None:
    text = PINNED.replace("unsloth=={}", pin) if pin else ""
    text += script().replace("load_in_4bit=False", "load_in_4bit=True")
    ported = port(text + SAVES.format("") + "model.save_pretrained_merged('whole', tokenizer)\n")
    assert ("rt.merge_and_unload(model, unquantized=True)" in ported.after) is whole
    assert ("rt.save_gguf(model, 'out', tokenizer, unquantized=True" in ported.after) is gguf


@pytest.mark.parametrize(("pin", "whole"), [("", False), ("2025.10.2", True)])
def test_a_script_that_looks_for_older_ggufs_has_their_weights(pin: str, whole: bool) -> None:
    text = PINNED.format(pin) if pin else ""
    text += script().replace("load_in_4bit=False", "load_in_4bit=True") + SAVES.format("")
    assert ("unquantized=True" in port(text + "print('out/unsloth.Q4_K_M.gguf')\n").after) is whole


@pytest.mark.parametrize(
    ("saves", "says"),
    [
        (SAVES.format("") + "print(open('out_gguf/Modelfile').read())\n", "writes no Modelfile"),
        (SAVES.format(", first_conversion='f16'"), "has no such method"),
        ("made = " + SAVES.format(""), "has no such method"),
    ],
)
def test_what_the_port_has_not_of_gguf_files_is_an_error(saves: str, says: str) -> None:
    ported = port(script() + saves)
    assert ported.status == "partial" and says in str(ported.findings)


APART = """from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


def load():
    length = 2048
    return FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=length, load_in_4bit=False)


def train(model, tokenizer):
    rows = load_dataset("x", split="train")
    SFTTrainer(model=model, processing_class=tokenizer, args=SFTConfig("out"), train_dataset=rows).train()


model, tokenizer = load()
train(model, tokenizer)
"""


def test_a_length_that_another_function_names_is_a_number_at_the_trainer() -> None:
    found = port(APART).after
    assert "max_length=2048,  # the model's max_seq_length, as in Unsloth" in found
    assert "max_length=length" not in found


@pytest.mark.parametrize(
    ("name", "load"),
    [
        (
            "'meta-llama/Llama-3.2-1B'",
            "rt.pad_as_unsloth(AutoTokenizer.from_pretrained('meta-llama/Llama-3.2-1B'), model, \"2025.3.19\")",
        ),
        ("NAME", 'rt.pad_as_unsloth(AutoTokenizer.from_pretrained(NAME), model, "2025.3.19")'),
        ("'unsloth/Llama-3.2-1B'", "AutoTokenizer.from_pretrained('unsloth/Llama-3.2-1B')"),
    ],
)
def test_a_tokenizer_gets_unsloths_padding(name: str, load: str) -> None:
    text = script().replace("'unsloth/Qwen3-0.6B'", name).replace("rows =", "NAME = 'Qwen/Qwen2.5-0.5B'\nrows =", 1)
    check_becomes("# pip install unsloth==2025.3.19 transformers==5.1.0\n" + text, f"tokenizer = {load}\n")


@pytest.mark.parametrize(("name", "said"), [("google/gemma-3-1b-it", True), ("unsloth/gemma-3-1b-it", False)])
def test_a_copy_with_another_end_token_is_named(name: str, said: bool) -> None:
    found = port(script().replace("unsloth/Qwen3-0.6B", name)).findings
    assert any("Name unsloth/gemma-3-1b-it" in each.fix for each in found) is said


@pytest.mark.parametrize(
    ("pinned", "order", "undivided"),
    [
        ("2025.6.1 trl==0.17.0", "unsloth trl", True),
        ("2025.6.4 trl==0.17.0", "unsloth trl", True),
        ("2025.6.5 trl==0.17.0", "unsloth trl", False),
        ("2025.6.1 trl==0.17.0", "trl unsloth", False),
        ("2025.6.1 trl==0.15.2", "trl unsloth", True),
    ],
)
def test_grpos_loss_is_divided_as_unsloth_does(pinned: str, order: str, undivided: bool) -> None:
    imports = {"unsloth": "from unsloth import FastLanguageModel\n", "trl": "from trl import GRPOConfig, GRPOTrainer\n"}
    text = f"""# pip install unsloth=={pinned}
{"".join(imports[name] for name in order.split())}
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
args = GRPOConfig("out", per_device_train_batch_size=4, num_generations=4, max_steps=2, temperature=0.7)
trainer = GRPOTrainer(model, args=args, reward_funcs=[len], train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
    assert ("loss_temperature=1.0" in port(text).after) is undivided


@pytest.mark.parametrize(("packing", "said"), [("True", False), ("False", True)])
def test_a_doubled_start_is_said_of_rows_that_are_not_packed(packing: str, said: bool) -> None:
    text = f"""# pip install unsloth==2024.12.12 trl==0.11.1
{HEAD}model, tokenizer = {LOAD}{PUT_IN}args = SFTConfig('out', packing={packing}, dataset_text_field='text')
trainer = SFTTrainer(model, args=args, train_dataset=rows, tokenizer=tokenizer)
trainer.train()
"""
    found = port(text).findings
    assert any("leaves out a BOS" in each.message for each in found) is said


EVALUATED = """from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=256, load_in_4bit=False)
rows = load_dataset("x", split="train").train_test_split(test_size=0.1)
args = TrainingArguments("out", eval_strategy="{strategy}", per_device_train_batch_size={train}{evaluation})
parts = {{"train_dataset": rows["train"], "eval_dataset": rows["test"]}}
trainer = SFTTrainer(model, args=args, processing_class=tokenizer, **parts)
trainer.train()
"""


@pytest.mark.parametrize(
    ("strategy", "train", "evaluation", "written"),
    [
        ("epoch", 2, "", "batch_size=2"),
        ("epoch", 2, ", per_device_eval_batch_size=8", "batch_size=2"),
        ("epoch", 2, ", per_device_eval_batch_size=4", "batch_size=4"),
        ("epoch", 16, "", ""),
    ],
)
def test_an_evaluation_by_8_goes_by_the_trainings_batch(
    strategy: str, train: int, evaluation: str, written: str
) -> None:
    found = port(EVALUATED.format(strategy=strategy, train=train, evaluation=evaluation))
    assert not [row.source for row in found.fields if row.fate == "manual"]
    [line] = [line for line in found.after.splitlines() if "batches.evaluation(" in line]
    assert (written in line) if written else ("batch_size=2" not in line and "batch_size=4" not in line)


GIVEN_BESIDE = """# {install}
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train")
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length={of_model})
trainer = SFTTrainer(model, args={config}, train_dataset=rows, tokenizer=tokenizer{given})
trainer.train()
"""
PLAIN, OWN = 'TrainingArguments("out")', 'SFTConfig("out")'
GIVEN = ', packing=True, max_seq_length=512, dataset_text_field="text"'


def given_beside(config: str, install: str = "", given: str = GIVEN, of_model: int = 2048) -> Port:
    return port(GIVEN_BESIDE.format(config=config, install=install, given=given, of_model=of_model))


def said_lost(found: Port) -> list[str]:
    return [each.severity for each in found.findings if each.rule == "TP704"]


@pytest.mark.parametrize(
    ("config", "release", "written", "says"),
    [
        (PLAIN, "2025.5.7", ("packing=True,", "max_length=512,"), []),
        (PLAIN, "2025.5.8", ("max_length=1024,  # as Unsloth loses the trainer's",), ["warning"]),
        (PLAIN, "2026.8.19", ("max_length=1024,  # as Unsloth loses the trainer's",), ["warning"]),
        (PLAIN, "2026.10.8", ("packing=True,", "max_length=512,"), []),
        (OWN, "2026.6.8", ("max_length=2048,  # the model's max_seq_length",), ["warning"]),
        (OWN, "2026.8.19", ("packing=True,", "max_length=512,"), []),
    ],
)
def test_what_unsloth_loses_beside_the_arguments_has_no_effect(
    config: str, release: str, written: tuple[str, ...], says: list[str]
) -> None:
    found = given_beside(config, f"pip install unsloth=={release}")
    assert all(line in found.after for line in written) and said_lost(found) == says
    assert ("packing=True" in found.after) == ("packing=True," in written)
    lost = [row.fate for row in found.fields if row.source in ("SFTTrainer.packing", "SFTTrainer.max_seq_length")]
    assert lost == (["dropped", "dropped"] if says else ["exact", "exact"])


def test_a_config_that_says_it_too_is_acted_on() -> None:
    found = given_beside('SFTConfig("out", packing=True)', "pip install unsloth==2026.6.8", ", packing=True", 512)
    assert "packing=True," in found.after and said_lost(found) == []


def test_where_nothing_names_the_release_the_port_does_what_is_written_and_says_so() -> None:
    found = given_beside(PLAIN)
    assert "packing=True," in found.after and "max_length=512," in found.after and said_lost(found) == ["warning"]
    assert said_lost(given_beside(PLAIN, given="")) == ["info"]  # the model's 2048, for which TRL cuts at 1024
    assert said_lost(given_beside(PLAIN, given=", packing=False, max_seq_length=1024")) == []
    reduced = ", packing=False, max_seq_length=2048"  # to the model's, at which TRL cuts anyway
    assert said_lost(given_beside(PLAIN, given=reduced, of_model=1024)) == []
    assert said_lost(given_beside(PLAIN, given=reduced, of_model=512)) == ["info"]
    assert said_lost(given_beside(OWN)) == []
    kept = GIVEN_BESIDE.replace("trainer = ", 'args = TrainingArguments("out")\nprint(args)\ntrainer = ')
    found = port(kept.format(config="args", install="pip install unsloth==2026.6.8", given=GIVEN, of_model=2048))
    assert "packing=True" in found.after and said_lost(found) == ["warning"]


GEMMA = "FastModel.from_pretrained('unsloth/gemma-3-4b-it', load_in_4bit=False)\n"


@pytest.mark.parametrize(
    ("load", "call", "asked"),
    [
        (GEMMA, "tokenizer.apply_chat_template(talk)", "tokenizer.apply_chat_template(talk, tokenize=False)"),
        (GEMMA, "tokenizer.apply_chat_template(talk, tokenize=True)", ""),
        (GEMMA.replace("4b", "1b"), "tokenizer.apply_chat_template(talk)", ""),
        (GEMMA.replace("gemma-3-4b-it", "medgemma-27b-text-it"), "tokenizer.apply_chat_template(talk)", ""),
        (LOAD, "tokenizer.apply_chat_template(talk)", ""),
    ],
)
def test_a_multimodal_models_processor_gives_texts(load: str, call: str, asked: str) -> None:
    texts = f"tokenizer = get_chat_template(tokenizer, chat_template='gemma-3')\ntext = {call}\n"
    text = f"{HEAD}from unsloth import FastModel, get_chat_template\nmodel, tokenizer = {load}{PUT_IN}{texts}"
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    after = port(f"{text}trainer = {made}\ntrainer.train()\n").after
    assert (f"text = {asked}\n" in after) if asked else ("tokenize=False" not in after)


SHARED = ", mapping={'role': 'from', 'content': 'value', 'user': 'human', 'assistant': 'gpt'}"
USUAL = ", mapping={'role': 'role', 'content': 'content', 'user': 'user', 'assistant': 'assistant'}"


@pytest.mark.parametrize(
    ("template", "mapping", "ported"),
    [("llama-3", SHARED, True), ("qwen-2.5", USUAL, True), ("qwen-2.5", SHARED, False), ("llama-3", "", True)],
)
def test_other_names_for_roles_are_those_of_llama_3(template: str, mapping: str, ported: bool) -> None:
    call = f"get_chat_template(tokenizer, chat_template='{template}'{mapping})"
    text = (
        f"{HEAD}from unsloth import FastModel, get_chat_template\nmodel, tokenizer = {LOAD}{PUT_IN}tokenizer = {call}\n"
    )
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    found = port(f"{text}trainer = {made}\ntrainer.train()\n")
    assert (f"tokenizer = rt.{call}" in found.after) is ported
    assert any(finding.rule == "TP712" for finding in found.findings) is not ported


PADS = "def tokenize(row):\n    return tokenizer(row['text'], padding='max_length', max_length=8)\n"


@pytest.mark.parametrize(
    ("before", "behind", "sides"),
    [
        ("", "rows = rows.map(tokenize)\n", ["right"]),
        ("rows = rows.map(tokenize)\n", "", ["left"]),
        ("", "", []),
        (
            "",
            "rows = rows.map(tokenize)\nFastLanguageModel.for_inference(model)\nx = tokenizer('a', padding=True)\n",
            ["right", "left"],
        ),
        ("", "tokenizer.padding_side = 'left'\nrows = rows.map(tokenize)\n", []),
        (
            "",
            "def demo():\n    FastLanguageModel.for_inference(model)\nrows = rows.map(tokenize)\ndemo()\n",
            ["right"],
        ),
    ],
)
def test_a_tokenizer_pads_on_unsloths_side(before: str, behind: str, sides: list[str]) -> None:
    text = f"{HEAD}model, tokenizer = {LOAD}{PADS}{before}{PUT_IN}{behind}"
    made = "SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)"
    after = port(f"{text}trainer = {made}\ntrainer.train()\n").after
    assert re.findall(r'tokenizer\.padding_side = "(\w+)"\n', after) == sides
    assert len(sides) < 2 or 'tokenizer.padding_side = "left"\nx = tokenizer(' in after


@pytest.mark.parametrize(("unsloth", "kind"), [("2025.5.6", "grpo"), ("2025.6.1", "bnpo")])
def test_its_own_loss_of_grpo_took_each_completions_mean(unsloth: str, kind: str) -> None:
    script = f"""# pip install unsloth=={unsloth} trl==0.16.1
from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen2.5-0.5B", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
args = GRPOConfig("out")
trainer = GRPOTrainer(
    model=model,
    reward_funcs=lambda completions, **kwargs: [0.0 for _ in completions],
    args=args,
    train_dataset=load_dataset("some/rows", split="train"),
)
trainer.train()
"""
    assert f'rt.PolicyLoss("{kind}"' in port(script).after, port(script).after
