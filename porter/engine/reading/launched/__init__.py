"""How the GPU run was launched: what launch files say, and what its outputs show."""
