"""Unsloth's TRL: other defaults, lengths and rows where unsloth is imported before trl.

What it does: reads TRL's configs with the defaults that Unsloth writes into them when it is imported
(gradient_accumulation_steps=2, seed=3407, learning_rate=5e-5, a warmup of a tenth, ...), by its release; cuts rows at
the model's max_seq_length; tokenises texts as Unsloth does (`unsloth=`), and says which rows it refuses; raises GRPO's
batch to num_generations.
Why: the script trains with them. A class of TRL that is imported before unsloth keeps TRL's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import libcst as cst

from porter.packs.api import Origin, Phase, Porting, Severity, Site, Value, step
from porter.packs.runtime import CONFIGS_OF_TRL, FieldTable, trl_release, unsloth_defaults
from porter.packs.script import imports_usually, is_set_between, plain_version, version_key
from porter.packs.training import (
    Training,
    about,
    config_table,
    in_reach,
    is_given,
    plain_versions,
    table_of,
)
from porter.packs.writing import quoted

from ._release import UNSLOTH, is_patched, own_default, read_as, unsloth_version
from ._same_length import is_same_length
from .lost_keywords import LOSES, is_followed, loses_keywords, loses_length, trls_length

ID = "TP703"
WITHOUT_BOS = ("qwen2", "qwen3")  # families whose tokenizers have none
WRITES_BOS = re.compile(r"chat_template|bos|begin_of_text|<s>|standardize_sharegpt", re.IGNORECASE)

NEWEST = "(newest table)"  # of a release that nothing has told
OF_MODEL = "the model's max_seq_length, as in Unsloth"
RAISED = "Unsloth raises it to num_generations"
LENGTH = "data.max_length"
LOADED = ("FastLanguageModel", "FastModel")  # classes that are told the model's length
EVALUATED = "batch.eval_per_device"
PATCHES_SINCE = (2025, 2, 5)  # Unsloth's first release that writes the classes anew
HAS_CONFIGS = (0, 9)  # TRL's first with an SFTConfig: Unsloth writes no trainer anew without its config
TAKES_ROWS = (0, 15)  # the first whose `_prepare_dataset` has the parameters that Unsloth asks for to put its own there
ROLLS_OUT = ("grpo", "rloo")  # whose prompts come in the order of `seed`
READS_DATA_SEED = (4, 46, 0)  # transformers' first that orders rows by it


@step(Phase.FIND, fills=("patches",))
def find_patches(porting: Training) -> None:
    """From where on TRL's classes are Unsloth's, and what is said of the values that it decides."""
    named = "unsloth" in porting.module.text and "unsloth" in porting.module.roots
    named = named and imports_usually(porting.module, "unsloth") is not False
    release = unsloth_version(porting) if named else ""
    if release and porting.versions.get("unsloth", NEWEST).endswith(NEWEST):
        porting.versions["unsloth"] = read_as(porting)
    if release and version_key(release) >= PATCHES_SINCE and _trl_of(porting) >= HAS_CONFIGS:
        porting.patched_from, porting.patched_by = _first_import(porting), release
        porting.notes |= {UNSLOTH: "Unsloth's default", RAISED: RAISED, OF_MODEL: OF_MODEL, LOSES: LOSES}


def _trl_of(porting: Training) -> tuple[int, ...]:
    return version_key(plain_version(porting.versions.get("trl", "1")))


def _first_import(porting: Training) -> tuple[int, ...] | None:
    """When the first import of unsloth runs that surely does: in no `if`, unless the model is Unsloth's."""
    module = porting.module
    surely = any(site.qualified.startswith("unsloth.") for site in porting.of_role("model"))
    found = [
        module.turn(binding.node)
        for binding in module.import_bindings
        if binding.qualified.split(".", 1)[0] == "unsloth"
        if surely or not any(isinstance(ancestor, cst.If) for ancestor in module.ancestors(binding.node))
    ]
    return min(found, default=None)


@step(
    Phase.READ,
    of="trainer",
    reads=("given values", "arguments", "arguments_object", "config"),
    fills=("other defaults",),
)
def fill_patched_defaults(porting: Training) -> None:
    """Unsloth's defaults of the trainer's config class, where the source says nothing."""
    trainer = porting.trainer
    assert trainer is not None
    if porting.arguments is not None:
        _fill_defaults(porting, table_of(porting, porting.arguments).table, plain_versions(porting))
    elif not porting.arguments_object and not is_given(trainer.argument("args")):
        if (base := config_table(porting)) is not None:
            _fill_defaults(porting, base.table, plain_versions(porting))
    elif porting.arguments_object:
        _say_order(porting)


