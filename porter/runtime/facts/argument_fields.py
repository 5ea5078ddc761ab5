"""Which argument classes the runtime makes, of which table, and what they take. Without a library: porting asks."""

from __future__ import annotations

from .field_tables import Versions, at_version, find_table

CLASSES = {
    "BitsAndBytesConfig": "transformers.BitsAndBytesConfig",
    "CPOConfig": "trl.experimental.cpo.CPOConfig",
    "DPOConfig": "trl.DPOConfig",
    "DatasetConfig": "trl.scripts.utils.DatasetConfig",
    "DatasetMixtureConfig": "trl.DatasetMixtureConfig",
    "GKDConfig": "trl.experimental.gkd.GKDConfig",
    "GRPOConfig": "trl.GRPOConfig",
    "KTOConfig": "trl.KTOConfig",
    "LoraConfig": "peft.LoraConfig",
    "ModelConfig": "trl.ModelConfig",
    "ORPOConfig": "trl.experimental.orpo.ORPOConfig",
    "RLOOConfig": "trl.RLOOConfig",
    "SFTConfig": "trl.SFTConfig",
    "ScriptArguments": "trl.ScriptArguments",
    "Seq2SeqTrainingArguments": "transformers.Seq2SeqTrainingArguments",
    "TrainingArguments": "transformers.TrainingArguments",
}


def of_its_day(version: str | None) -> str | None:
    """The transformers of the day of TRL `version`; None for the newest."""
    return at_version(find_table("trl.SFTConfig").contemporary, version) if version else None


def versions_of(name: str, version: str | None) -> Versions:
    """What the table of the class `name` is asked for when TRL is `version`; None for the newest."""
    if version and find_table(CLASSES[name]).library == "transformers":
        day = of_its_day(version)
        return {"transformers": day} if day else None
    return {"trl": version} if version else None


def keywords_of(name: str, version: str | None = None) -> frozenset[str] | None:
    """What the class `name` takes as TRL `version` had it; None for a name that isn't one of these classes."""
    if name not in CLASSES:
        return None
    table, versions = find_table(CLASSES[name]), versions_of(name, version)
    return frozenset(table.rows(versions)) | frozenset(table.former(versions))
