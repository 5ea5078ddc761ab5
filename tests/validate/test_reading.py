"""Reads of data in whole projects: which columns, which kinds, in which form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from porter.validate.stand_ins.command_line.project import project_files
from porter.validate.stand_ins.data.columns import find_columns, find_reads, longest_wanted, rows_wanted
from porter.validate.stand_ins.data.rows import made_up_rows


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("d = load_dataset('x')\nfor r in d:\n    print(r['messages'][0]['content'])", {"messages": "messages"}),
        (
            "def f(x):\n    return {'text': x['turns'][0]['from'] + x['turns'][0]['value']}\nload_dataset('x').map(f)",
            {"turns": "sharegpt"},
        ),
        (
            "def f(e):\n    return {'t': [q + '\\n' + a for q, a in zip(e['q'], e['a'])]}\n"
            "d = load_dataset('x').map(f, batched=True)",
            {"q": "text", "a": "text"},
        ),
        (
            "def f(e):\n    out = []\n    for i in range(len(e['q'])):\n"
            "        out.append(e['q'][i] + '!')\n    return out\n"
            "t = SFTTrainer(m, train_dataset=load_dataset('x', split='train'), formatting_func=f)",
            {"q": "text"},
        ),
        ("d = load_dataset('x').map(lambda r: {'n': float(r['price'])})", {"price": "number"}),
        ("d = load_dataset('x').map(lambda r: {'n': int(r['answer'])})", {"answer": "numeral"}),
        (
            "d = load_dataset('x').map(lambda r: {'n': r['answer'].split('####')[1].strip()})",
            {"answer": {"marked": ["####"]}},
        ),
        (
            "d = load_dataset('x').map(lambda r: {'n': r['whole'].split('[/INST]')[0], 'w': r['b'].split('ab')[0]})",
            {"whole": {"marked": ["[/INST]"]}, "b": "text"},
        ),
        (
            "def f(r):\n    if '</think>' not in r['made'] or '<img>' in r['made']:\n        return None\n"
            "d = load_dataset('x').filter(f)",
            {"made": {"marked": ["</think>"]}},
        ),
        (
            "def f(r):\n    if '</think>' not in r['plain']:\n        print('it is short')\n    return True\n"
            "d = load_dataset('x').filter(f)",
            {"plain": "text"},
        ),
        (
            "def verdict(text):\n    return re.match(r'\\s*(yes|no|maybe)\\b', text.strip().lower())\n"
            "d = load_dataset('x').filter(lambda r: verdict(r['said']) and re.search(r'(a|b)', r['other']))",
            {"said": {"begins": ["yes", "no", "maybe"]}, "other": "text"},
        ),
        (
            "M = {0: 'no', 1: 'yes'}\nd = load_dataset('x').map(lambda r: {'t': r['body'].strip() + M[r['kind']]})",
            {"body": "text", "kind": {"one of": [0, 1]}},
        ),
        (
            "M = {'good': 1, 'bad': 0}\nd = load_dataset('x').map(lambda r: {'n': M.get(r['mood'])})",
            {"mood": {"one of": ["good", "bad"]}},
        ),
        ("d = load_dataset('x').map(lambda r: {'t': 'ABCD'[r['answer']]})", {"answer": {"one of": [0, 1, 2, 3]}}),
        (
            "d = load_dataset('x').map(lambda r: {'t': [a + b for a, b in zip(r['c']['label'], r['c']['text'])]})",
            {"c": {"fields": {"label": {"list": "text"}, "text": {"list": "text"}}}},
        ),
        (
            "d = load_dataset('x', split='train').to_pandas()\nt = [r.asked.strip() for i, r in d.iterrows()]",
            {"asked": "text"},
        ),
        ("d = load_dataset('x').filter(lambda r: r['lang'] == 'en')", {"lang": {"one of": ["en", "other"]}}),
        ("d = load_dataset('x').filter(lambda r: r['ok'] is True)", {"ok": "choice"}),
        (
            "d = load_dataset('x').class_encode_column('topic')\n"
            "d = d.train_test_split(0.1, stratify_by_column='label')",
            {"topic": {"one of": ["topic a", "topic b", "topic c", "topic d"]}, "label": {"one of": [0, 1]}},
        ),
        (
            "df = pd.read_csv('a.csv')\na, b = train_test_split(df, stratify=df['mood_id'])\nprint(a['q'].str.strip())",
            {"mood_id": {"one of": [0, 1, 2, 3]}, "q": "text"},
        ),
        (
            "df = pd.read_csv('a.csv')\na, b = train_test_split(df, stratify=df[['mood']])",
            {"mood": {"one of": ["mood a", "mood b", "mood c", "mood d"]}},
        ),
        (
            "df = pd.read_csv('a.csv')\nfor a, b in StratifiedKFold(5).split(df['q'], df['mood']):\n    pass",
            {"mood": {"one of": ["mood a", "mood b", "mood c", "mood d"]}},
        ),
        ("T = 'A {q} B {a}'\nd = load_dataset('x').map(lambda r: {'text': T.format(**r)})", {"q": "text", "a": "text"}),
        (
            "d = load_dataset('squad').map(lambda r: {'text': r['answers']['text'][0] + r['context']})",
            {"answers": {"fields": {"text": {"list": "text"}}}, "context": "text"},
        ),
        (
            "d = load_dataset('x').map(lambda r: {'text': json.loads(r['tools'])['name']})",
            {"tools": {"json": {"fields": {"name": "text"}}}},
        ),
        (
            "d = load_dataset('x').map(lambda r: {'text': r['a']}).map(lambda r: {'more': r['text'] + r['b']})",
            {"a": "text", "b": "text"},
        ),
        (
            "for row in json.load(open('a.json'))['rows']:\n    one = random.choice(row['made'])\n"
            "    print([list(layer) for layer in one['layers']], random.sample(row['q'], 2))",
            {"made": {"list": {"fields": {"layers": {"list": "text"}}}}, "q": {"list": "text"}},
        ),
        ("d = load_dataset('x').map(lambda r: {'t': rng.choice(r['answers'])})", {"answers": {"list": "text"}}),
        ("df = pd.read_csv('a.csv').sample(200)\nprint(df['q'].str.strip())", {"q": "text"}),
        ("df = pd.read_csv('a.csv')\nfor row in df.itertuples():\n    print(row.review.strip())", {"review": "text"}),
        ("df = pd.read_csv('a.csv')\ndf['text'] = df['q'] + 'x'\nprint(df['text'])", {"q": "text"}),
        (
            "def reward(completions, answer, **kwargs):\n    return [float(answer[0]) for c in completions]\n"
            "t = GRPOTrainer(m, reward)",
            {"answer": "numeral", "prompt": "text"},
        ),
        (
            "d = load_dataset('x').filter(lambda r: r['score'] > 3)\nt = DPOTrainer(m, train_dataset=d)",
            {"score": "number", "prompt": "text", "chosen": "text", "rejected": "text"},
        ),
        (
            "d = load_dataset('x').map(lambda r: {'p': tok.apply_chat_template(r['chosen'][:-1], tokenize=False)})",
            {"chosen": "messages"},
        ),
    ],
)
def test_kinds_by_use(source: str, columns: dict[str, Any]) -> None:
    found = find_columns([source])
    assert {name: found.get(name) for name in columns} == columns
    assert not {"text", "t", "n", "p", "more"} & set(found)


def test_a_torch_dataset_of_another_module() -> None:
    module = """
