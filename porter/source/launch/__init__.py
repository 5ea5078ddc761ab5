"""How a source was launched: accelerate's YAML, DeepSpeed's JSON, shell scripts."""
