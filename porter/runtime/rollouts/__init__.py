"""Training on completions that are sampled and rewarded: GRPO and RLOO."""