def _say_order(porting: Training) -> None:
    """A line of the report where a config that is made when the script runs has Unsloth's `data_seed`."""
    made = porting.config
    name = made.qualified.rsplit(".", 1)[-1] if made is not None else ""
    if made is None or name not in CONFIGS_OF_TRL or not is_patched(porting, made):
        return
    transformers = plain_versions(porting).get("transformers", "5")
    found = unsloth_defaults(name, unsloth_version(porting), transformers)
    _settle_order(porting, found, transformers)
    if "data_seed" in found:
        message = (
            f"Unsloth {unsloth_version(porting)} gives {name} the data_seed={found['data_seed']}, which orders the"
        )
        message += " rows, whatever the seed."
        porting.find(ID, "info", message, "Give it another data_seed, on the GPU too.", made.line, made.column)


def _fill_defaults(porting: Training, table: FieldTable, versions: Mapping[str, str]) -> None:
    name = table.name.rsplit(".", 1)[-1]
    patched = porting.config if porting.config is not None else porting.trainer
    if name not in CONFIGS_OF_TRL or not is_patched(porting, patched):
        return
    transformers = versions.get("transformers", "5")
    assert patched is not None
    given = {row.name for row in table.rows(versions).values() if row.place and porting.given(row.place)}
    found = unsloth_defaults(name, unsloth_version(porting), transformers)
    _settle_warmup(porting, found, given)
    _settle_order(porting, found, transformers)
    message = f"Read as Unsloth {unsloth_version(porting)}, which has other defaults for {name} than TRL."
    if "data_seed" in found:
        message += f" Its data_seed={found['data_seed']} orders the rows, whatever the seed."
    if "8bit" in found.get("optim", "") and not porting.given("optimizer.name"):
        message += f" Its optim={found['optim']} holds moments in 8 bits, the port in float32."
    fix = "Pin its release (pip install unsloth==VERSION) if it was another."
    porting.find(ID, "info", message, fix, patched.line, patched.column)
    rows = {row.name: row for row in table.rows().values()}
    values = {}
    for field, default in found.items():
        row = rows.get(field)
        if row is not None and row.place and not porting.given(row.place):
            values[row.place] = own_default(default)
    if not {"output_dir", "save_strategy", "save_steps"} & given:
        values["run.output_dir"] = own_default("'unsloth_training_checkpoints'")
        values["save.strategy"] = own_default("'no'")
    porting.fill(values)


def _settle_warmup(porting: Training, found: dict[str, str], given: set[str]) -> None:
    """Of a share and a number of steps the source's own counts; transformers 4 takes 0 steps for none given."""
    share = found.pop("warmup_ratio", None) or found.pop("warmup_steps", None)
    steps = porting.value("schedule.warmup_steps")
    none = "warmup_steps" not in given or (steps is not None and steps.is_literal(0) and "warmup_ratio" in found)
    if share is not None and "warmup_ratio" not in given and none:
        found["warmup_steps"] = share


def _settle_order(porting: Training, found: dict[str, str], transformers: str) -> None:
    """Rows come in the order of Unsloth's `data_seed`, whatever the source's `seed`, where the release reads one."""
    own, seed = porting.value("run.seed"), found["data_seed"]
    same = (own.code if own is not None and porting.given("run.seed") else found["seed"]) == seed
    same = same and not porting.arguments_object  # which may be given another seed when it is made
    assert porting.trainer is not None
    reads = version_key(transformers) >= READS_DATA_SEED and table_of(porting, porting.trainer).kind not in ROLLS_OUT
    made = porting.config if porting.arguments_object else None
    given = made.argument("data_seed") is not None if made is not None else porting.given("run.data_seed")
    if seed == "None" or same or not reads or given:
        found.pop("data_seed")
        return
    reason = f"The rows come in the order of data_seed={seed}, as in the GPU run: Unsloth sets it in the config."
    reason += " JAX draws a new adapter from the same distribution, but not the same numbers."
    porting.change_fate(".seed", reason=reason)


