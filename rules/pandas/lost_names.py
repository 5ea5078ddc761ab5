"""Methods and keywords that pandas has lost: `frame.append(row)`, `read_csv(error_bad_lines=False)`.

What it does: `applymap` becomes `map`, `iteritems` becomes `items`, and of `to_csv` `line_terminator` becomes
`lineterminator`; an error with what does the same at the others.
Why: a port runs with today's pandas, where these end with an AttributeError or a TypeError.
Example: `frame = frame.append(row, ignore_index=True)`
Use instead: `frame = pd.concat([frame, pd.DataFrame([row])], ignore_index=True)`
Safety: exact.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step

from ._frames import free_nodes, is_column, is_frame

ID = "TP533"
RENAMED = {"applymap": "map", "iteritems": "items"}
GONE = {
    "append": "pd.concat([frame, pd.DataFrame([row])], ignore_index=True) adds rows",
    "ix": ".loc takes labels, .iloc takes places",
    "lookup": ".loc takes labels one pair at a time",
    "mad": "(x - x.mean()).abs().mean() is the same",
    "slice_shift": ".shift() keeps the length",
    "swapaxes": ".T swaps the two axes",
    "tshift": ".shift(freq=...) is the same",
}
KEYWORDS = {
    "pandas.read_csv": {
        "error_bad_lines": 'on_bad_lines="skip" leaves bad lines out',
        "warn_bad_lines": 'on_bad_lines="warn" names bad lines',
        "squeeze": '.squeeze("columns") behind it gives a column',
        "prefix": "header=None, and names=[...]",
        "mangle_dupe_cols": "it is always so",
        "delim_whitespace": 'sep=r"\\s+" is the same',
    }
}
KEYWORDS["pandas.read_table"] = KEYWORDS["pandas.read_csv"]
OF_METHODS = {"fillna": {"method": ".ffill() and .bfill() do the same"}}
SPELLED = {"to_csv": {"line_terminator": "lineterminator"}}


@step(Phase.NAME, anywhere=True)
def replace_lost_names(porting: Porting) -> None:
    """Names that are gone become those that do the same, or are named."""
    module = porting.module
    if "pandas" not in module.roots:
        return
    for node in free_nodes(porting, cst.Attribute):
        name = node.attr.value
        if name not in (*RENAMED, *GONE):
            continue
        if not (is_frame(module, node.value) or (name not in ("ix", "lookup") and is_column(module, node.value))):
            continue
        if name in RENAMED:
            porting.edit(*module.span(node.attr), RENAMED[name], ID, f"pandas has no {name} any more")
        else:
            _say(porting, node, f".{name}", GONE[name])
    for call in free_nodes(porting, cst.Call):
        _settle_keywords(porting, call)


def _settle_keywords(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    gone = KEYWORDS.get(module.qualified(call.func) or "", {})
    spelled: dict[str, str] = {}
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in (*OF_METHODS, *SPELLED):
        if is_frame(module, call.func.value) or is_column(module, call.func.value):
            method = call.func.attr.value
            gone, spelled = OF_METHODS.get(method, {}), SPELLED.get(method, {})
    for argument in call.args:
        name = argument.keyword.value if argument.keyword is not None else ""
        if name in spelled and argument.keyword is not None:
            porting.edit(*module.span(argument.keyword), spelled[name], ID, f"pandas calls it {spelled[name]}")
        elif name in gone:
            _say(porting, argument, f"{module.code(call.func)}({name}=)", gone[name])


def _say(porting: Porting, node: cst.CSTNode, name: str, instead: str) -> None:
    message = f"{name}: the pandas that a port installs has it no more, and ends here."
    porting.find(ID, "error", message, f"In its place: {instead}.", *porting.module.location(node))
