"""Datasets that are made by a script, which today's library refuses: `load_dataset("samsum")`.

What it does: an error at each load of a dataset that is known to be a script of the Hub alone, or to be gone from it,
with what holds the same rows; of a script or its folder in the project; a note where `trust_remote_code=True` asks for
one.
Why: a port runs with today's datasets, which since 4.0 run no scripts: the load ends.
Example: `rows = load_dataset("samsum", split="train")`
Use instead: `rows = load_dataset("knkarthick/samsum", split="train")`
Safety: the list is of what users of datasets 4 and 5 have reported until October 2026; an owner may have put data files
beside a script since.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    is_dead,
    last_day,
    named_arguments,
    named_file,
    release_of,
    shown,
    usual_texts,
    version_key,
)

ID = "TP531"
LOADS = frozenset({"datasets.load_dataset", "datasets.load_dataset_builder"})
FIRST_WITHOUT = (4,)
RELEASED = datetime.date(2025, 7, 9)  # datasets 4.0.0
CONVERTED = 'revision="refs/convert/parquet" loads the same rows, which the Hub has converted'
BY_HAND = "load its data files with load_dataset and data_files=, or convert it with datasets<4 and save_to_disk"
GONE = frozenset({"Samsung/samsum", "hendrycks/competition_math"})
# What loads the same rows; an empty text where nothing is known to.
SCRIPTS = {
    "CogComp/mc_taco": "",
    "EdinburghNLP/xsum": CONVERTED,
    "EleutherAI/hendrycks_ethics": "",
    "EleutherAI/logiqa": "",
    "EleutherAI/pile": "",
    "PolyAI/banking77": '"mteb/banking77" has its rows',
    "Samsung/samsum": '"knkarthick/samsum" has its rows',
    "THUDM/LongBench": "",
    "alexfabbri/multi_news": CONVERTED,
    "allenai/math_qa": '"regisss/math_qa" has its rows',
    "allenai/qasper": "",
    "allenai/social_i_qa": '"lighteval/siqa" has its rows',
    "armanc/scientific_papers": '"ccdv/arxiv-summarization" has those of its config arxiv',
    "bookcorpus/bookcorpus": CONVERTED,
    "codeparrot/apps": CONVERTED,
    "csebuetnlp/xlsum": CONVERTED,
    "deepmind/pg19": '"emozilla/pg19" has its rows',
    "demelin/moral_stories": '"LabHC/moral_stories" has its rows',
    "eriktks/conll2003": CONVERTED,
    "facebook/empathetic_dialogues": CONVERTED,
    "hendrycks/competition_math": '"EleutherAI/hendrycks_math" has its rows, a config for each subject',
    "legacy-datasets/wikipedia": '"wikimedia/wikipedia" is of newer dumps ("20231101.en")',
    "li2017dailydialog/daily_dialog": '"roskoN/dailydialog" has its dialogues, under other columns',
    "reciTAL/mlsum": CONVERTED,
    "takala/financial_phrasebank": "",
    "tatsu-lab/alpaca_eval": "",
    "ybisk/piqa": '"nthngdy/piqa" has its rows',
}
# Names without an owner, as of the first years.
FORMER = {name.rpartition("/")[2]: name for name in SCRIPTS}


@step(Phase.NAME, anywhere=True)
def name_dataset_scripts(porting: Porting) -> None:
    """A finding for each load that ends, or may."""
    module = porting.module
    pinned = release_of(porting, "datasets")
    if "datasets" not in module.roots or (pinned is not None and version_key(pinned) >= FIRST_WITHOUT):
        return
    for call in module.calls:
        if module.qualified(call.func) not in LOADS or porting.covered(module.span(call)[0]) or is_dead(module, call):
            continue
        path = named_arguments(call, ("path",)).get("path")
        if path is None:
            continue
        names = usual_texts(module, module.code(path))
        for name in dict.fromkeys(names):
            if (said := _refused(porting, call, name)) is not None:
                porting.find(ID, "error", *said, *module.location(call))
                break
        else:
            _say_trusted(porting, call, path)


def _refused(porting: Porting, call: cst.Call, name: str) -> tuple[str, str] | None:
    """What ends the load of a dataset, and what to do."""
    module = porting.module
    last = name.rstrip("/").rpartition("/")[2]
    if name.endswith(".py") or named_file(module.path, f"{name.rstrip('/')}/{last}.py") is not None:
        message = (
            f"load_dataset({name!r}): a script makes this dataset, and datasets 4 and later run none: it ends here."
        )
        return message, f"Make its rows once with datasets<4 and save_to_disk, and load_from_disk here; or {BY_HAND}."
    known = name if name in SCRIPTS else FORMER.get(name)
    if known is None or "revision" in named_arguments(call, ()):
        return None
    if (Path(module.path).parent / name).is_dir():
        return None
    why = "is gone from the Hub" if known in GONE else "is a script on the Hub, and datasets 4 and later run none"
    message = f"load_dataset({name!r}): {known} {why}: it ends here."
    return message, f"In its place: {SCRIPTS[known] or BY_HAND}."


def _say_trusted(porting: Porting, call: cst.Call, path: cst.BaseExpression) -> None:
    """`trust_remote_code=True` of a script that is older than the library without them."""
    module, day = porting.module, last_day(porting)
    trusts = named_arguments(call, ()).get("trust_remote_code")
    if not isinstance(trusts, cst.Name) or trusts.value != "True" or (day is not None and day >= RELEASED):
        return
    message = (
        f"load_dataset({shown(module.code(path))}, trust_remote_code=True) lets a dataset's script run, if it has one; "
        "datasets 4 and later run none."
    )
    porting.find(ID, "info", message, f"Look at its files on the Hub: {BY_HAND}.", *module.location(call))