class Supervised(Dataset):
    def __init__(self, path, tokenizer):
        self.rows = [json.loads(line) for line in open(path)]

    def __getitem__(self, index):
        row = self.rows[index]
        return tokenizer(row["instruction"] + "\\n" + row["output"])
"""
    script = "from module import Supervised\ndata = Supervised('data/train.jsonl', tokenizer)\n"
    read = find_reads([script, module]).reads[0]

    assert (read.kind, read.place, read.form) == ("file", 1, "lines")
    assert read.columns == {"instruction": "text", "output": "text"}


def test_forms_of_files() -> None:
    source = """
with open("a.json") as file:
    data = json.load(file)
pairs = data["train"][0]["q"]
settings = json.load(open("b.json"))["learning_rate"]
yaml.safe_load(open("c.yaml"))
for row in csv.DictReader(open("d.csv")):
    print(row["name"])
lines = open("e.txt").read().splitlines()
"""
    reads = find_reads([source]).reads

    assert [read.form for read in reads] == ["json", "configuration", "configuration", "csv", "text"]
    assert reads[0].document == {"fields": {"train": {"list": {"fields": {"q": "text"}}}}}
    assert reads[3].columns == {"name": "text"}


def test_two_tables_are_joined_by_a_key_that_both_have() -> None:
    """All else is the first one's: with all columns in both, pandas gives each two other names."""
    text = (
        "a, b = pd.read_csv('things.csv'), pd.read_csv('kinds.csv')\n{}\n"
        "both['text'] = both.apply(lambda row: row['thing'] + row['kind'], axis=1)\n"
    )
    for line in ("both = pd.merge(a, b, on=['kind_id'])", "both = a.merge(b, left_on='kind_id', right_on='id')"):
        first, second = (read.columns for read in find_reads([text.format(line)]).reads)
        assert first == {"kind_id": "key", "thing": "text", "kind": "text"}
        assert second == {"kind_id" if "pd" in line else "id": "key"}
    assert [row["kind_id"] for row in made_up_rows({"kind_id": "key"}, 4)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        ("row['kind_id'].strip()", "text key"),
        ("row['kind_id'] == 'a'", "text key"),
        ("int(row['kind_id'])", "key"),
        ("row['thing']", "key"),
    ],
)
@pytest.mark.parametrize("on", ["on='kind_id'", "left_on='kind_id', right_on='id'"])
def test_a_key_that_is_read_as_text_is_a_text_in_both_tables(read: str, kind: str, on: str) -> None:
    text = (
        f"a, b = pd.read_csv('things.csv'), pd.read_csv('kinds.csv')\nboth = a.merge(b, {on})\n"
        f"both['text'] = both.apply(lambda row: row['thing'] if {read} else '', axis=1)\n"
    )
    first, second = (read.columns for read in find_reads([text]).reads)
    assert first["kind_id"] == second["kind_id" if "left" not in on else "id"] == kind
    assert [row["k"] for row in made_up_rows({"k": "text key"}, 2)] == ["key 0", "key 1"]


