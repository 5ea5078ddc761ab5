"""What of a notebook fails before its training, and which of it can be left out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from porter.validate.running.beside_training import LeftOut, is_beside

NOTEBOOK = """
rows = load_dataset("rows")
base = AutoModelForCausalLM.from_pretrained("base")
connection = sqlite3.connect("databases/planets.db")
cursor = connection.cursor()
for row in rows["valid"]:
    answers.append(run(base.generate(row), cursor))
rows = rows.shuffle()
kept = [line for line in rows["train"]]
model, tokenizer = load("base")
model.config.use_cache = False
tokenizer.pad_token = tokenizer.eos_token
tokenizer.add_tokens(words)
def text_of(row):
    said = template.format(**row)
    return said
trainer = SFTTrainer(model, train_dataset=kept, processing_class=tokenizer, formatting_func=text_of)
trainer.train()
print(cursor)
def again():
    trainer.train()
"""


@pytest.mark.parametrize(
    ("failed", "beside"),
    [
        ("connection = sqlite3.connect('databases/planets.db')", True),
        ("cursor = connection.cursor()", True),
        ("base.eval()", True),
        ("print(rows['train'][0]['question'])", True),
        ("display(rows)", True),
        ("rows.head(3)", True),
        ("rows = rows.map(text_of)", False),
        ("rows.set_format('torch')", False),
        ("prepare(rows)", False),
        ("prepare(data=rows)", False),
        ("words = open('words.txt').read()", False),  # which change the tokenizer
        ("template = open('template.txt').read()", False),  # which a function of the training's reads
        ("import templates as template", False),
        ("if sys.argv:\n    def template(row): ...", False),
        ("said = open('said.txt').read()", True),  # that function's own name
        ("line = open('line.txt').read()", True),  # and a comprehension's
        ("model = prepare(base)", True),  # which is bound anew
        ("kept = rows['valid']", True),
        ("text_of = templates['text']", True),
        ("tokenizer = AutoTokenizer.from_pretrained('other')", True),
        ("for row in rows: row['text'] = 'x'", False),
    ],
)
def test_what_the_training_takes_nothing_of_is_beside_it(failed: str, beside: bool) -> None:
    statements = ast.parse(NOTEBOOK).body
    statements[3:3] = ast.parse(failed).body
    assert is_beside(statements, 3) is beside


def test_a_loop_by_hand_trains_too() -> None:
    loop = "for batch in loader:\n    model(batch).loss.backward()\n"
    for failed, beside in (("rows.info()", True), ("loader = load(rows)", False)):
        assert is_beside(ast.parse(f"{failed}\n{loop}").body, 0) is beside


def test_what_fails_in_training_or_behind_it_is_not_beside_it() -> None:
    statements = ast.parse(NOTEBOOK).body
    train = next(place for place, each in enumerate(statements) if "trainer.train" in ast.unparse(each))
    assert not is_beside(statements, train) and not is_beside(statements, train + 1)


def test_a_port_leaves_out_what_its_source_did_and_what_follows_from_it(tmp_path: Path) -> None:
    statements, said = ast.parse(NOTEBOOK).body, list[str]()
    missing = NameError("name 'connection' is not defined", name="connection")
    port = LeftOut(statements, tmp_path, False, said.append)
    assert not port.takes(2, OSError("no such file"))  # a port that fails where its source doesn't
    source = LeftOut(statements, tmp_path, True, said.append)
    assert source.takes(2, OSError("no such file")) and source.takes(3, missing)
    assert len(said) == 1 and said[0].startswith('"connection = sqlite3.connect')
    port = LeftOut(statements, tmp_path, False, said.append)
    assert port.takes(2, OSError("no such file")) and port.takes(3, missing)
    assert not port.takes(4, ValueError("of the port alone"))
