"""What the engine knows of one library, a room each."""
