"""The rows that an SFTTrainer makes of a dataset: that of a release of TRL, or Unsloth's."""
