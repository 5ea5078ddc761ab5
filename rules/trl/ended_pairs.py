"""Releases of TRL and transformers that don't train together: what the source pins ends, and the port trains.

Where a notebook's outputs are of a training, what is pinned isn't what it ran on.

trl==0.16.1
transformers==4.56.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, release_of, version_key
from porter.packs.training import Training, table_of

PART_OF = "trl"
TRAINED = re.compile(r"<th>Training Loss</th>|\bTrainOutput\(global_step=")
PAIRWISE = ("dpo", "orpo", "cpo", "kto")


@dataclass(frozen=True)
class Pair:
    """Trainers of TRL from `since` to before `until`, which `why` keeps from training under transformers `beside`."""

    kinds: tuple[str, ...]
    since: str
    until: str
    beside: str
    why: str


PAIRS = (
    Pair(
        ("grpo",),
        "0.15",
        "0.17",
        "4.52",
        "its trainer's _get_train_sampler() takes no dataset, and is given one. The GPU run ends at its first batch",
    ),
    Pair(
        PAIRWISE,
        "0",
        "0.12",
        "4.46",
        "its trainer has another get_batch_samples() than the one that is called. The GPU run ends at its first batch",
    ),
    Pair(
        ("gkd",),
        "0",
        "0.12",
        "4.46",
        "its trainer's compute_loss() takes no num_items_in_batch, and is given it. The GPU run ends at its first step",
    ),
    Pair(
        PAIRWISE,
        "0.12",
        "0.13",
        "4.47",
        "its trainer's log() takes no start_time, and is given it. The GPU run ends at its first line of the log",
    ),
    Pair(
        ("sft", "dpo"),
        "0",
        "0.8",
        "4.39",
        "it imports top_k_top_p_filtering, which this release has no more. The GPU run ends at the import of trl",
    ),
)


@step(Phase.READ, of="trainer")
def say_ended_pair(porting: Training) -> None:
    """A warning where the script or its project pins such a pair, an error where it can't be what has run."""
    site = porting.trainer
    if site is None or not site.qualified.startswith("trl.") or "unsloth" in porting.module.roots:
        return
    trl, transformers = _pinned(porting, "trl"), _pinned(porting, "transformers")
    if not trl or not transformers:
        return
    kind = table_of(porting, site).kind
    for pair in PAIRS:
        is_within = version_key(pair.since) <= version_key(trl) < version_key(pair.until)
        if kind in pair.kinds and is_within and version_key(transformers) >= version_key(pair.beside):
            message = f"TRL {trl} doesn't train under transformers {transformers}: {pair.why}"
            notebook = porting.module.notebook
            if notebook is not None and TRAINED.search(notebook.raw) and not porting.options.source_trl:
                message += ". The notebook's outputs are of a training: it ran on others, which may train otherwise."
                fix = "Name the TRL that it ran on: --source-trl VERSION."
                porting.find(site.rule, "error", message, fix, site.line, site.column)
                return
            message += "; the port trains."
            fix = (
                f"Pin transformers<{pair.beside} for the GPU run, or name the TRL that it ran on: --source-trl VERSION."
            )
            porting.find(site.rule, "warning", message, fix, site.line, site.column)
            return


def _pinned(porting: Training, library: str) -> str:
    """The release that is read, where it is pinned; else ""."""
    read = plain_version(porting.versions.get(library, ""))
    chosen = porting.options.source_trl if library == "trl" else None
    return read if read and read in (chosen, release_of(porting, library)) else ""
