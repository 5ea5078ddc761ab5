"""What the report says of the releases that a script is read as, and of others that it may have run on."""
