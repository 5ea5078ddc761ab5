"""Tables that aren't pandas', and what both releases do alike."""

import pandas as pd
import polars

rows = {"n": [1, 2]}
rows["n"][0] = 3
table = polars.read_csv("rows.csv")
print(table["n"][0], table.iloc[0][1])
frame = pd.read_csv("rows.csv")
frame["n"] = frame["n"].fillna(0)
frame.loc[0, "n"] = 1
frame.fillna("", inplace=True)
print(frame["n"][0], frame.iloc[0]["n"], frame.groupby("n")["text"].apply(len))
