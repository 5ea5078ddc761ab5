"""What a script itself tells of its releases: what it uses of them, and the day on which it was last written or run."""
