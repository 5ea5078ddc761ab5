"""What to write instead of a training loop that isn't the standard one: it goes by what the loop trains."""

from __future__ import annotations

import re

import libcst as cst

from ....source.module import Module
from .not_standard import NotStandard

STANDARD = "Bring it to forward, loss.backward(), optimizer.step(), or write the port's step by hand."
ROLLOUTS = (
    "It trains on completions that it samples and rewards: TRL's GRPOTrainer does, with reward_funcs, and is ported."
)
PAIRS = (
    "It compares chosen with rejected answers: TRL's DPOTrainer does, with the losses that its loss_type names, and is "
    "ported; a loss of your own is a function for PeftTrainer.with_loss_fn."
)
TEACHER = "It learns from a teacher's logits: docs/distillation.md says which trainers of that kind are ported."
LABELS = (
    "Give the model labels (-100 where nothing is learned): outputs.loss is the mean cross-entropy of the next tokens, "
    "and is ported."
)
# What to do about one obstacle, for those that find it.
APART = "a batch is taken apart otherwise than into its parts, one name each"
DICT = 'Let the collate function return {"input_ids": ..., "attention_mask": ..., "labels": ...}.'
SCHEDULE = "Let transformers.get_scheduler set it, and step that with the optimizer."
DIVIDE = "Divide the loss by it."
ONE_WAY = "Keep the one that the TPU run means."
STEP_SCHEDULE = (
    "Step a schedule that needs nothing but its steps behind optimizer.step(), or once behind an epoch's batches."
)
ONE_SCHEDULE = "Step one schedule: behind optimizer.step(), or behind an epoch's batches."
FILTER = "Filter the rows before they are batched."
ZERO_BEHIND = "Set them to zero behind optimizer.step()."
CLIP_AT_STEP = "Clip where the optimizer steps."
BESIDE = (
    "Load it in this file with AutoModelForCausalLM.from_pretrained; where another module of the project does, port "
    "the folder, in which it is followed: tpu-port DIR -o OUT."
)
FRESH = "Save it once where it is made (model.save_pretrained), and load that folder with from_pretrained here."
STEP_BEHIND = "Step it behind optimizer.step()."
SAMPLER = "Give the DataLoader shuffle=, or torch's RandomSampler, SequentialSampler or DistributedSampler."
LOADER = "Make the batches of a DataLoader with a collate_fn."
SAME_ROWS = "Make the rows a DataLoader of one batch, and train as many epochs as there are steps."


def advice(module: Module, statement: cst.CSTNode, obstacle: NotStandard) -> str:
    """What to do about one obstacle of the loop `statement`."""
    if obstacle.fix:
        return obstacle.fix
    return by_objective(module, statement) or (LABELS if obstacle.own_loss else STANDARD)


def by_objective(module: Module, statement: cst.CSTNode) -> str:
    """Advice by what is trained, which the loop and the function around it speak of; "" where it may be anything."""
    holder = next((node for node in module.ancestors(statement) if isinstance(node, cst.FunctionDef)), statement)
    text = module.code(holder)
    if re.search(r"\breward|\badvantage", text, re.IGNORECASE) and re.search(r"generat|rollout|sampl", text):
        return ROLLOUTS
    if re.search(r"chosen", text) and re.search(r"reject", text):
        return PAIRS
    if re.search(r"teacher", text):
        return TEACHER
    return ""
