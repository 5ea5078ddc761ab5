"""trainer.push_to_hub() → `rt.save_adapter(...)` and `rt.push_to_hub(folder)`; the model's → `rt.push_to_hub(model)`.

What it does: the trainer's saves the trained weights to the output folder, unless the line before did, and uploads that
folder from one host; the model's uploads the files of the model, and nothing else that lies there.
Why: Tunix has no upload of its own.
Example: `trainer.push_to_hub()`
Use instead: `rt.push_to_hub("out", "me/model")`, after `rt.save_adapter(model, "out")`
Safety: a private repository stays private, a branch and a commit message stay theirs. The model card is not generated.
A keyword that the trainer's own method doesn't know (`repo_id`), at which the GPU run ends, is a warning.
"""

from porter.packs.api import is_before, say_keywords

from ._named_base import is_named_base, say_named_base
from .uploading import PUSHED, push_code, save_code, say_old_token

ID = "TP113"
MATCHES = ("@trainer.push_to_hub()", "@trainer.model.push_to_hub()", "@model.push_to_hub()")
POSITIONAL = {
    "@trainer.push_to_hub()": ("commit_message",),
    "@trainer.model.push_to_hub()": ("repo_id", "use_temp_dir"),
    "@model.push_to_hub()": ("repo_id", "use_temp_dir"),
}
PASSED_OVER = "transformers has no such argument, and read past it before 5"
REASON = "uploaded from one host, without a generated model card"
SETTLED = {
    "blocking": ("changed", "", "the port goes on when the upload is done"),
    "max_shard_size": ("dropped", "", "the files are those that the port saved"),
    "safe_serialization": ("dropped", "", "the files are those that the port saved"),
    "commit_description": ("dropped", "", "the commit has its title alone"),
    "use_temp_dir": ("dropped", "", "the files that it uploads are those that the port saved"),
    "check_pr": ("dropped", "", PASSED_OVER),
    "create_pr": ("manual", "", "rt.push_to_hub commits, and opens no pull request"),
}
# What the model cards of transformers' Trainer, and of TRL's own from 0.12 on, take.
CARD_OF_TRANSFORMERS = "language license tags model_name finetuned_from tasks dataset_tags dataset dataset_args".split()
CARD_OF_TRL = "model_name dataset_name tags".split()
CARD = ["dataset_name", *CARD_OF_TRANSFORMERS]
# The method's own parameters; it hands any other on to the model card, once the model is saved.
OWN = ("commit_message", "blocking", "token", "revision")


def apply(site, porting):
    names = porting.names
    folder = porting.output_dir()
    before = len(site.variable) + 3 if site.variable else 0
    of_trainer = site.qualified == "@trainer.push_to_hub()"
    push = push_code(porting, site, before, of_trainer=of_trainer)
    saved = not of_trainer or (names.model, folder) in porting.saved
    if saved or not (site.alone or site.variable):
        porting.replace(site, push, REASON)
    else:
        result = f"{site.variable} = {push}" if site.variable else push
        porting.replace_statement(site, f"{save_code(porting, site.node)}\n{site.indent}{result}", REASON)
    if site.qualified == "@model.push_to_hub()" and is_named_base(porting, site):
        say_named_base(porting, site, "push_to_hub")
    if of_trainer:
        _say_refused(porting, site, folder)
    ignored = [argument.name for argument in site.arguments if argument.name in CARD]
    if ignored:
        message = f"push_to_hub({', '.join(ignored)}): the model card that uses it is not generated."
        porting.find(ID, "info", message, "", site.line, site.column)
    card = dict.fromkeys(CARD, ("dropped", "", "the model card that uses it is not generated"))
    kept = {name: ("exact", f"rt.push_to_hub({name}=)", "") for name in PUSHED}
    known = {**SETTLED, **card, **kept, **say_old_token(site)}
    passed = {} if of_trainer or not is_before(porting, "transformers", "5") else _passed_over(site, known)
    say_keywords(porting, site, {**passed, **known}, "repo_id")


def _passed_over(site, known):
    """Keywords that a model's method of transformers 4 takes and does nothing with: `save_method="lora"`."""
    others = [each.name for each in site.arguments if each.name not in known and not each.name.startswith("argument ")]
    return dict.fromkeys(others, ("dropped", "", PASSED_OVER))


def _say_refused(porting, site, folder):
    """A warning of keywords that no release of the trainer's method takes, nor its model card."""
    trainer = porting.trainer
    of_trl = trainer is not None and trainer.qualified.startswith("trl.") and not is_before(porting, "trl", "0.12")
    taken = (*OWN, *(CARD_OF_TRL if of_trl else CARD_OF_TRANSFORMERS))
    refused = [argument for argument in site.arguments if argument.name and argument.name not in taken]
    if not refused:
        return
    message = (
        f"trainer.push_to_hub({', '.join(f'{argument.name}=' for argument in refused)}): the trainer's method knows no "
        f"such keyword. The GPU run saves the model to {folder} and ends here with a TypeError; the port uploads."
    )
    fix = "hub_model_id and hub_private_repo of the arguments name a repository and keep it private."
    porting.find(ID, "warning", message, fix, refused[0].line, refused[0].column)
