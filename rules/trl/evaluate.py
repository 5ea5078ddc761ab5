"""trainer.evaluate() → `rt.evaluate(trainer, eval_batches)`.

What it does: the evaluation loss over the evaluation set, weighted as transformers weights it, and the metrics of the
trainer's compute_metrics; the line, the callbacks and the trackers get them, as from the Trainer.
Why: PeftTrainer evaluates while it trains and has no public method for it.
Example: `metrics = trainer.evaluate()`
Use instead: `metrics = rt.evaluate(trainer, eval_batches)`
Several sets by their names, `trainer.evaluate({"a": rows, "b": others})`, are evaluated one after the other.
Safety: exact for the loss and the script's own metrics; seconds and speeds are those of this run. Where the trainer of
a release prepares no rows that it is given here, and a GPU run ends on those that aren't tokens, a warning says so.
"""

from porter.packs.api import is_before, is_none_somewhere, say_keywords
from porter.packs.training import WITH_METRICS, evaluation_sets, is_given, sets_of, short_name, table_of
from porter.packs.writing import mark

from ._token_rows import makes_tokens

ID = "TP114"
MATCHES = ("@trainer.evaluate()",)
POSITIONAL = ("eval_dataset",)
SETS_SINCE = "4.37"  # before, training alone evaluates sets by their names
# By kind of trainer the first release whose evaluate makes tokens of the rows that it is given; "" for none yet.
PREPARES_SINCE = {"sft": "1.7", "dpo": "1.7", "kto": "1.7", "orpo": "", "cpo": ""}
COLLATED = {"dpo": "0.7.5"}  # before, the collator made them

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
    unprepared = given and _is_unprepared(porting, dataset)
    if unprepared:
        _say_unprepared(porting, site, dataset)
    reason = "the loss of the rows, prepared as the trainer's own" if unprepared else "the same loss over the same rows"
    porting.replace(site, new, reason)
    say_keywords(porting, site, SETTLED, "eval_dataset")


def _is_unprepared(porting, dataset):
    """Whether the trainer's release takes rows as they are here, and nothing shows that they are tokens."""
    kind = table_of(porting, porting.trainer).kind
    if kind not in PREPARES_SINCE or is_given(porting.trainer.argument("data_collator")):
        return False
    since, collated = PREPARES_SINCE[kind], COLLATED.get(kind)
    if (since and not is_before(porting, "trl", since)) or (collated and is_before(porting, "trl", collated)):
        return False
    if "skip_prepare_dataset" in porting.module.text or dataset.text.endswith((".eval_dataset", ".train_dataset")):
        return False
    return not makes_tokens(porting.module, dataset.node)


def _say_unprepared(porting, site, dataset):
    trainer, since = short_name(porting.trainer), PREPARES_SINCE[table_of(porting, porting.trainer).kind]
    message = (
        f"trainer.evaluate({dataset.text}): {trainer}{f' before TRL {since}' if since else ''} prepares no rows here"
    )
    message += ": unless they are tokens already, the GPU run ends there or has no loss; the port evaluates them."
    fix = "Leave it out where it never ran, or give the trainer these rows as its eval_dataset."
    porting.find(ID, "warning", message, fix, site.line, site.column)
