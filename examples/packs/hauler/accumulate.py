"""hauler.accumulate(n): read as gradient_accumulation_steps, and gone.

What it does: reads the steps that hauler accumulates over, which it sets on the Trainer behind the script's back.
Why: they are a part of the batch.
Example: `hauler.accumulate(4)`
Use instead: gradient_accumulation_steps in the config
Safety: exact where the number stands there; else a person is asked.
"""

from porter.packs.api import Field, Fill, Finding, Porting, Reading, Site

ID = "HAU201"
MATCHES = ("hauler.accumulate()",)
POSITIONAL = ("steps",)


def read(site: Site, reading: Reading):
    steps = site.argument("steps")
    if steps is None or not steps.value.known:
        message = "hauler.accumulate: the steps are not known at port time."
        yield Finding(ID, "error", message, "Write the number.", site.line, site.column)
        return
    yield Fill("batch.accumulation", steps.value)
    yield Field("hauler.accumulate", steps.text, "exact", "larger batches", "", ID, site.line, site.column)


def apply(site: Site, porting: Porting) -> None:
    steps = site.argument("steps")
    if steps is not None and steps.value.known:
        porting.remove_statement(site.node, ID, "the batches have the accumulated size")