@step(
    Phase.READ,
    of="trainer",
    reads=(
        "script values",
        "config",
        "arguments_object",
        "model",
        "model.max_seq_length",
        "lost keywords",
        "data.packing",
        "arguments",
        "family",
    ),
    settles=("data.max_length",),
    fills=("batch.eval_per_device", "rows_by"),
)
def settle_patched(porting: Training) -> None:
    """What Unsloth's trainers change in a config that is made: the length of rows, the batch of evaluations."""
    site = porting.trainer
    if site is None or porting.loop is not None:
        return
    kind = table_of(porting, site).kind
    if not is_patched(porting, site):
        if kind == "sft":
            _say_start(porting, site, anew=False)
        return
    if kind == "sft":
        if _trl_of(porting) >= TAKES_ROWS:
            porting.rows_by = unsloth_version(porting)
        else:
            _say_start(porting, site, anew=True)
        if loses_length(porting):
            porting.fill({LENGTH: trls_length(porting)})
        else:
            _cut_at_the_models(porting)
    _settle_evaluation(porting, site)


def _settle_evaluation(porting: Training, site: Site) -> None:
    """Its trainers evaluate by the training's batch where that is smaller and the evaluation's is 8."""
    strategy, size = porting.value("eval.strategy"), porting.value(EVALUATED)
    if strategy is None or strategy.is_literal("no", False, None) or size is None or not size.is_literal(8):
        return
    rows = porting.known("batch.per_device")
    if porting.arguments_object or not strategy.known or not isinstance(rows, int):
        message = (
            "Unsloth evaluates by the training's batch where that is smaller and the evaluation's is 8, the port by 8."
        )
        fix = "Set per_device_eval_batch_size to what it was, if eval_loss counts."
        porting.find(ID, "info", message, fix, site.line, site.column)
    elif rows < 8:
        porting.fill({EVALUATED: own_default(str(rows))})
        reason = "Unsloth evaluates by the training's batch where that is smaller and this is 8"
        porting.change_fate(".per_device_eval_batch_size", fate="changed", reason=reason)
        for row in porting.fields:
            if row.source.endswith(".per_device_eval_batch_size"):
                about(porting, row, [EVALUATED])


def _say_start(porting: Training, site: Site, *, anew: bool) -> None:
    """TRL's own preparation is what runs where TRL is imported first, and before 0.15, but for one thing in old
    releases; `anew`: Unsloth has written the class, where packed texts are looked through, too."""
    of_unsloth = porting.model is not None and porting.model.qualified.startswith("unsloth.")
    if not of_unsloth or (_trl_of(porting) >= (0, 13) and not anew):
        return
    if porting.known("data.packing") is True and not anew:  # whose rows Unsloth leaves to TRL
        return
    if porting.family is not None and porting.family.name in WITHOUT_BOS:
        return
    message = "Unsloth leaves out a BOS where the text begins with it or the chat template has it; the port adds it."
    fix = "Take off a BOS that apply_chat_template wrote (.removeprefix(tokenizer.bos_token))."
    makes_texts = porting.given("data.formatting") or ".map(" in porting.module.text
    severity: Severity = "warning" if WRITES_BOS.search(porting.module.text) or not makes_texts else "info"
    porting.find(ID, severity, message, fix, site.line, site.column)


def _is_another(porting: Training, load: Site) -> bool:
    """Whether the names that say the model's length say another where the trainer stands."""
    length = load.argument("max_seq_length")
    assert porting.trainer is not None
    return length is not None and is_set_between(porting.module, length.node, porting.trainer.node)


