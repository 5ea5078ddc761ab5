"""Columns of pandas, and a module of the project's own called datasets: none of it is the library's."""

import pandas as pd
from transformers import AutoTokenizer

from mine import datasets

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
table = pd.read_json("rows.jsonl", lines=True)
tokens = tokenizer(table["text"])
rows = datasets.load_dataset("rows")
more = rows["text"] + ["the end"]
