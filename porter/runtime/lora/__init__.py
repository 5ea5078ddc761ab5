"""LoRA as PEFT trains it: rules, initial values, the training step."""
