"""A port without torch asks nobody for torch's tensors."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port, sft_script

SCRIPT = """{imports}
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
{prepare}
rows = load_dataset("some/rows", split="train").map(prepare, batched=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = Trainer(
    model=model,
    args=TrainingArguments("out", max_steps=5, report_to="none"),
    train_dataset=rows,
    data_collator={collator},
)
trainer.train()
{after}"""
COLLATOR = "DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)"
TOLIST = """def prepare(batch):
    encodings = tokenizer(
        batch["text"], padding="max_length", truncation=True, max_length=512, return_tensors="pt"
    )
    input_ids = encodings['input_ids'].tolist()
    return {"input_ids": input_ids, "labels": input_ids}
"""
CLONED = """def prepare(batch):
    found = tokenizer(batch["text"], padding=True, return_tensors='pt')
    labels = found["input_ids"].clone()
    print(found["input_ids"].size(0), found.attention_mask.bool(), labels.dim())
    labels[labels == tokenizer.pad_token_id] = -100
    found["labels"] = labels.detach().cpu()
    return found
"""
OWN = """class Collate:
    def __call__(self, rows, return_tensors="pt"):
        return tokenizer.pad(rows, return_tensors=return_tensors)
def prepare(batch):
    return tokenizer(batch["text"])
"""


def script(prepare: str, *, imports: str = "", collator: str = COLLATOR, after: str = "") -> str:
    return SCRIPT.format(prepare=prepare, imports=imports, collator=collator, after=after)


def test_rows_are_made_of_arrays() -> None:
    check_becomes(script(TOLIST, imports="import torch"), 'return_tensors="np"', gone=('"pt"', "import torch"))


def test_a_copy_stays_a_copy_and_methods_are_those_of_arrays() -> None:
    check_becomes(
        script(CLONED),
        "return_tensors='np'",
        'labels = found["input_ids"].copy()',
        'print(found["input_ids"].shape[0], found.attention_mask.astype("bool"), labels.ndim)',
        'found["labels"] = labels\n',
        gone=("clone", "'pt'"),
    )


def test_a_collator_of_its_own() -> None:
    check_becomes(script(OWN, collator="Collate()"), 'def __call__(self, rows, return_tensors="np"):')


def test_what_an_array_cannot_do_is_named() -> None:
    expanded = TOLIST.replace(".tolist()", ".expand(2, -1)")
    ported = port(script(expanded))
    assert ported.status == "partial"
    assert [finding.rule for finding in ported.findings if finding.severity == "error"] == ["TP528"]
    handed = TOLIST.replace("input_ids = encodings['input_ids'].tolist()", "return encodings").replace(
        '    return {"input_ids": input_ids, "labels": input_ids}\n', ""
    )
    handed = (
        handed.replace("def prepare", "def encode") + "\ndef prepare(batch):\n    return encode(batch).data.topk(1)\n"
    )
    ported = port(script(handed))
    assert "TP528" in [finding.rule for finding in ported.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    "more",
    [
        {"imports": "import torch", "after": "print(torch.zeros(3))\n"},
        {"after": 'other = AutoModelForCausalLM.from_pretrained("gpt2")\nprint(other.config)\n'},
        {"imports": "from torch.utils.data import Dataset\nclass Rows(Dataset):\n    pass\n"},
    ],
)
def test_a_port_that_uses_torch_keeps_its_tensors(more: dict[str, str]) -> None:
    assert 'return_tensors="pt"' in port(script(TOLIST, **more)).after


@pytest.mark.parametrize(("release", "asked"), [("4.57.1", True), ("5.0.0", False)])
def test_a_chat_template_gives_what_it_gave(release: str, asked: bool) -> None:
    chat = "def prepare(batch):\n    ids = tokenizer.apply_chat_template(batch['m'], return_tensors='pt')\n"
    chat += "    return {'input_ids': ids}\n"
    after = port(script(chat, imports=f"# pip install transformers=={release}")).after
    assert "return_tensors='np'" in after
    assert ("return_dict=False" in after) is asked


FORMATTED = """\
{imports}
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("x", split="train").map(lambda row: tokenizer(row["text"]))
{formats}
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset={given},
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
trainer.train()
{after}
"""


@pytest.mark.parametrize(
    ("formats", "given", "there"),
    [
        ('rows.set_format("torch")', "rows", 'rows.set_format("numpy")'),
        ("rows.set_format(type='torch', columns=['input_ids'])", "rows", "type='numpy', columns=['input_ids']"),
        ("", 'rows.with_format("torch")', 'rows.with_format("numpy")'),
    ],
)
def test_rows_are_arrays_where_no_torch_is_left(formats: str, given: str, there: str) -> None:
    filled = {"formats": formats, "given": given}
    assert there in port(FORMATTED.format(imports="", after="", **filled)).after
    kept = port(FORMATTED.format(imports="import torch", after="print(torch.zeros(3))", **filled)).after
    assert there not in kept and there.replace("numpy", "torch") in kept


@pytest.mark.parametrize(
    ("mask", "there", "named"),
    [
        ("torch.ones_like(ids)", "attention_mask=np.ones_like(ids)", False),
        ("torch.roll(ids, 1)", "", True),
    ],
)
def test_token_ids_that_torchs_functions_are_given(mask: str, there: str, named: bool) -> None:
    """They are NumPy's in the port, whatever else needs torch there."""
    sampled = "ids = tokenizer('a', return_tensors='pt')['input_ids'].to('cuda')\n"
    sampled += f"print(model.generate(input_ids=ids, max_new_tokens=5, attention_mask={mask}))"
    found = port(FORMATTED.format(imports="import torch", formats="", given="rows", after=sampled))
    assert there in found.after
    assert any("NumPy array" in finding.message for finding in found.findings) is named


def test_a_configuration_of_the_runtime_needs_no_torch() -> None:
    """A LoraConfig that the script reads again stays an object, of the runtime: it kept torch's tensors."""
    lora = "from peft import LoraConfig, TaskType, get_peft_model"
    between = """lora = LoraConfig(r=8, target_modules=["q_proj"], task_type=TaskType.CAUSAL_LM)
model = get_peft_model(model, lora)
tokens = tok("a", return_tensors="pt")["input_ids"].squeeze()
"""
    script = sft_script("tok = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')", imports=lora, between=between)
    found = port(script.rstrip("\n") + "\nprint(lora.r)\n")
    assert 'return_tensors="np"' in found.after and "lora = LoraConfig(" in found.after, found.after
