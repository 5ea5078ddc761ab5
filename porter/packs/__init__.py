"""What packs of rules are written with: `porter.packs.api`, for steps `script` and `training`, and nothing else of tpu-port."""
