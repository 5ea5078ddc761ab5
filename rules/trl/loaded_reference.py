"""A reference that TRL loads anew: it is the checkpoint, whatever was done to the model since it was loaded from there.

    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(MODEL), "out/sft").merge_and_unload()
    trainer = GRPOTrainer(model=model, args=GRPOConfig(beta=0.04), ...)

compares the policy with MODEL, not with the merged model that it starts from. Older releases took a copy of the latter.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import role_uses
from porter.packs.training import is_merged_into, plain_versions, short_name, table_of, was_trained

PART_OF = "trl"

# By kind of trainer: TRL's first release that loads its reference by the name in the model's config.
LOADS = {"grpo": "0.19", "rloo": "0.22", "dpo": "0.29", "kto": "1.2"}
PAIRS = ("dpo", "kto")
RESIZES = "resize_token_embeddings"
REFERENCE = "reference"  # of `Porting.code`


@step(Phase.WRITE, of="trainer", fills=("parts",))
def load_reference(porting: Porting) -> None:
    """The port loads it anew, too, where the model isn't its checkpoint any more."""
    trainer = porting.trainer
    assert trainer is not None
    kind = table_of(porting, trainer).kind
    since = LOADS.get(kind)
    if since is None or is_before(porting, "trl", since) or porting.model is None or _is_free(porting, kind):
        return
    given = trainer.argument("ref_model")
    if _has_adapters(porting) or (given is not None and not given.value.is_literal(None)):
        return
    done = _done(porting)
    if not done:
        return
    release = plain_versions(porting).get("trl", "")
    whose = f"TRL {release}" if release else "TRL"
    porting.code[REFERENCE] = f"# the checkpoint without {done}, as {whose} loads it"
    argument = trainer.argument("peft_config")
    where = ", where it gets no adapters" if argument is not None and not argument.value.is_literal(None) else ""
    message = (
        f"{short_name(trainer)} of {whose} loads its reference from the model's checkpoint, without {done}{where}: "
    )
    message += "so does the port."
    fix = "Save the model and load that folder, before it is trained here, where the reference should have it."
    porting.find(trainer.rule, "info", message, fix, trainer.line, trainer.column)


def _is_free(porting: Porting, kind: str) -> bool:
    """Whether the loss needs no reference, or takes the model itself before its first step."""
    if kind in PAIRS:
        return bool(porting.known("loss.precompute", False))
    return porting.known("loss.beta") == 0


def _has_adapters(porting: Porting) -> bool:
    """Whether adapters are trained for certain: the reference is the model without them."""
    return porting.inject is not None or porting.lora is not None or porting.lora_certain


def _done(porting: Porting) -> str:
    """What was done to the model since it was loaded; empty for nothing."""
    done = ["the adapter that is merged in"] if is_merged_into(porting) else []
    done += ["the training before"] if was_trained(porting) else []
    if any(use.chain.removeprefix("model.") == RESIZES for use in role_uses(porting, "model")):
        done.append("the new size of the vocabulary")
    return " and ".join(done)
