"""What packs of rules are written with: `porter.packs.api`, what its steps ask beside it, and nothing else of ours."""