def test_a_dataset_that_is_called_tokenized_has_tokens() -> None:
    text = "rows = load_dataset('me/cnn_tokenized')\nSFTTrainer(model, train_dataset=rows['train']).train()"
    assert find_reads([text]).reads[0].columns == {"input_ids": "block", "attention_mask": "mask", "labels": "block"}


def test_a_method_of_the_name_of_the_function_that_calls_it_is_not_that_function() -> None:
    text = (
        "def apply_chat_template(row):\n    row['text'] = tokenizer.apply_chat_template(row['talk'])\n    return row\n"
        "load_dataset('x').map(apply_chat_template)"
    )
    assert find_columns([text]) == {"talk": "messages"}


def test_modules_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("")
    (tmp_path / "tools" / "data.py").write_text("from .more import x\n")
    (tmp_path / "tools" / "more.py").write_text("x = 1\n")
    script = tmp_path / "train.py"
    script.write_text("import json\nfrom tools.data import load\n")

    names = [str(file.relative_to(tmp_path)) for file in project_files(script)]
    assert names[0] == "train.py" and {"tools/data.py", "tools/more.py"} <= set(names)


def test_modules_of_a_project_that_keeps_its_package_under_src(tmp_path: Path) -> None:
    (tmp_path / "src" / "posttrain").mkdir(parents=True)
    (tmp_path / "src" / "posttrain" / "__init__.py").write_text("")
    (tmp_path / "src" / "posttrain" / "data.py").write_text("def load(row):\n    return row['question']\n")
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "train.py"
    script.write_text("from posttrain.data import load\n")

    names = [str(file.relative_to(tmp_path)) for file in project_files(script)]
    assert "src/posttrain/data.py" in names


def test_the_length_that_rows_are_cut_at_and_the_rows_of_a_large_batch() -> None:
    assert longest_wanted(["SFTConfig(max_length=512)"]) == 512
    assert longest_wanted(["    max_seq_length: Optional[int] = field(default=1024)"]) == 1024
    assert longest_wanted(["parser.add_argument('--max_length', type=int, default=256)"]) == 256
    assert longest_wanted(["x = 3"]) is None
    batch = "per_device_train_batch_size=8, gradient_accumulation_steps=16"
    assert rows_wanted([batch], 8 * 30) == 30 * 8 * 16