def _cut_at_the_models(porting: Training) -> None:
    """Rows are cut at the model's max_seq_length, or a shorter one of the config, whose max_length is overwritten."""
    of_model = porting.value("model.max_seq_length")
    if of_model is None or porting.model is None or not porting.model.qualified.startswith("unsloth."):
        return
    assert porting.trainer is not None
    can_be_read = in_reach(porting.model.scope, porting.trainer.scope) and not _is_another(porting, porting.model)
    if of_model.known and not can_be_read:
        of_model = replace(of_model, text=of_model.code)  # the name that says it is another function's
    sites = (None if is_followed(porting) and loses_keywords(porting) else porting.trainer, porting.config)
    own = [site.argument("max_seq_length") for site in sites if site is not None]
    given = next((each for each in own if each is not None and not each.value.is_literal(None)), None)
    if given is not None and not _is_longer(given.value, of_model):
        return
    if not of_model.known and not can_be_read:
        told = given or (porting.config.argument("max_length") if porting.config is not None else None)
        if told is not None and is_same_length(porting, told):
            reason = "the config's own length is the same expression"
            for name in LOADED:
                porting.change_fate(f"{name}.max_seq_length", fate="dropped", target="", reason=reason)
            return
        message = "Unsloth cuts rows at the model's max_seq_length, which can't be read at the trainer."
        message += " The port cuts them at the trainer's." if given is not None else ""
        severity: Severity = "warning" if given is not None else "error"
        fix = "Give the trainer's config that max_seq_length" + (" if it is smaller." if given is not None else ".")
        porting.find(ID, severity, message, fix, porting.model.line, porting.model.column)
        return
    read = of_model.origin
    origin = Origin(OF_MODEL, read.line, read.column, ID) if read is not None else Origin(OF_MODEL, 0, 0, ID)
    if given is not None and not (given.value.known and of_model.known):
        shorter = f"min({given.text}, {of_model.text or of_model.code})"
        of_model = Value("expression", shorter, origin, shorter)
    porting.fill({LENGTH: replace(of_model, origin=origin)})
    for row in [
        row for row in porting.fields if given is not None and (row.line, row.column) == (given.line, given.column)
    ]:
        reason = "Unsloth reduces it to the model's max_seq_length"
        porting.change_fate(row.source, fate="changed", target="rt.SFTBatches(max_length=)", reason=reason)
        about(porting, row, [LENGTH])
    reason = "Unsloth cuts at the model's max_seq_length instead"
    porting.change_fate("SFTConfig.max_length", fate="dropped", target="", reason=reason)
    reason = "texts are cut at it, as Unsloth's SFTTrainer does; rotary settings come from config.json"
    for name in LOADED:
        porting.change_fate(f"{name}.max_seq_length", fate="exact", target="rt.SFTBatches(max_length=)", reason=reason)


def _is_longer(own: Value, of_model: Value) -> bool:
    """Whether a trainer's length may be more than its model's."""
    if of_model.is_literal(None) or own.code == of_model.code:
        return False
    both = own.known and of_model.known
    return not both or (
        isinstance(own.literal, int) and isinstance(of_model.literal, int) and own.literal > of_model.literal
    )


@step(Phase.WRITE, of="trainer", fills=("parts", "batch.per_device"))
def raise_batch_size(porting: Porting) -> None:
    """GRPO's batch becomes num_generations where those don't divide the completions of a step, or of a micro-step."""
    assert porting.trainer is not None
    if table_of(porting, porting.trainer).kind not in ROLLS_OUT or porting.arguments_object:
        return
    if not is_patched(porting, porting.config or porting.trainer):
        return
    by = trl_release(
        plain_version(porting.versions.get("trl", "")) or None, unsloth=unsloth_version(porting)
    ).raises_batch
    if by == "step" and _is_sampled_at_once(porting):
        return
    of_what = "a step" if by == "step" else "a process's micro-step"
    values = [porting.value(place) for place in ("rollout.generations", "batch.per_device", "batch.accumulation")]
    if any(value is not None and not value.known for value in values):
        porting.code["raise_batch_size"] = quoted(by or "step")
        reason = f"Unsloth raises it to num_generations where that doesn't divide the completions of {of_what}"
        porting.change_fate(".per_device_train_batch_size", fate="changed", reason=reason)
        return
    generations, rows = porting.known("rollout.generations"), porting.known("batch.per_device")
    steps = porting.known("batch.accumulation", 1) or 1
    if not isinstance(generations, int) or not isinstance(rows, int) or not isinstance(steps, int):
        return
    processes = int(porting.known("mesh.processes", 1))
    if generations >= 1 and (rows * steps * processes if by == "step" else rows) % generations:
        own = porting.value("batch.per_device")
        line, column = (own.origin.line, own.origin.column) if own is not None and own.origin is not None else (0, 0)
        porting.fill({"batch.per_device": Value("default", str(generations), Origin(RAISED, line, column, ID))})
        reason = f"Unsloth raises it to num_generations: {generations} does not divide the completions of {of_what}"
        porting.change_fate(".per_device_train_batch_size", fate="changed", reason=reason)


def _is_sampled_at_once(porting: Porting) -> bool:
    """Whether the script says how much is sampled at once; Unsloth leaves the batch alone then."""
    given = [porting.value(place) for place in ("rollout.steps", "rollout.batch_size")]
    return any(value is not None and value.known and not value.is_literal(None) for value in given)
