"""Which argument classes the runtime makes, of which table, and what they take. Without a library: porting asks."""

from __future__ import annotations

from .field_tables import Versions, at_version, find_table, version_key

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
    "SFTScriptArguments": "trl.ScriptArguments",
    "ScriptArguments": "trl.ScriptArguments",
    "Seq2SeqTrainingArguments": "transformers.Seq2SeqTrainingArguments",
    "TrainingArguments": "transformers.TrainingArguments",
}


def of_its_day(version: str | None) -> str | None:
    """The transformers of the day of TRL `version`; None for the newest."""
    return at_version(find_table("trl.SFTConfig").contemporary, version) if version else None


def is_of_another_day(name: str, version: str | None, transformers: str | None) -> bool:
    """Whether the class `name` on `transformers` isn't the one on the transformers of the day of TRL `version`."""
    if name not in CLASSES or not transformers:
        return False
    table = find_table(CLASSES[name])
    extends = table.library == "transformers" or (table.base is not None and table.base.library == "transformers")
    day = of_its_day(version) or find_table(CLASSES["TrainingArguments"]).newest
    return extends and version_key(day)[:2] != version_key(transformers)[:2]


def versions_of(name: str, version: str | None, transformers: str | None = None) -> Versions:
    """What the table of the class `name` is asked for when TRL is `version`, on `transformers` or the one of its day;
    None for the newest."""
    day = transformers or of_its_day(version)
    if find_table(CLASSES[name]).library == "transformers":
        return {"transformers": day} if day else None
    found = {"trl": version} if version else {}
    return {**found, **({"transformers": transformers} if transformers else {})} or None


def keywords_of(name: str, version: str | None = None, transformers: str | None = None) -> frozenset[str] | None:
    """What the class `name` takes as TRL `version` had it, on `transformers` or the one of its day; None for a name
    that isn't one of these classes."""
    if name not in CLASSES:
        return None
    table, versions = find_table(CLASSES[name]), versions_of(name, version, transformers)
    return frozenset(table.rows(versions)) | frozenset(table.former(versions))
