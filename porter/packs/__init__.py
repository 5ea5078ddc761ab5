"""What packs of rules are written with: `porter.packs.api`, and nothing else of tpu-port."""
