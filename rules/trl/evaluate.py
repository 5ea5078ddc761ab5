"""trainer.evaluate() → `rt.evaluate(trainer, eval_batches)`.

What it does: the evaluation loss over the evaluation set, weighted as transformers weights it, and the metrics of the
trainer's compute_metrics.
Why: PeftTrainer evaluates while it trains and has no public method for it.
Example: `metrics = trainer.evaluate()`
Use instead: `metrics = rt.evaluate(trainer, eval_batches)`
Several sets by their names, `trainer.evaluate({"a": rows, "b": others})`, are evaluated one after the other.
Safety: exact for the loss and the script's own metrics; seconds and speeds are those of this run.
"""

from porter.packs.api import is_before, is_none_somewhere, say_keywords
from porter.packs.training import WITH_METRICS, evaluation_sets, sets_of, table_of
from porter.packs.writing import mark

ID = "TP114"
MATCHES = ("@trainer.evaluate()",)
POSITIONAL = ("eval_dataset",)
SETS_SINCE = "4.37"  # before, training alone evaluates sets by their names


SETTLED = {
    "ignore_keys": ("dropped", "", "Tunix's model gives logits and nothing else"),
    "metric_key_prefix": ("exact", "rt.evaluate(metric_key_prefix=)", ""),
}


def apply(site, porting):
    names = porting.names
    if porting.value("rollout.generations") is not None:
        message = "trainer.evaluate(): the port of a trainer that samples doesn't sample to evaluate."
        fix = "Sample from the trained model in a script of its own."
        porting.find(ID, "error", message, fix, site.line, site.column)
        return
    dataset = site.argument("eval_dataset")
    given = dataset is not None and not dataset.value.is_literal(None)
    batches = names.eval_batches
    sets = sets_of(porting, dataset) if given else evaluation_sets(porting)
    if sets is not None and is_before(porting, "transformers", SETS_SINCE):
        message = f"trainer.evaluate() of several sets ends the GPU run before transformers {SETS_SINCE}; "
        message += "the port evaluates each."
        porting.find(ID, "warning", message, "Check what the GPU run did.", site.line, site.column)
    if sets is not None and table_of(porting, porting.trainer).kind not in WITH_METRICS:
        message = "trainer.evaluate(): the port of this trainer evaluates one set at a time."
        porting.find(ID, "error", message, "Evaluate each with rt.evaluate.", site.line, site.column)
        return
    if given or not batches:
        if not given:
            message = "trainer.evaluate(): the trainer has no eval_dataset."
            porting.find(ID, "error", message, "Give the trainer one.", site.line, site.column)
            return
        size = f"{mark(porting, 'batch.eval_per_device', 'mesh.processes')}{porting.eval_rows()}"
        own = f"{names.batches}.evaluation({dataset.text}, batch_size={size})"
        choice = batches and is_none_somewhere(porting.module, dataset.node)
        batches = f"{batches} if {dataset.text} is None else {own}" if choice else own
    prefix = site.argument("metric_key_prefix")
    named = f", metric_key_prefix={prefix.text}" if prefix is not None else ""
    new = f"{porting.rt('evaluate')}({names.trainer}, {batches}{named})"
    porting.replace(site, new, "the same loss over the same rows")
    say_keywords(porting, site, SETTLED, "eval_dataset")
