"""What a script and its project ask for, or have run on, and what is installed with that."""
