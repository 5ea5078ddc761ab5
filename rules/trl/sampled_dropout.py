"""Adapters' dropout while TRL's online trainers sample: their model is in training mode there, a port's never is."""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.training import Training

PART_OF = "trl"
SAMPLING = ("GRPOTrainer", "RLOOTrainer", "GKDTrainer")
EVALUATES = ("use_transformers_paged", "use_transformers_continuous_batching")  # in transformers' generate_batch
REASON = "TRL samples with it, too, as its model is in training mode; the port drops out in the loss alone"


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_sampled_dropout(porting: Training) -> None:
    """A reason at `lora_dropout` where the source generates with transformers while it trains."""
    site, config = porting.trainer, porting.config
    if site is None or site.qualified.rpartition(".")[2] not in SAMPLING or "unsloth" in porting.module.roots:
        return  # Unsloth switches its model to inference
    if porting.known("rollout.vllm") is True or porting.known("lora.disable_dropout") is True:
        return
    asked = [config.argument(name) for name in EVALUATES] if config is not None else []
    if any(argument is not None and argument.value.is_literal(True) for argument in asked):
        return
    said = [row.source for row in porting.fields if row.source.endswith(".lora_dropout")]
    if any(row.value not in ("0", "0.0") for row in porting.fields if row.source in said):
        for source in dict.fromkeys(said):
            porting.add_reason(source, REASON)
